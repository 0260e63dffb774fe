package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// manyLeaveVersion is the first version of LeaveGroup in which several members leave, each with its own error
// (KIP-345).
const manyLeaveVersion = 3

// Leave removes members. An administrator names static ones by their instance alone. The answer waits for the record of
// a group that is empty now, so that it is also after a crash.
func (g *Group) Leave(now time.Time, waiter machine.Waiter, request *kmsg.LeaveGroupRequest) machine.Step {
	var step machine.Step
	leaving := request.Members
	if request.Version < manyLeaveVersion {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: request.MemberID}}
	}
	response := kmsg.NewPtrLeaveGroupResponse()
	before := len(g.members)
	var why machine.Rebalance
	for _, l := range leaving {
		left := len(g.members)
		code := kafka.CodeOf(g.leave(l, &step))
		if len(g.members) < left && why.Cause == "" { // of many that leave at once the first stands for all
			why = LeftBecause(l)
		}
		response.Members = append(response.Members, kmsg.LeaveGroupResponseMember{
			MemberID: l.MemberID, InstanceID: l.InstanceID, ErrorCode: int16(code),
		})
	}
	if request.Version < manyLeaveVersion {
		response.ErrorCode = response.Members[0].ErrorCode
	}
	if len(g.members) < before {
		g.rebalance(now, &step, why)
	} else {
		g.maybeCompleteJoin(now, &step) // it may have waited for an id that is given back
	}
	step.Replies = append(step.Replies, machine.Reply{Waiter: waiter, Response: response})
	return step
}

// LeftBecause says what the rebalance is for that a member's leaving leads to.
func LeftBecause(l kmsg.LeaveGroupRequestMember) machine.Rebalance {
	why := machine.Rebalance{Member: l.MemberID, Cause: "a member has left"}
	if why.Member == "" && l.InstanceID != nil {
		why.Member = *l.InstanceID
	}
	if l.Reason != nil {
		why.Reason = *l.Reason
	}
	return why
}

func (g *Group) leave(l kmsg.LeaveGroupRequestMember, step *machine.Step) error {
	if _, found := g.pending[l.MemberID]; found {
		delete(g.pending, l.MemberID)
		return nil
	}
	memberID := l.MemberID
	if memberID == "" && l.InstanceID != nil {
		static, found := g.static[*l.InstanceID]
		if !found {
			return kafka.UnknownMemberID
		}
		memberID = static.id
	}
	m, err := g.member(memberID, l.InstanceID)
	if err != nil {
		return err
	}
	g.remove(m, step)
	return nil
}
