package consumer

import (
	"slices"
	"time"

	"github.com/firnlog/firn/broker/group/assignor"
	"github.com/firnlog/firn/internal/kafka"
)

// assign computes the target of the group's epoch, unless the last one is too young: then it waits for Tick, so that
// many members that come at once make for few targets.
func (c *change) assign() {
	if c.epoch <= c.targetEpoch || c.now.Before(c.nextAssignment()) {
		return
	}
	assign, _ := assignor.Named(c.assignorName())
	target := assign(c.assignorGroup())
	for _, id := range sortedKeys(target) {
		if before, had := c.target[id]; !had || !before.Equal(target[id]) {
			c.setTarget(id, target[id])
		}
	}
	c.setTargetEpoch(c.now.UnixMilli())
}

// nextAssignment is from when on there may be another target. Who joins a group without members need not wait.
func (g *Group) nextAssignment() time.Time {
	if len(g.target) == 0 {
		return time.UnixMilli(0)
	}
	return time.UnixMilli(g.targetAt).Add(g.intervals().Assignment)
}

// assignorName is the assignor that most members ask for. Those that the settings do not have any more do not count.
func (g *Group) assignorName() string {
	votes := map[string]int{}
	for _, m := range g.members {
		if name := m.subscription.ServerAssignor; name != nil && slices.Contains(g.settings.Assignors, *name) {
			votes[*name]++
		}
	}
	elected := g.settings.Assignors[0]
	for _, name := range g.settings.Assignors {
		if votes[name] > votes[elected] {
			elected = name
		}
	}
	return elected
}

// assignorGroup says to an assignor what the group is.
func (g *Group) assignorGroup() assignor.Group {
	group, topics := assignor.Group{Topics: map[kafka.TopicID]int32{}}, g.topics()
	ids := map[string]kafka.TopicID{}
	for _, name := range g.topicNames() {
		if topic, ok := topics.Named(name); ok {
			ids[name] = topic.ID
			group.Topics[topic.ID] = topic.Partitions
		}
	}
	matched := map[string][]kafka.TopicID{}
	for regex, e := range g.expressions {
		matched[regex] = existing(ids, e.topics)
	}
	for id, m := range g.members {
		subscribed := matched[m.regex()]
		if len(m.subscription.Topics) > 0 {
			subscribed = append(existing(ids, m.subscription.Topics), subscribed...)
			slices.SortFunc(subscribed, func(a, b kafka.TopicID) int { return slices.Compare(a[:], b[:]) })
			subscribed = slices.Compact(subscribed)
		}
		group.Members = append(group.Members, assignor.Member{
			ID: id, InstanceID: m.instanceID(), Topics: subscribed, Current: g.target[id],
		})
	}
	return group
}

func existing(ids map[string]kafka.TopicID, names []string) []kafka.TopicID {
	list := make([]kafka.TopicID, 0, len(names))
	for _, name := range names {
		if id, ok := ids[name]; ok {
			list = append(list, id)
		}
	}
	return list
}
