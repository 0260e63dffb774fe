package group

import (
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/invariant"
	"github.com/firnlog/firn/internal/kafka"
)

// maxResting bounds each of the two generations of groups that rest in the memory of a shard. A group takes about 1 KB.
const maxResting = 128

// registry is what is kept in memory of one shard, under its lock: its groups as far as they have been asked for or
// have members, and who waits for an answer.
type registry struct {
	coordinator *Coordinator
	shard       *coordinator.Shard
	slots       map[string]*slot
	// resting are groups to which nothing is happening and of which the view says the same: to have them here saves
	// those who commit from outside of a group the reads. When the young ones are too many they become the old ones,
	// and the old ones, which nobody has asked for since, are let go.
	resting, restingOld map[string]*slot

	waiting    map[machine.Waiter]waiting
	lastWaiter machine.Waiter
	hurried    hurried
	lost       bool // the shard is not ours any more
}

// slot is the place of one group.
type slot struct {
	id string
	// group is nil if there is no such group, whatever the view may still hold of it.
	group machine.Group
	// appended has the end of the batch for each key of an offset that was appended and that the view does not have yet.
	appended map[string]int64
	// asLoaded says that nothing has happened to the group since it was read from the view, where it has a record, but
	// commits of offsets.
	asLoaded bool
	// inFlight counts batches that the view does not have yet. The slot stays until it has.
	inFlight int

	timer *time.Timer // calls tick; nil until the group first has a deadline
	armed time.Time   // when the timer fires; zero: it does not
}

// waiting is a request without an answer.
type waiting struct {
	answer  *Answer
	refusal refusal
}

func (w waiting) refuse(err error) { w.answer.Resolve(w.refusal(err)) }

// wait draws a waiter for a request.
func (r *registry) wait(answer *Answer, refuse refusal) machine.Waiter {
	r.lastWaiter++
	r.waiting[r.lastWaiter] = waiting{answer, refuse}
	return r.lastWaiter
}

// take ends a waiter's wait: whoever takes it owes the answer.
func (r *registry) take(waiter machine.Waiter) waiting {
	w, ok := r.waiting[waiter]
	invariant.Check(ok, "waiter %d is answered twice", waiter)
	delete(r.waiting, waiter)
	return w
}

// find returns the place of a group, which is loaded from the view if it has not been asked for. A group that does not
// exist has a place, too.
func (r *registry) find(id string) (*slot, error) {
	if s, ok := r.slots[id]; ok {
		return s, nil
	}
	if s := r.awake(id); s != nil {
		r.slots[id] = s
		return s, nil
	}
	group, stored, err := r.load(id)
	if err != nil {
		return nil, err
	}
	s := &slot{id: id}
	if group != nil {
		r.put(s, group)
		s.asLoaded = stored
	}
	return s, nil
}

// rest lets a group that has left its place wait in memory for whoever asks next.
func (r *registry) rest(s *slot) {
	if len(r.resting) >= maxResting {
		r.resting, r.restingOld = map[string]*slot{}, r.resting
	}
	r.resting[s.id] = s
}

// awake takes a group out of those that rest; nil if it is not there.
func (r *registry) awake(id string) *slot {
	for _, generation := range []map[string]*slot{r.resting, r.restingOld} {
		if s, ok := generation[id]; ok {
			delete(generation, id)
			return s
		}
	}
	return nil
}

// put gives a group its place, or a group that goes over to another protocol its new machine.
func (r *registry) put(s *slot, group machine.Group) {
	s.group, s.asLoaded = group, false
	r.slots[s.id] = s
}

// end ends what there is in memory: the shard is lost.
func (r *registry) end() {
	r.lost = true
	r.hurried.stop()
	for _, s := range r.slots {
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	for waiter := range r.waiting {
		r.take(waiter).refuse(kafka.NotCoordinator)
	}
}
