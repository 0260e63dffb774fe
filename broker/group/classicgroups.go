package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// Join serves JoinGroup, usually at the end of the rebalance that it makes. A member without an id makes the group that
// does not exist; a group of the consumer protocol is made a classic one if it is empty, else it takes the member in.
func (c *Coordinator) Join(request *kmsg.JoinGroupRequest, client machine.Client) *Answer {
	refuse := func(err error) kmsg.Response {
		response := kmsg.NewPtrJoinGroupResponse()
		response.ErrorCode, response.MemberID = int16(errorCode(err)), request.MemberID
		return response
	}
	if request.Group == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		join := classic.Join{Waiter: t.waiter, Request: request, Client: client, NewID: newMemberID()}
		switch group := t.slot.group.(type) {
		case *classic.Group:
			return group.Join(t.now, join), nil
		case *consumer.Group:
			if !group.Summary().Empty {
				return group.Join(t.now, join)
			}
		}
		if request.MemberID != "" {
			return machine.Step{}, kafka.UnknownMemberID
		}
		return t.joinFirst(join, refuse), nil
	})
}

// joinFirst makes a classic group for its first member, in the place of nothing or of an empty group of the consumer
// protocol.
func (t turn) joinFirst(join classic.Join, refuse refusal) machine.Step {
	group := classic.New(t.slot.id, t.coordinator.options.Config.Classic, t.now)
	step := group.Join(t.now, join)
	step.Successor = group
	if t.slot.group == nil {
		return step
	}
	step.Records = append(t.slot.group.Tombstones(), step.Records...)
	if len(step.Replies) == 0 {
		step.Durable = func(_ time.Time, err error) machine.Step {
			if err == nil {
				return machine.Step{}
			}
			return t.reply(refuse(err)) // the group in which it waits has not come to be
		}
	}
	return step
}

// classicOrNone is the group of the turn or, if there is none, one that knows no member: it refuses as it should.
func (t turn) classicOrNone() (*classic.Group, *consumer.Group) {
	switch group := t.slot.group.(type) {
	case *classic.Group:
		return group, nil
	case *consumer.Group:
		return nil, group
	}
	return classic.New(t.slot.id, t.coordinator.options.Config.Classic, t.now), nil
}

// protocolNamedFrom is the version from which on SyncGroup has to name the protocol (KIP-559).
const protocolNamedFrom = 5

// Sync serves SyncGroup: the assignment of a member.
func (c *Coordinator) Sync(request *kmsg.SyncGroupRequest) *Answer {
	refuse := func(err error) kmsg.Response {
		response := kmsg.NewPtrSyncGroupResponse()
		response.ErrorCode = int16(errorCode(err))
		return response
	}
	if request.Version >= protocolNamedFrom && (request.ProtocolType == nil || request.Protocol == nil) {
		return coordinator.Resolved(refuse(kafka.InconsistentGroupProtocol))
	}
	if request.Group == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		group, consumers := t.classicOrNone()
		if consumers != nil {
			return consumers.Sync(t.now, t.waiter, request)
		}
		return group.Sync(t.waiter, request), nil
	})
}

// Heartbeat serves Heartbeat of classic members.
func (c *Coordinator) Heartbeat(request *kmsg.HeartbeatRequest) *Answer {
	refuse := func(err error) kmsg.Response {
		response := kmsg.NewPtrHeartbeatResponse()
		if code := errorCode(err); code != kafka.CoordinatorLoadInProgress { // the member need not know, its session is safe
			response.ErrorCode = int16(code)
		}
		return response
	}
	if request.Group == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		group, consumers := t.classicOrNone()
		if consumers != nil {
			return consumers.HeartbeatClassic(t.now, t.waiter, request)
		}
		return t.reply(kmsg.NewPtrHeartbeatResponse()), group.Heartbeat(t.now, request)
	})
}

// Leave serves LeaveGroup: members leave, or are sent away.
func (c *Coordinator) Leave(request *kmsg.LeaveGroupRequest) *Answer {
	refuse := func(err error) kmsg.Response {
		response := kmsg.NewPtrLeaveGroupResponse()
		response.ErrorCode = int16(errorCode(err))
		return response
	}
	if request.Group == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		group, consumers := t.classicOrNone()
		if consumers != nil {
			return consumers.LeaveClassic(t.now, t.waiter, request), nil
		}
		return group.Leave(t.now, t.waiter, request), nil
	})
}
