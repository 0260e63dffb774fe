package group

import (
	"strings"
	"time"

	"github.com/firnlog/firn/broker/group/machine"
)

// owed is an answer that waits for records to become durable.
type owed struct {
	waiting
	reply machine.Reply
}

// carryOut does what an event of a group leads to, see machine.Step.
func (r *registry) carryOut(s *slot, step machine.Step) {
	defer r.settle(s)
	if why := step.Rebalance; why != nil {
		r.coordinator.options.Logger.Info("a group rebalances", "group", s.id, "cause", why.Cause, "member", why.Member,
			"reason", shortened(why.Reason))
	}
	replies := r.owe(step.Replies)
	if len(step.Records) == 0 {
		r.applied(s, step)
		r.durable(s, step, replies, nil)
		return
	}
	end, err := r.shard.Append(nil, step.Records...)
	if err != nil {
		r.durable(s, step, replies, err)
		return
	}
	r.applied(s, step)
	for _, one := range replies {
		r.hurry(one.waiting)
	}
	r.await(s, end, func(err error) { r.durable(s, step, replies, err) })
}

// maxReason is how much of a client's text goes into the log, as much as the Java client sends (KIP-800).
const maxReason = 255

func shortened(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "…"
}

// owe takes the waiters of replies, which are not the machine's any more: if the shard is lost meanwhile they are
// answered by what becomes of the records.
func (r *registry) owe(replies []machine.Reply) []owed {
	taken := make([]owed, len(replies))
	for i, reply := range replies {
		taken[i] = owed{r.take(reply.Waiter), reply}
	}
	return taken
}

func (r *registry) applied(s *slot, step machine.Step) {
	s.asLoaded = s.asLoaded && len(step.Records) == 0
	if step.Appended != nil {
		step.Appended()
	}
	if step.Successor != nil {
		r.put(s, step.Successor)
	}
}

// durable goes on with a step when it is known what became of its records.
func (r *registry) durable(s *slot, step machine.Step, replies []owed, err error) {
	if step.Durable != nil && !r.lost {
		r.carryOut(s, step.Durable(time.Now(), err))
	}
	for _, one := range replies {
		if err != nil {
			one.refuse(err)
			continue
		}
		one.answer.Resolve(one.reply.Response)
	}
}

// await calls done, with the lock held, when the view has what was appended to the slot.
func (r *registry) await(s *slot, end int64, done func(error)) {
	s.inFlight++
	r.slots[s.id] = s
	r.shard.Await(end, func(err error) {
		r.shard.Lock()
		defer r.shard.Unlock()
		s.inFlight--
		done(err)
		r.settle(s)
	})
}

// settle ends what happened to a group: its timer is set, or it leaves its place if nothing is lost by that.
func (r *registry) settle(s *slot) {
	if r.lost {
		return
	}
	if s.group != nil && !s.idle() {
		s.asLoaded = false
		r.arm(s)
	} else if s.inFlight == 0 && r.slots[s.id] == s {
		delete(r.slots, s.id)
		if s.group != nil && s.asLoaded {
			r.rest(s)
		}
	}
}

// idle tells whether a group has no members and waits for nothing: the view will say the same of it.
func (s *slot) idle() bool {
	_, waits := s.group.NextDeadline()
	return !waits && s.group.Summary().Empty
}

// arm sets the group's timer to its next deadline. One that would fire earlier stays: it finds nothing to do and is set
// again, which is cheaper than to set it with each heartbeat.
func (r *registry) arm(s *slot) {
	deadline, ok := s.group.NextDeadline()
	switch {
	case !ok || !s.armed.IsZero() && !deadline.Before(s.armed):
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(time.Until(deadline), func() { r.tick(s) })
	default:
		s.timer.Reset(time.Until(deadline))
	}
	s.armed = deadline
}

// tick lets happen in a group what is due.
func (r *registry) tick(s *slot) {
	r.shard.Lock()
	defer r.shard.Unlock()
	now := time.Now()
	if r.lost || s.group == nil || r.slots[s.id] != s || now.Before(s.armed) {
		return
	}
	s.armed = time.Time{}
	var step machine.Step
	if deadline, ok := s.group.NextDeadline(); ok && !now.Before(deadline) {
		step = s.group.Tick(now)
	}
	r.carryOut(s, step)
}
