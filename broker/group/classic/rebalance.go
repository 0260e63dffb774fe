package classic

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// rebalance begins a rebalance or, if one is under way, ends it if it waits for nobody any more.
func (g *Group) rebalance(now time.Time, step *machine.Step, why machine.Rebalance) {
	if g.state == PreparingRebalance {
		g.maybeCompleteJoin(now, step)
		return
	}
	g.prepare(now, step, why)
}

// prepare begins a rebalance: every member has to join anew, and learns so from its heartbeats. The first members of an
// empty group are given a moment in which more may come.
func (g *Group) prepare(now time.Time, step *machine.Step, why machine.Rebalance) {
	if step.Rebalance == nil {
		step.Rebalance = &why
	}
	if g.state == CompletingRebalance {
		g.propagate(now, kafka.RebalanceInProgress, step)
	}
	g.expectSync(time.Time{})
	g.writing = false
	g.initial = g.state == Empty
	g.enter(PreparingRebalance, now)
	switch {
	case g.initial:
		g.delay, g.prolong = g.settings.InitialRebalanceDelay, false
		g.extension = max(g.rebalanceTimeout()-g.delay, 0)
		if g.delay <= 0 {
			g.completeJoin(now, step)
			return
		}
		g.joinDeadline = now.Add(g.delay)
	case g.allJoined() || len(g.members) == 0:
		g.completeJoin(now, step)
		return
	default:
		g.joinDeadline = now.Add(g.rebalanceTimeout())
	}
	g.arm(g.joinDeadline)
}

// expireJoin ends a rebalance, or the delay of a first one.
func (g *Group) expireJoin(now time.Time, step *machine.Step) {
	if !g.initial || !g.prolong || g.extension <= 0 {
		g.completeJoin(now, step)
		return
	}
	before := g.delay
	g.delay, g.prolong = min(g.settings.InitialRebalanceDelay, g.extension), false
	g.extension = max(g.extension-before, 0)
	g.joinDeadline = now.Add(g.delay)
	g.arm(g.joinDeadline)
}

// maybeCompleteJoin ends a rebalance for which all members have joined. A first one takes its time.
func (g *Group) maybeCompleteJoin(now time.Time, step *machine.Step) {
	if g.state == PreparingRebalance && !g.initial && g.allJoined() {
		g.completeJoin(now, step)
	}
}

// completeJoin begins the next generation with those that have joined. The others are forgotten, static ones excepted:
// they may be away until their session ends.
func (g *Group) completeJoin(now time.Time, step *machine.Step) {
	g.joinDeadline = time.Time{}
	for _, m := range slices.Clone(g.members) {
		if m.join == 0 && m.instanceID == nil {
			g.remove(m, step)
		}
	}
	if len(g.members) > 0 && !g.electLeader() { // static members, and none has joined: their sessions will end
		g.joinDeadline = now.Add(max(g.rebalanceTimeout(), time.Second)) // however short theirs is
		g.arm(g.joinDeadline)
		return
	}
	g.initial = false
	g.generation++
	if len(g.members) == 0 {
		g.protocol = nil
		g.topics = g.subscription()
		g.enter(Empty, now)
		g.write(step, nil, nil) // should that fail, the members of the record are found to be silent once it is loaded
		return
	}
	chosen := g.choose()
	g.protocol = &chosen
	g.topics = g.subscription()
	g.enter(CompletingRebalance, now)
	for _, m := range g.members {
		g.answerJoin(m, g.joined(m), step)
		m.isNew, m.unsynced = false, true
		g.expect(m, now.Add(m.sessionTimeout))
	}
	g.expectSync(now.Add(g.rebalanceTimeout()))
}

// electLeader makes sure that the leader is one that has joined. It is false if nobody has.
func (g *Group) electLeader() bool {
	if m, found := g.byID[g.leader]; found && m.join != 0 {
		return true
	}
	for _, m := range g.members {
		if m.join != 0 {
			g.leader = m.id
			return true
		}
	}
	return false
}

// choose lets each member vote for the first of its protocols that all support. The one with most votes is chosen; of
// equals, the one that was voted for first.
func (g *Group) choose() string {
	cast := votes{}
	var order []string
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.support[p.name] == len(g.members) {
				if cast[p.name]++; cast[p.name] == 1 {
					order = append(order, p.name)
				}
				break
			}
		}
	}
	var chosen string
	for _, name := range order {
		if cast[name] > cast[chosen] {
			chosen = name
		}
	}
	return chosen
}

// subscription is what the members of a generation of consumers read; nil if that cannot be known. Of their metadata
// only the first version is read, with which every later one begins.
func (g *Group) subscription() topicSet {
	if g.protocolType != consumerProtocol || len(g.members) > 0 && g.protocol == nil {
		return nil
	}
	topics := topicSet{}
	for _, m := range g.members {
		list, ok := subscribedTopics(m.metadata(g.protocol))
		if !ok {
			return nil
		}
		for _, topic := range list {
			topics[topic] = struct{}{}
		}
	}
	return topics
}

// subscribedTopics reads a consumer's subscription as far as version 0 goes: version, topics, user data.
func subscribedTopics(metadata []byte) ([]string, bool) {
	if len(metadata) < 2 || metadata[0]&0x80 != 0 {
		return nil, false
	}
	oldest := append([]byte{0, 0}, metadata[2:]...)
	var subscription kmsg.ConsumerMemberMetadata
	err := subscription.ReadFrom(oldest)
	return subscription.Topics, err == nil
}
