package consumer

import (
	"fmt"
	"time"

	"github.com/firnlog/firn/broker/group/records"
)

// Replay takes over what a record of the group says. The records of a group come in any order in which that of a member
// (records.ConsumerMember) is before that of what it has (records.ConsumerCurrentMember), and after the last one
// Loaded.
func (g *Group) Replay(key records.Key, value []byte) error {
	var err error
	switch key.Kind {
	case records.ConsumerMetadata:
		var v records.ConsumerMetadataValue
		err = v.Parse(value)
		g.epoch, g.metadataHash = v.Epoch, v.MetadataHash
	case records.ConsumerMember:
		m := newMember(key.Member)
		err = m.subscription.Parse(value)
		g.index(nil, m)
	case records.ConsumerTarget:
		var v records.ConsumerTargetValue
		err = v.Parse(value)
		g.targetEpoch, g.targetAt = v.Epoch, v.TimestampMs
	case records.ConsumerTargetMember:
		var v records.ConsumerTargetMemberValue
		err = v.Parse(value)
		g.target[key.Member] = parseTarget(v.Assigned)
	case records.ConsumerCurrentMember:
		err = g.replayCurrent(key.Member, value)
	case records.ConsumerRegularExpression:
		err = g.replayExpression(key.Regex, value)
	default: // what a group knew of its topics says nothing that the metadata does not
	}
	if err != nil {
		return fmt.Errorf("read the records of group %q: %w", g.id, err)
	}
	return nil
}

func (g *Group) replayCurrent(memberID string, value []byte) error {
	before, ok := g.members[memberID]
	if !ok {
		return fmt.Errorf("member %q has partitions, but no subscription", memberID)
	}
	var v records.ConsumerCurrentMemberValue
	if err := v.Parse(value); err != nil {
		return err
	}
	g.index(before, before.with(func(next *member) {
		next.epoch, next.previousEpoch, next.state = v.Epoch, v.PreviousEpoch, memberState(v.State)
		next.assigned = parsePartitions(v.Assigned, v.Epoch)
		next.revoking = parsePartitions(v.PendingRevocation, v.Epoch)
	}))
	return nil
}

func (g *Group) replayExpression(regex string, value []byte) error {
	var v records.ConsumerRegularExpressionValue
	if err := v.Parse(value); err != nil {
		return err
	}
	pattern, err := compile(regex)
	if err != nil {
		return err
	}
	g.expressions[regex] = &expression{pattern: pattern, topics: nameSet(v.Topics)}
	return nil
}

// Loaded ends the replay. Each member begins a new session: how long it has been silent nobody knows.
func (g *Group) Loaded(now time.Time) {
	c := g.begin(now)
	for _, m := range g.members {
		c.expectWithin(m.id, g.sessionTimeout(m))
		c.expectRevocation(m)
	}
}

func (g *Group) sessionTimeout(m *member) time.Duration {
	if m.classic() {
		return milliseconds(m.subscription.Classic.SessionTimeoutMs)
	}
	return g.intervals().Session
}
