package consumer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/firnlog/firn/broker/group/assignor"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// memberState is how far a member has come on its way to the target, as records number it.
type memberState int8

const (
	stable     memberState = 0 // it has what the target of its epoch gives it
	unrevoked  memberState = 1 // it has been told to give partitions up, and has not said yet that it has
	unreleased memberState = 2 // it waits for partitions that others still have
)

// The epochs that mean something else in a heartbeat, and the last one in records, too.
const (
	joinEpoch        int32 = 0
	leaveEpoch       int32 = -1
	staticLeaveEpoch int32 = -2 // of a static member that is about to come back
)

// partitions are partitions by topic, each with the epoch in which its member got it.
type partitions map[kafka.TopicID]map[int32]int32

// member is a member as of one event; a change makes another one.
type member struct {
	id            string
	subscription  records.ConsumerMemberValue
	epoch         int32
	previousEpoch int32
	state         memberState
	assigned      partitions // what it may read
	revoking      partitions // what it has to give up, and still has
}

func newMember(id string) *member {
	return &member{id: id, subscription: records.ConsumerMemberValue{Regex: new(string), RebalanceTimeoutMs: -1}}
}

// with returns a member that differs in what change says.
func (m *member) with(change func(next *member)) *member {
	next := *m
	change(&next)
	return &next
}

// classic tells whether the member speaks the classic protocol.
func (m *member) classic() bool { return m.subscription.Classic != nil }

// regex is the regular expression that the member subscribes to; empty if it does not.
func (m *member) regex() string {
	if m.subscription.Regex == nil {
		return ""
	}
	return *m.subscription.Regex
}

// instanceID is empty for a dynamic member.
func (m *member) instanceID() string {
	if m.subscription.InstanceID == nil {
		return ""
	}
	return *m.subscription.InstanceID
}

func (m *member) reconciledTo(epoch int32) bool { return m.state == stable && m.epoch == epoch }

// subscribesAs tells whether records would say the same of two members' subscriptions.
func (m *member) subscribesAs(other *member) bool {
	return bytes.Equal(m.subscription.Append(nil), other.subscription.Append(nil))
}

// isAt tells whether records would say the same of what two members have.
func (m *member) isAt(other *member) bool {
	return m.epoch == other.epoch && m.previousEpoch == other.previousEpoch && m.state == other.state &&
		m.assigned.equal(other.assigned) && m.revoking.equal(other.revoking)
}

// member finds a member.
func (g *Group) member(id string) (*member, error) {
	if m, ok := g.members[id]; ok {
		return m, nil
	}
	return nil, fmt.Errorf("member %q is not in group %q: %w", id, g.id, kafka.UnknownMemberID)
}

// staticMember finds the member of an instance id; nil if there is none.
func (g *Group) staticMember(instanceID string) *member {
	if id, ok := g.static[instanceID]; ok {
		return g.members[id]
	}
	return nil
}

func (p partitions) equal(other partitions) bool {
	return maps.EqualFunc(p, other, maps.Equal)
}

// add takes a partition in.
func (p partitions) add(topic kafka.TopicID, partition, epoch int32) {
	if p[topic] == nil {
		p[topic] = map[int32]int32{}
	}
	p[topic][partition] = epoch
}

// has tells whether a partition is among them.
func (p partitions) has(topic kafka.TopicID, partition int32) bool {
	_, ok := p[topic][partition]
	return ok
}

// list is what records hold, ordered so that equal partitions are equal bytes.
func (p partitions) list() []records.TopicPartitions {
	list := make([]records.TopicPartitions, 0, len(p))
	for _, topic := range sortedTopics(p) {
		one := records.TopicPartitions{TopicID: topic, Partitions: slices.Sorted(maps.Keys(p[topic]))}
		for _, partition := range one.Partitions {
			one.Epochs = append(one.Epochs, p[topic][partition])
		}
		list = append(list, one)
	}
	return list
}

// parsePartitions reads what a record holds. Brokers that did not keep epochs yet wrote none: then the member's counts.
func parsePartitions(list []records.TopicPartitions, memberEpoch int32) partitions {
	p := partitions{}
	for _, one := range list {
		for i, partition := range one.Partitions {
			epoch := memberEpoch
			if i < len(one.Epochs) {
				epoch = one.Epochs[i]
			}
			p.add(one.TopicID, partition, epoch)
		}
	}
	return p
}

// targetList is what a record holds of a target.
func targetList(a assignor.Assignment) []records.TopicPartitions {
	list := make([]records.TopicPartitions, 0, len(a))
	for _, topic := range sortedTopics(a) {
		list = append(list, records.TopicPartitions{TopicID: topic, Partitions: a[topic]})
	}
	return list
}

func parseTarget(list []records.TopicPartitions) assignor.Assignment {
	a := assignor.Assignment{}
	for _, one := range list {
		a[one.TopicID] = slices.Sorted(slices.Values(one.Partitions))
	}
	return a
}

func sortedTopics[V any](byTopic map[kafka.TopicID]V) []kafka.TopicID {
	return slices.SortedFunc(maps.Keys(byTopic), func(a, b kafka.TopicID) int { return slices.Compare(a[:], b[:]) })
}
