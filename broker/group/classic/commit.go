package classic

import (
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// CheckCommit tells whether offsets may be committed: by a member of the generation or, without one, into a group that
// is empty. Transactions of old clients say nothing of a member and are always accepted. A commit keeps the session
// alive.
func (g *Group) CheckCommit(now time.Time, by machine.Committer) (machine.PartitionCheck, error) {
	if by.Generation < 0 && g.state == Empty {
		return nil, nil
	}
	if by.Generation < 0 && by.MemberID == "" && by.InstanceID == nil {
		if by.Transactional {
			return nil, nil
		}
		return nil, kafka.UnknownMemberID
	}
	m, err := g.member(by.MemberID, by.InstanceID)
	switch {
	case err != nil:
		return nil, err
	case by.Generation != g.generation:
		return nil, kafka.IllegalGeneration
	case by.Transactional:
		return nil, nil
	case g.state == CompletingRebalance:
		return nil, kafka.RebalanceInProgress // it has joined the generation and does not own partitions of it yet
	}
	g.touch(now, m)
	return nil, nil
}

// CheckFetch lets everybody read offsets.
func (g *Group) CheckFetch(*string, int32) error { return nil }

// Expiry keeps all offsets while members rebalance, and those of a group whose subscription is not known. Of a stable
// group of consumers it keeps what they read; of an empty one everything expires some time after it became empty.
func (g *Group) Expiry() machine.Expiry {
	switch {
	case g.protocolType == "": // it stores offsets and never had a member
		return machine.Expiry{}
	case g.state == Empty && g.stateSince == unknownTime:
		return machine.Expiry{}
	case g.state == Empty:
		return machine.Expiry{Since: time.UnixMilli(g.stateSince)}
	case g.state == Stable && g.topics != nil:
		return machine.Expiry{Keep: g.subscribed()}
	}
	return machine.Expiry{Never: true}
}

// Summary describes the group.
func (g *Group) Summary() machine.Summary {
	return machine.Summary{
		Type: machine.Classic, State: string(g.state), ProtocolType: g.protocolType,
		Members: len(g.members), Empty: g.state == Empty, Subscribed: g.subscribed(),
	}
}

// subscribed tells of a topic whether the members read it. Consumers whose subscription is not known may read any.
// Others than consumers do not subscribe.
func (g *Group) subscribed() func(topic string) bool {
	if g.protocolType != consumerProtocol {
		return func(string) bool { return false }
	}
	topics := g.topics
	if topics == nil {
		return func(string) bool { return true }
	}
	return func(topic string) bool {
		_, found := topics[topic]
		return found
	}
}

// Tombstones remove the group's record.
func (g *Group) Tombstones() []coordinator.Record { return []coordinator.Record{{Key: g.key()}} }
