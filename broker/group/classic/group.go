package classic

import (
	"slices"
	"time"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// Settings bound the groups of a broker.
type Settings struct {
	MinSessionTimeout     time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout     time.Duration // group.max.session.timeout.ms
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms: how long an empty group waits for others
	MaxSize               int           // group.max.size, in members
}

// State is what a group is doing, as Kafka spells it.
type State string

// The states of a group.
const (
	Empty               State = "Empty"               // no members; perhaps some who have been told their ids (KIP-394)
	PreparingRebalance  State = "PreparingRebalance"  // waits until all members have joined anew
	CompletingRebalance State = "CompletingRebalance" // waits for the leader's assignment
	Stable              State = "Stable"              // every member can have its assignment
	Dead                State = "Dead"                // there is no such group; no Group is ever in this state
)

// consumerProtocol is the protocol type of consumers, the only one whose metadata a coordinator can read.
const consumerProtocol = "consumer"

// newMemberTimeout is how long a new member may wait in its first JoinGroup. It has no session yet: it does not know
// its id and cannot send heartbeats. One that has gone away meanwhile would stay for ever; one that is still there asks
// again.
const newMemberTimeout = 5 * time.Minute

// unknownTime is a state timestamp of a record that has none.
const unknownTime = -1

// Group is one group.
type Group struct {
	id       string
	settings Settings

	state      State
	stateSince int64 // Unix milliseconds; unknownTime for a group of an old record
	generation int32
	leader     string // member id; empty if there is none

	protocolType string     // that of the first member there ever was
	protocol     *string    // the one that was chosen for the generation; nil if the group is empty
	topics       topicSet   // what the members of the generation subscribe to; nil if that is not known
	support      votes      // how many members support a protocol
	members      []*member  // in the order in which they joined, so that equal histories lead to equal groups
	byID         memberByID // the same members
	static       memberByID // those with an instance id, by that

	pending map[string]time.Time // ids that were handed out, and until when they may be used

	// A rebalance. initial is set while one waits that began with an empty group: it ends by time only. extension is for
	// how long it may still be prolonged, prolong that a member has come since the delay began.
	initial      bool
	prolong      bool
	delay        time.Duration
	extension    time.Duration
	joinDeadline time.Time // of PreparingRebalance; zero outside of it
	syncDeadline time.Time // of CompletingRebalance and what follows; zero when all have synced
	writing      bool      // the assignment of this generation is being written

	next time.Time // no deadline of the group is before; zero if there is none
}

type (
	votes      = map[string]int
	memberByID = map[string]*member
	topicSet   = map[string]struct{}
)

var _ machine.Group = (*Group)(nil)

// New makes an empty group that nobody has heard of yet.
func New(id string, settings Settings, now time.Time) *Group {
	return &Group{
		id: id, settings: settings, state: Empty, stateSince: now.UnixMilli(),
		support: votes{}, byID: memberByID{}, static: memberByID{}, pending: map[string]time.Time{},
	}
}

// State is what the group is doing.
func (g *Group) State() State { return g.state }

// Generation is the number of the last rebalance.
func (g *Group) Generation() int32 { return g.generation }

// enter goes over to a state.
func (g *Group) enter(state State, now time.Time) {
	g.state, g.stateSince = state, now.UnixMilli()
}

// member finds the member that a request is from, as every request of a member is checked: a static one must still have
// the member id that its instance was given last.
func (g *Group) member(memberID string, instanceID *string) (*member, error) {
	if instanceID != nil {
		static, found := g.static[*instanceID]
		if !found {
			return nil, kafka.UnknownMemberID
		}
		if static.id != memberID {
			return nil, kafka.FencedInstanceID
		}
	}
	if m, found := g.byID[memberID]; found {
		return m, nil
	}
	return nil, kafka.UnknownMemberID
}

// add takes a member in. The first one of a group decides on the protocol type, and leads.
func (g *Group) add(m *member) {
	if len(g.members) == 0 {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instanceID != nil {
		g.static[*m.instanceID] = m
	}
	g.count(m, 1)
	delete(g.pending, m.id)
}

// remove forgets a member. If it waits, it is told that it is not known any more: a client that is still there joins
// again.
func (g *Group) remove(m *member, step *machine.Step) {
	g.answerJoin(m, joinError(kafka.UnknownMemberID, ""), step)
	g.answerSync(m, syncError(kafka.UnknownMemberID), step)
	g.count(m, -1)
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	delete(g.byID, m.id)
	if m.instanceID != nil {
		delete(g.static, *m.instanceID)
	}
	if g.leader != m.id {
		return
	}
	g.leader = ""
	if len(g.members) > 0 {
		g.leader = g.members[0].id
	}
}

// count adds to, or takes from, the numbers of members that support a protocol.
func (g *Group) count(m *member, by int) {
	for _, p := range m.protocols {
		if g.support[p.name] += by; g.support[p.name] == 0 {
			delete(g.support, p.name)
		}
	}
}

// allJoined tells whether a rebalance waits for nobody any more, those included whose ids were handed out.
func (g *Group) allJoined() bool {
	return len(g.pending) == 0 && g.joining() == len(g.members)
}

// joining is the number of members that wait in JoinGroup.
func (g *Group) joining() int {
	count := 0
	for _, m := range g.members {
		if m.join != 0 {
			count++
		}
	}
	return count
}

// rebalanceTimeout is the longest of the members'.
func (g *Group) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}
