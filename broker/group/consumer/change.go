package consumer

import (
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/assignor"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// change is what one event does to a group. The group changes at once, so that each part of an event sees what the
// parts before it did; what was before is kept until the records are appended, in case the event is refused or they are
// not.
type change struct {
	*Group
	now      time.Time
	records  []coordinator.Record
	undo     []func()
	appended []func() // to be done when the group stays changed: what concerns timers
	replies  []machine.Reply

	rebalance *machine.Rebalance
	successor machine.Group
}

func (g *Group) begin(now time.Time) *change { return &change{Group: g, now: now} }

// step ends a change. It stands unless its records cannot be appended.
func (c *change) step() machine.Step {
	undo := c.undo
	return machine.Step{
		Records: c.records, Replies: c.replies, Rebalance: c.rebalance, Successor: c.successor,
		Appended: func() {
			undo = nil
			for _, do := range c.appended {
				do()
			}
		},
		Durable: func(_ time.Time, err error) machine.Step {
			if err != nil {
				takeBack(undo)
			}
			return machine.Step{}
		},
	}
}

// refused ends a change of which nothing is to stay.
func (c *change) refused(err error) (machine.Step, error) {
	takeBack(c.undo)
	return machine.Step{}, err
}

func takeBack(undo []func()) {
	for i := len(undo) - 1; i >= 0; i-- {
		undo[i]()
	}
}

// then has something done when the change stands.
func (c *change) then(do func()) { c.appended = append(c.appended, do) }

// key is that of a record of the group.
func (g *Group) key(kind records.Kind) records.Key { return records.Key{Kind: kind, Group: g.id} }

func (g *Group) memberKey(kind records.Kind, memberID string) records.Key {
	key := g.key(kind)
	key.Member = memberID
	return key
}

func (g *Group) regexKey(regex string) records.Key {
	key := g.key(records.ConsumerRegularExpression)
	key.Regex = regex
	return key
}

// write adds a record; a nil value is a tombstone.
func (c *change) write(key records.Key, value []byte) {
	c.records = append(c.records, coordinator.Record{Key: key.Encode(), Value: value})
}

// set changes a value so that it can be taken back.
func set[V any](c *change, place *V, value V) {
	before := *place
	c.undo = append(c.undo, func() { *place = before })
	*place = value
}

// put changes a map so that it can be taken back.
func put[K comparable, V any](c *change, m map[K]V, key K, value V) {
	before, had := m[key]
	c.undo = append(c.undo, func() {
		if had {
			m[key] = before
		} else {
			delete(m, key)
		}
	})
	m[key] = value
}

// remove takes a key out of a map so that it can be taken back.
func remove[K comparable, V any](c *change, m map[K]V, key K) {
	if before, had := m[key]; had {
		c.undo = append(c.undo, func() { m[key] = before })
		delete(m, key)
	}
}

// setEpoch begins a new epoch.
func (c *change) setEpoch(epoch int32, hash int64) {
	set(c, &c.epoch, epoch)
	set(c, &c.metadataHash, hash)
	value := records.ConsumerMetadataValue{Epoch: epoch, MetadataHash: hash}
	c.write(c.key(records.ConsumerMetadata), value.Append(nil))
}

// setSubscription records a member that is new or subscribes to something else.
func (c *change) setSubscription(m *member) {
	c.replace(m)
	c.write(c.memberKey(records.ConsumerMember, m.id), m.subscription.Append(nil))
}

// setCurrent records what a member has.
func (c *change) setCurrent(m *member) {
	c.replace(m)
	value := records.ConsumerCurrentMemberValue{
		Epoch: m.epoch, PreviousEpoch: m.previousEpoch, State: int8(m.state),
		Assigned: m.assigned.list(), PendingRevocation: m.revoking.list(),
	}
	c.write(c.memberKey(records.ConsumerCurrentMember, m.id), value.Append(nil))
}

func (c *change) replace(m *member) {
	before := c.members[m.id]
	c.index(before, m)
	c.undo = append(c.undo, func() { c.index(m, before) })
}

// removeMember removes a member and what it was to have.
func (c *change) removeMember(m *member) {
	for _, kind := range []records.Kind{
		records.ConsumerCurrentMember, records.ConsumerTargetMember, records.ConsumerMember,
	} {
		c.write(c.memberKey(kind, m.id), nil)
	}
	remove(c, c.target, m.id)
	before := c.members[m.id]
	c.index(before, nil)
	c.undo = append(c.undo, func() { c.index(nil, before) })
	c.then(func() { delete(c.timers, m.id) })
}

// setTarget records what a member is to have.
func (c *change) setTarget(memberID string, target assignor.Assignment) {
	put(c, c.target, memberID, target)
	value := records.ConsumerTargetMemberValue{Assigned: targetList(target)}
	c.write(c.memberKey(records.ConsumerTargetMember, memberID), value.Append(nil))
}

// setTargetEpoch records that the target is that of the current epoch, and when it was computed.
func (c *change) setTargetEpoch(at int64) {
	set(c, &c.targetEpoch, c.epoch)
	set(c, &c.targetAt, at)
	value := records.ConsumerTargetValue{Epoch: c.targetEpoch, TimestampMs: c.targetAt}
	c.write(c.key(records.ConsumerTarget), value.Append(nil))
}

// setExpression records what a regular expression matches.
func (c *change) setExpression(regex string, e *expression) {
	put(c, c.expressions, regex, e)
	value := records.ConsumerRegularExpressionValue{Topics: e.topics, TimestampMs: c.now.UnixMilli()}
	c.write(c.regexKey(regex), value.Append(nil))
}

// forgetExpressions removes the regular expressions that nobody subscribes to any more.
func (c *change) forgetExpressions() {
	for _, regex := range sortedKeys(c.expressions) {
		if c.regexs[regex] == 0 {
			remove(c, c.expressions, regex)
			c.write(c.regexKey(regex), nil)
		}
	}
}

// index puts next in the place of before, either of which may be nil, in all that follows from the members.
func (g *Group) index(before, next *member) {
	if before != nil {
		delete(g.members, before.id)
		if g.static[before.instanceID()] == before.id {
			delete(g.static, before.instanceID())
		}
		g.count(before, -1)
		g.disown(before)
	}
	if next != nil {
		g.members[next.id] = next
		if instance := next.instanceID(); instance != "" {
			g.static[instance] = next.id
		}
		g.count(next, 1)
		g.own(next)
	}
}

// count adds to, or takes from, the numbers of members that subscribe to something.
func (g *Group) count(m *member, by int) {
	for _, name := range m.subscription.Topics {
		addTo(g.names, name, by)
	}
	if regex := m.regex(); regex != "" {
		addTo(g.regexs, regex, by)
	}
}

func addTo(counts map[string]int, key string, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

func (g *Group) own(m *member) {
	for _, owned := range []partitions{m.assigned, m.revoking} {
		for topic, numbers := range owned {
			for partition := range numbers {
				g.owners[kafka.TopicIDPartition{ID: topic, Partition: partition}] = m.id
			}
		}
	}
}

func (g *Group) disown(m *member) {
	for _, owned := range []partitions{m.assigned, m.revoking} {
		for topic, numbers := range owned {
			for partition := range numbers {
				if tp := (kafka.TopicIDPartition{ID: topic, Partition: partition}); g.owners[tp] == m.id {
					delete(g.owners, tp)
				}
			}
		}
	}
}
