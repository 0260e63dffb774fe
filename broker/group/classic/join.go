package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// The first versions of JoinGroup that can do a thing.
const (
	memberIDRequiredVersion = 4 // KIP-394
	skipAssignmentVersion   = 9 // KIP-814
)

// Join is a JoinGroup request.
type Join struct {
	Waiter  machine.Waiter
	Request *kmsg.JoinGroupRequest
	Client  machine.Client
	// NewID makes a new member's id unique: a random UUID. Unused if the request brings a member id.
	NewID string
}

// Join lets a member in, or lets it join again, which it has to in each rebalance. A member without an id gets one, and
// has to come back with it (KIP-394), unless it is static or its version is older. The answer usually comes at the end
// of the rebalance that this begins.
func (g *Group) Join(now time.Time, j Join) machine.Step {
	var step machine.Step
	if response := g.joinGroup(now, j, &step); response != nil {
		step.Replies = append(step.Replies, machine.Reply{Waiter: j.Waiter, Response: response})
	}
	return step
}

// joinGroup returns the answer, or nil if the waiter waits.
func (g *Group) joinGroup(now time.Time, j Join, step *machine.Step) *kmsg.JoinGroupResponse {
	request := j.Request
	if timeout := milliseconds(request.SessionTimeoutMillis); timeout < g.settings.MinSessionTimeout ||
		timeout > g.settings.MaxSessionTimeout {
		return joinError(kafka.InvalidSessionTimeout, request.MemberID)
	}
	if !g.hasRoomFor(request.MemberID) {
		g.turnAway(now, request.MemberID, step)
		return joinError(kafka.GroupMaxSizeReached, "")
	}
	if !g.supports(request.ProtocolType, request.Protocols) {
		return joinError(kafka.InconsistentGroupProtocol, request.MemberID)
	}
	if request.MemberID == "" {
		return g.joinNew(now, j, step)
	}
	if _, known := g.pending[request.MemberID]; known && request.InstanceID == nil {
		g.admit(now, j, request.MemberID, step)
		return nil
	}
	m, err := g.member(request.MemberID, request.InstanceID)
	if err != nil {
		return joinError(kafka.CodeOf(err), request.MemberID)
	}
	return g.joinAgain(now, j, m, step)
}

// hasRoomFor tells whether the group may take a member without growing beyond its limit. During a rebalance only those
// that have joined count, so that a group that is too large loses those that come last.
func (g *Group) hasRoomFor(memberID string) bool {
	m, known := g.byID[memberID]
	switch g.state {
	case PreparingRebalance:
		return known && m.join != 0 || g.joining() < g.settings.MaxSize
	case CompletingRebalance, Stable:
		return known || len(g.members) < g.settings.MaxSize
	}
	return true
}

// turnAway forgets whom the group has no room for. It does not wait for it any longer.
func (g *Group) turnAway(now time.Time, memberID string, step *machine.Step) {
	delete(g.pending, memberID)
	if m, known := g.byID[memberID]; known {
		g.remove(m, step)
	}
	g.maybeCompleteJoin(now, step)
}

// supports tells whether a member speaks a protocol that all members of the group speak.
func (g *Group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	for _, p := range protocols {
		if g.support[p.Name] == len(g.members) {
			return true
		}
	}
	return false
}

// joinNew is for a member that has no id yet.
func (g *Group) joinNew(now time.Time, j Join, step *machine.Step) *kmsg.JoinGroupResponse {
	request := j.Request
	if request.InstanceID != nil {
		newID := *request.InstanceID + "-" + j.NewID
		if m, found := g.static[*request.InstanceID]; found {
			g.replaceStatic(now, j, m, newID, step)
		} else {
			g.admit(now, j, newID, step)
		}
		return nil
	}
	newID := j.Client.ID + "-" + j.NewID
	if request.Version < memberIDRequiredVersion {
		g.admit(now, j, newID, step)
		return nil
	}
	g.pending[newID] = now.Add(milliseconds(request.SessionTimeoutMillis))
	g.arm(g.pending[newID])
	return joinError(kafka.MemberIDRequired, newID)
}

// admit makes a new member, and with it a rebalance.
func (g *Group) admit(now time.Time, j Join, memberID string, step *machine.Step) {
	m := &member{id: memberID, instanceID: j.Request.InstanceID, isNew: true, join: j.Waiter}
	m.set(j)
	if len(g.members) == 0 {
		g.protocolType = j.Request.ProtocolType
	}
	if g.initial {
		g.prolong = true
	}
	g.add(m)
	g.expect(m, now.Add(newMemberTimeout))
	g.rebalance(now, step, j.Why("a new member has joined", m.id))
}

// joinAgain is for a member of the group.
func (g *Group) joinAgain(now time.Time, j Join, m *member, step *machine.Step) *kmsg.JoinGroupResponse {
	unchanged := m.says(newProtocols(j.Request.Protocols))
	switch {
	case g.state == CompletingRebalance && unchanged:
		return g.joined(m) // it may have missed the first answer
	case g.state == Stable && unchanged && g.leader != m.id:
		// Only the leader makes a rebalance out of nothing: it knows of changes, such as new partitions, that show in no
		// member's metadata.
		return g.joined(m)
	}
	why := "a member has joined again with other protocols"
	if unchanged {
		why = "the leader has joined again"
	}
	g.update(m, j, step)
	g.rebalance(now, step, j.Why(why, m.id))
	return nil
}

// Why says what the rebalance is for that a request of a member leads to.
func (j *Join) Why(cause, memberID string) machine.Rebalance {
	why := machine.Rebalance{Member: memberID, Cause: cause}
	if j.Request.Reason != nil {
		why.Reason = *j.Request.Reason
	}
	return why
}

// update takes over what a member says now, and lets its waiter wait. One that waited before is of a connection that
// the client has given up.
func (g *Group) update(m *member, j Join, step *machine.Step) {
	g.answerJoin(m, joinError(kafka.RebalanceInProgress, m.id), step)
	g.count(m, -1)
	m.set(j)
	g.count(m, 1)
	m.join = j.Waiter
}

// joined is the answer to a member of the generation. Only the leader is told about the others.
func (g *Group) joined(m *member) *kmsg.JoinGroupResponse {
	response := kmsg.NewPtrJoinGroupResponse()
	response.MemberID, response.LeaderID = m.id, g.leader
	protocolType := g.protocolType // the answer outlives the event
	response.Generation, response.ProtocolType, response.Protocol = g.generation, &protocolType, g.protocol
	if m.id == g.leader {
		response.Members = g.others()
	}
	return response
}

// others lists all members for the leader, itself among them.
func (g *Group) others() []kmsg.JoinGroupResponseMember {
	list := make([]kmsg.JoinGroupResponseMember, len(g.members))
	for i, m := range g.members {
		list[i] = kmsg.JoinGroupResponseMember{
			MemberID: m.id, InstanceID: m.instanceID, ProtocolMetadata: m.metadata(g.protocol),
		}
	}
	return list
}

func joinError(code kafka.Errno, memberID string) *kmsg.JoinGroupResponse {
	response := kmsg.NewPtrJoinGroupResponse()
	response.ErrorCode, response.MemberID = int16(code), memberID
	return response
}

// answerJoin answers the JoinGroup that a member waits in, if it does.
func (g *Group) answerJoin(m *member, response *kmsg.JoinGroupResponse, step *machine.Step) {
	if m.join != 0 {
		step.Replies = append(step.Replies, machine.Reply{Waiter: m.join, Response: response})
		m.join = 0
	}
}
