package consumer

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/assignor"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// Migration is group.consumer.migration.policy: which groups with members may go over to the other protocol. Groups
// without members always may.
type Migration string

// The policies.
const (
	Disabled      Migration = "disabled"
	Upgrades      Migration = "upgrade"   // from the classic protocol
	Downgrades    Migration = "downgrade" // to it
	Bidirectional Migration = "bidirectional"
)

// Upgrade makes a group of the consumer protocol of a classic one, for a member of that protocol that joins it. The
// members of the classic group go on as members of the new one, with the partitions that they have; those that wait for
// an answer are told to join again. After an error the classic group is as before.
func Upgrade(now time.Time, from *classic.Group, g *Group, h Heartbeat) (machine.Step, error) {
	c := g.begin(now)
	if err := c.takeOver(from); err != nil {
		return machine.Step{}, err
	}
	step, err := g.Heartbeat(now, h)
	if err != nil {
		return machine.Step{}, err
	}
	taken := c.step()
	step.Records = append(append(from.Tombstones(), taken.Records...), step.Records...)
	appended := step.Appended
	step.Appended = func() {
		taken.Appended()
		appended()
	}
	step.Replies = append(step.Replies, from.Abandon()...)
	step.Successor = g
	return step, nil
}

func (c *change) takeOver(from *classic.Group) error {
	settings := c.settings
	members, ok := from.Consumers()
	switch {
	case len(members) == 0 && ok:
		return nil
	case settings.Migration != Upgrades && settings.Migration != Bidirectional:
		return fmt.Errorf("group %q has members of the classic protocol, and group.consumer.migration.policy=%s: %w",
			c.id, settings.Migration, kafka.GroupIDNotFound)
	case !ok:
		return fmt.Errorf("group %q is not one of consumers: %w", c.id, kafka.GroupIDNotFound)
	case len(members) > settings.MaxSize:
		return fmt.Errorf("group %q has more than group.consumer.max.size=%d members: %w", c.id, settings.MaxSize,
			kafka.GroupIDNotFound)
	}
	topics, generation := c.topics(), from.Generation()
	for _, consumer := range members {
		m, err := fromClassic(topics, consumer, generation)
		if err != nil {
			return fmt.Errorf("group %q: %w", c.id, err)
		}
		c.setSubscription(m)
		c.setCurrent(m)
		c.setTarget(m.id, m.assigned.assignment())
		c.then(func() { c.expectWithin(m.id, c.sessionTimeout(m)) })
	}
	c.setEpoch(generation, c.hash(topics))
	c.setTargetEpoch(0)
	return nil
}

// fromClassic makes a member of one of a classic group.
func fromClassic(topics Topics, consumer classic.Consumer, generation int32) (*member, error) {
	unreadable := func(what string, err error) error {
		return fmt.Errorf("the %s of classic member %q cannot be read (%w): %w", what, consumer.ID, err,
			kafka.GroupIDNotFound)
	}
	var subscription kmsg.ConsumerMemberMetadata
	if err := subscription.ReadFrom(consumer.Subscription); err != nil {
		return nil, unreadable("subscription", err)
	}
	var assignment kmsg.ConsumerMemberAssignment
	if len(consumer.Assignment) > 0 {
		if err := assignment.ReadFrom(consumer.Assignment); err != nil {
			return nil, unreadable("assignment", err)
		}
	}
	assigned := partitions{}
	for _, one := range assignment.Topics {
		if topic, ok := topics.Named(one.Topic); ok {
			for _, partition := range one.Partitions {
				assigned.add(topic.ID, partition, generation)
			}
		}
	}
	return &member{
		id: consumer.ID, epoch: generation, previousEpoch: generation, assigned: assigned,
		subscription: records.ConsumerMemberValue{
			InstanceID: consumer.InstanceID, RackID: subscription.Rack,
			ClientID: consumer.Client.ID, ClientHost: consumer.Client.Host,
			Topics: nameSet(subscription.Topics), Regex: new(string),
			RebalanceTimeoutMs: int32(consumer.RebalanceTimeout.Milliseconds()),
			Classic: &records.ClassicMember{
				SessionTimeoutMs: int32(consumer.SessionTimeout.Milliseconds()), Protocols: consumer.Protocols,
			},
		},
	}, nil
}

// mayDowngrade tells whether a group of members may become a classic one.
func (g *Group) mayDowngrade(members int) bool {
	policy := g.settings.Migration
	return (policy == Downgrades || policy == Bidirectional) && members > 0 && members <= g.settings.Classic.MaxSize
}

// downgrade makes a classic group of one whose last member of the consumer protocol has just been removed, and has the
// others join again. It is false if that may not be.
func (c *change) downgrade() bool {
	if !c.mayDowngrade(len(c.members)) || c.consumers() > 0 {
		return false
	}
	successor := classic.Load(c.id, c.settings.Classic, c.classicRecord(), c.now)
	rebalance := successor.Rebalance(c.now)
	if c.rebalance == nil {
		c.rebalance = rebalance.Rebalance
	}
	c.records = append(c.records, c.Tombstones()...)
	c.records = append(c.records, successor.Record())
	c.records = append(c.records, rebalance.Records...)
	c.successor = successor
	return true
}

// consumers is the number of members that speak the consumer protocol.
func (g *Group) consumers() int {
	count := 0
	for _, m := range g.members {
		if !m.classic() {
			count++
		}
	}
	return count
}

// downgradeByReplacement makes a classic group of one whose last member of the consumer protocol is static and is
// replaced by one of the classic protocol, which then joins that.
func (g *Group) downgradeByReplacement(now time.Time, j classic.Join) (machine.Step, bool) {
	if j.Request.InstanceID == nil || j.Request.MemberID != "" || !g.mayDowngrade(len(g.members)) {
		return machine.Step{}, false
	}
	last := g.staticMember(*j.Request.InstanceID)
	if last == nil || last.classic() || g.consumers() > 1 {
		return machine.Step{}, false
	}
	tombstones := g.Tombstones()
	subscription, err := subscriptionOf(j.Request)
	if err != nil {
		return machine.Step{}, false
	}
	c := g.begin(now)
	c.replace(last.with(func(next *member) { next.subscribeClassic(j, subscription) }))
	successor := classic.Load(g.id, g.settings.Classic, g.classicRecord(), now)
	takeBack(c.undo)
	step := successor.Join(now, j)
	if len(step.Records) == 0 {
		step.Records = append(step.Records, successor.Record())
	}
	step.Records = append(tombstones, step.Records...)
	step.Successor = successor
	return step, true
}

// classicRecord is the group as one of the classic protocol: in a generation of the epoch's number, with each member's
// target as its assignment.
func (g *Group) classicRecord() *kmsg.GroupMetadataValue {
	value, topics := kmsg.NewGroupMetadataValue(), g.topics()
	record := &value
	record.ProtocolType, record.Generation = consumerProtocolType, g.epoch
	protocol := g.commonProtocol()
	record.Protocol = &protocol
	for _, id := range sortedKeys(g.members) {
		m := g.members[id]
		if record.Leader == nil {
			record.Leader = &m.id
		}
		one := kmsg.NewGroupMetadataValueMember()
		one.MemberID, one.InstanceID = m.id, m.subscription.InstanceID
		one.ClientID, one.ClientHost = m.subscription.ClientID, m.subscription.ClientHost
		one.RebalanceTimeoutMillis = m.subscription.RebalanceTimeoutMs
		one.SessionTimeoutMillis = m.subscription.Classic.SessionTimeoutMs
		for _, p := range m.subscription.Classic.Protocols {
			if p.Name == protocol {
				one.Subscription = p.Metadata
			}
		}
		one.Assignment = encodeAssignment(topics, m, g.target[id])
		record.Members = append(record.Members, one)
	}
	return record
}

// commonProtocol is the first assignor of the first member that all members have. Join sees to it that there is one.
func (g *Group) commonProtocol() string {
	votes, ids := map[string]int{}, sortedKeys(g.members)
	for _, id := range ids {
		for _, p := range g.members[id].subscription.Classic.Protocols {
			votes[p.Name]++
		}
	}
	for _, p := range g.members[ids[0]].subscription.Classic.Protocols {
		if votes[p.Name] == len(ids) {
			return p.Name
		}
	}
	return g.members[ids[0]].subscription.Classic.Protocols[0].Name
}

// encodeAssignment writes an assignment in the format of classic consumers, in the version of the member's
// subscription.
func encodeAssignment(topics Topics, m *member, a assignor.Assignment) []byte {
	assignment := kmsg.NewConsumerMemberAssignment()
	if metadata := m.subscription.Classic.Protocols[0].Metadata; len(metadata) >= 2 {
		assignment.Version = int16(binary.BigEndian.Uint16(metadata))
	}
	for _, id := range sortedTopics(a) {
		if topic, ok := topics.WithID(id); ok {
			assignment.Topics = append(assignment.Topics, kmsg.ConsumerMemberAssignmentTopic{
				Topic: topic.Name, Partitions: a[id],
			})
		}
	}
	return assignment.AppendTo(nil)
}
