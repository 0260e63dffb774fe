package classic

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// Sync gives a member its assignment, once the leader has sent it and it is written.
func (g *Group) Sync(waiter machine.Waiter, request *kmsg.SyncGroupRequest) machine.Step {
	var step machine.Step
	if response := g.syncGroup(waiter, request, &step); response != nil {
		step.Replies = append(step.Replies, machine.Reply{Waiter: waiter, Response: response})
	}
	return step
}

// syncGroup returns the answer, or nil if the waiter waits.
func (g *Group) syncGroup(waiter machine.Waiter, request *kmsg.SyncGroupRequest, step *machine.Step,
) *kmsg.SyncGroupResponse {
	m, err := g.member(request.MemberID, request.InstanceID)
	switch {
	case err != nil:
		return syncError(kafka.CodeOf(err))
	case request.Generation != g.generation:
		return syncError(kafka.IllegalGeneration)
	case contradicts(request.ProtocolType, &g.protocolType) || contradicts(request.Protocol, g.protocol):
		return syncError(kafka.InconsistentGroupProtocol)
	case g.state == PreparingRebalance:
		return syncError(kafka.RebalanceInProgress)
	}
	m.unsynced = false
	if !g.awaitsSync() {
		g.expectSync(time.Time{})
	}
	if g.state == Stable {
		return g.assigned(m)
	}
	g.answerSync(m, syncError(kafka.RebalanceInProgress), step) // of a connection that the client has given up
	m.sync = waiter
	if m.id == g.leader && !g.writing {
		g.assign(request.GroupAssignment, step)
	}
	return nil
}

// contradicts tells whether a member believes in another protocol than the group's.
func contradicts(said, is *string) bool {
	return said != nil && is != nil && *said != *is
}

// assign writes the leader's assignment. Members that it has forgotten are assigned nothing; those that it invents are
// ignored.
func (g *Group) assign(list []kmsg.SyncGroupRequestGroupAssignment, step *machine.Step) {
	assignments := make(map[string][]byte, len(list))
	for _, a := range list {
		assignments[a.MemberID] = bytes.Clone(a.MemberAssignment)
	}
	generation := g.generation
	g.writing = true
	g.write(step, assignments, func(now time.Time, err error) machine.Step {
		return g.written(now, generation, assignments, err)
	})
}

// written ends a rebalance, unless the next one has begun before the assignment was written.
func (g *Group) written(now time.Time, generation int32, assignments map[string][]byte, err error) machine.Step {
	var step machine.Step
	if g.state != CompletingRebalance || g.generation != generation {
		return step
	}
	g.writing = false
	if err != nil {
		g.propagate(now, writeError(err), &step)
		g.rebalance(now, &step, machine.Rebalance{Cause: "the assignment could not be written"})
		return step
	}
	g.enter(Stable, now)
	for _, m := range g.members {
		m.assignment = assignments[m.id]
	}
	g.propagate(now, kafka.None, &step)
	return step
}

// propagate answers all that wait for their assignment. With an error nobody has one any more.
func (g *Group) propagate(now time.Time, code kafka.Errno, step *machine.Step) {
	for _, m := range g.members {
		if code != kafka.None {
			m.assignment = nil
		}
		if m.sync == 0 {
			continue
		}
		response := g.assigned(m)
		if code != kafka.None {
			response = syncError(code)
		}
		g.answerSync(m, response, step)
		g.expect(m, now.Add(m.sessionTimeout))
	}
}

// assigned is the answer with a member's assignment.
func (g *Group) assigned(m *member) *kmsg.SyncGroupResponse {
	response := kmsg.NewPtrSyncGroupResponse()
	protocolType := g.protocolType // the answer outlives the event
	response.ProtocolType, response.Protocol = &protocolType, g.protocol
	response.MemberAssignment = m.assignment
	return response
}

func syncError(code kafka.Errno) *kmsg.SyncGroupResponse {
	response := kmsg.NewPtrSyncGroupResponse()
	response.ErrorCode = int16(code)
	return response
}

// answerSync answers the SyncGroup that a member waits in, if it does.
func (g *Group) answerSync(m *member, response *kmsg.SyncGroupResponse, step *machine.Step) {
	if m.sync != 0 {
		step.Replies = append(step.Replies, machine.Reply{Waiter: m.sync, Response: response})
		m.sync = 0
	}
}

// expectSync sets until when the members of the generation must have synced, or with the zero time that none has to.
func (g *Group) expectSync(deadline time.Time) {
	g.syncDeadline = deadline
	if !deadline.IsZero() {
		g.arm(deadline)
		return
	}
	for _, m := range g.members {
		m.unsynced = false
	}
}

func (g *Group) awaitsSync() bool {
	for _, m := range g.members {
		if m.unsynced {
			return true
		}
	}
	return false
}

// writeError is what a member is told when the group could not be written. A record that is too large is none of its
// business, and joining again does not help.
func writeError(err error) kafka.Errno {
	switch code := kafka.CodeOf(err); code {
	case kafka.MessageTooLarge, kafka.RecordListTooLarge:
		return kafka.UnknownServerError
	default:
		return code
	}
}
