package classic

import (
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// Consumer is what a group tells of a member when it becomes one of the consumer protocol.
type Consumer struct {
	ID               string
	InstanceID       *string
	Client           machine.Client
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	Protocols        []records.ClassicProtocol
	Subscription     []byte // for the chosen protocol or, if none is chosen yet, for the first
	Assignment       []byte
}

// Consumers lists the members of a group of consumers, or of a group without members; it is false for others.
func (g *Group) Consumers() ([]Consumer, bool) {
	if len(g.members) > 0 && g.protocolType != consumerProtocol {
		return nil, false
	}
	consumers := make([]Consumer, len(g.members))
	for i, m := range g.members {
		consumers[i] = Consumer{
			ID: m.id, InstanceID: m.instanceID, Client: m.client,
			SessionTimeout: m.sessionTimeout, RebalanceTimeout: m.rebalanceTimeout,
			Subscription: m.metadata(g.protocol), Assignment: m.assignment,
		}
		for _, p := range m.protocols {
			consumers[i].Protocols = append(consumers[i].Protocols, records.ClassicProtocol{
				Name: p.name, Metadata: p.metadata,
			})
		}
		if consumers[i].Subscription == nil && len(m.protocols) > 0 {
			consumers[i].Subscription = m.protocols[0].metadata
		}
	}
	return consumers, true
}

// Abandon answers all who wait that they have to join again: somebody else goes on with the group.
func (g *Group) Abandon() []machine.Reply {
	var step machine.Step
	for _, m := range g.members {
		g.answerJoin(m, joinError(kafka.RebalanceInProgress, m.id), &step)
		g.answerSync(m, syncError(kafka.RebalanceInProgress), &step)
	}
	return step.Replies
}

// Rebalance has the members join again.
func (g *Group) Rebalance(now time.Time) machine.Step {
	var step machine.Step
	g.rebalance(now, &step, machine.Rebalance{Cause: "the last member of the consumer protocol has gone"})
	return step
}

// Record is the group as it is now.
func (g *Group) Record() coordinator.Record {
	value := g.record(nil)
	return coordinator.Record{Key: g.key(), Value: value.AppendTo(nil)}
}
