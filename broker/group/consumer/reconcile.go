package consumer

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/assignor"
	"github.com/firnlog/firn/internal/kafka"
)

// owned is what a member says that it has; nil if it does not say.
type owned map[kafka.TopicIDPartition]struct{}

func ownedOf(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) owned {
	if topics == nil {
		return nil
	}
	o := owned{}
	for _, topic := range topics {
		for _, partition := range topic.Partitions {
			o[kafka.TopicIDPartition{ID: topic.TopicID, Partition: partition}] = struct{}{}
		}
	}
	return o
}

// within tells whether all of it is among some partitions.
func (o owned) within(p partitions) bool {
	for tp := range o {
		if !p.has(tp.ID, tp.Partition) {
			return false
		}
	}
	return true
}

// anyOf tells whether the member may still have one of some partitions. Who does not say has them.
func (o owned) anyOf(p partitions) bool {
	if o == nil {
		return len(p) > 0
	}
	for tp := range o {
		if p.has(tp.ID, tp.Partition) {
			return true
		}
	}
	return false
}

// reconcile takes a member as far towards the target as it can go now. subscribed says that its subscription has
// changed: then it gives up what it does not subscribe to any more without waiting for a target that says so.
func (c *change) reconcile(m *member, has owned, subscribed bool) *member {
	if m.reconciledTo(c.targetEpoch) && !subscribed {
		return m
	}
	next := c.next(m, has, subscribed)
	if _, known := c.members[m.id]; known && next.isAt(m) {
		return next
	}
	c.setCurrent(next)
	c.then(func() { c.expectRevocation(next) })
	return next
}

// next is where a member is after what it says it has.
func (c *change) next(m *member, has owned, subscribed bool) *member {
	topics := c.subscribedTopics(m)
	switch {
	case m.reconciledTo(c.targetEpoch), m.state == unrevoked && has.anyOf(m.revoking):
		// It has arrived, or has not given up yet what it was told to; it is only told to give up more.
		if subscribed {
			return dropUnsubscribed(m, has, topics)
		}
		return m
	}
	return c.approach(m, has, topics)
}

// dropUnsubscribed takes from a member what it does not subscribe to any more.
func dropUnsubscribed(m *member, has owned, subscribed map[kafka.TopicID]bool) *member {
	keeps, revoking := partitions{}, partitions{}
	for topic, numbers := range m.assigned {
		for partition, epoch := range numbers {
			if subscribed[topic] {
				keeps.add(topic, partition, epoch)
			} else {
				revoking.add(topic, partition, epoch)
			}
		}
	}
	if len(revoking) == 0 {
		return m
	}
	for topic, numbers := range m.revoking {
		for partition, epoch := range numbers {
			revoking.add(topic, partition, epoch)
		}
	}
	return m.with(func(next *member) {
		next.assigned = keeps
		if has.anyOf(revoking) {
			next.state, next.revoking = unrevoked, revoking
		}
	})
}

// approach compares what a member has with what it is to have. First it gives up what it is not to have any more, in
// the epoch in which it is; then it enters the target's epoch and gets what is free; then it waits for what is not.
func (c *change) approach(m *member, has owned, subscribed map[kafka.TopicID]bool) *member {
	target := c.target[m.id]
	keeps, revoking := partitions{}, partitions{}
	for topic, numbers := range m.assigned {
		for partition, epoch := range numbers {
			if subscribed[topic] && contains(target, topic, partition) {
				keeps.add(topic, partition, epoch)
			} else {
				revoking.add(topic, partition, epoch)
			}
		}
	}
	if has.anyOf(revoking) {
		return m.with(func(next *member) {
			next.state = unrevoked
			next.assigned, next.revoking = keeps, revoking
		})
	}
	state := stable
	for topic, numbers := range target {
		for _, partition := range numbers {
			switch {
			case !subscribed[topic] || keeps.has(topic, partition):
			case c.isFree(m, topic, partition):
				keeps.add(topic, partition, c.targetEpoch)
			default:
				state = unreleased
			}
		}
	}
	return m.with(func(next *member) {
		next.state, next.assigned, next.revoking = state, keeps, nil
		if next.epoch != c.targetEpoch { // the one before stays known as long as an answer with the new one may be lost
			next.epoch, next.previousEpoch = c.targetEpoch, m.epoch
		}
	})
}

// isFree tells whether nobody else has a partition. What the member itself was to give up it may keep.
func (g *Group) isFree(m *member, topic kafka.TopicID, partition int32) bool {
	owner, taken := g.owners[kafka.TopicIDPartition{ID: topic, Partition: partition}]
	return !taken || owner == m.id
}

func contains(a assignor.Assignment, topic kafka.TopicID, partition int32) bool {
	for _, one := range a[topic] {
		if one == partition {
			return true
		}
	}
	return false
}

// subscribedTopics are the topics that a member subscribes to and that exist.
func (g *Group) subscribedTopics(m *member) map[kafka.TopicID]bool {
	topics, subscribed := g.topics(), map[kafka.TopicID]bool{}
	for _, name := range g.namesOf(m) {
		if topic, ok := topics.Named(name); ok {
			subscribed[topic.ID] = true
		}
	}
	return subscribed
}

// namesOf are the topics that a member subscribes to, by name or by its expression; some may be there twice.
func (g *Group) namesOf(m *member) []string {
	e, ok := g.expressions[m.regex()]
	switch {
	case !ok:
		return m.subscription.Topics
	case len(m.subscription.Topics) == 0:
		return e.topics
	}
	return append(append([]string{}, m.subscription.Topics...), e.topics...)
}
