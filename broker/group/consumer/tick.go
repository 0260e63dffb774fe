package consumer

import (
	"time"

	"github.com/firnlog/firn/broker/group/machine"
)

// NextDeadline is when Tick is due. It may be too early, since heartbeats do not move it: then Tick does nothing.
func (g *Group) NextDeadline() (time.Time, bool) {
	next := g.next
	if len(g.members) > 0 && g.epoch > g.targetEpoch {
		if at := g.nextAssignment(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, !next.IsZero()
}

// Tick removes the members that are overdue, and computes a target that had to wait.
func (g *Group) Tick(now time.Time) machine.Step {
	c := g.begin(now)
	var overdue []*member
	for _, id := range sortedKeys(g.timers) {
		if m, ok := g.members[id]; ok && g.timers[id].due(now) {
			overdue = append(overdue, m)
		}
	}
	if len(overdue) > 0 {
		c.fence(overdue...)
	}
	if len(g.members) > 0 && c.successor == nil {
		c.assign()
	}
	c.then(g.rearm)
	return c.step()
}

func (t *timers) all() []*time.Time { return []*time.Time{&t.session, &t.rebalance, &t.join, &t.sync} }

func (t *timers) due(now time.Time) bool {
	for _, deadline := range t.all() {
		if !deadline.IsZero() && !deadline.After(now) {
			return true
		}
	}
	return false
}

// rearm finds the first deadline anew.
func (g *Group) rearm() {
	g.next = time.Time{}
	for _, t := range g.timers {
		for _, deadline := range t.all() {
			g.arm(*deadline)
		}
	}
}

func (g *Group) arm(deadline time.Time) {
	if !deadline.IsZero() && (g.next.IsZero() || deadline.Before(g.next)) {
		g.next = deadline
	}
}

func (g *Group) timersOf(memberID string) *timers {
	t, ok := g.timers[memberID]
	if !ok {
		t = &timers{}
		g.timers[memberID] = t
	}
	return t
}

// expectWithin begins a member's session anew.
func (c *change) expectWithin(memberID string, timeout time.Duration) {
	t := c.timersOf(memberID)
	t.session = c.now.Add(timeout)
	c.arm(t.session)
}

// expectRevocation gives a member that is to give up partitions its rebalance timeout for it. Members of the classic
// protocol have the deadlines of that one instead.
func (c *change) expectRevocation(m *member) {
	t := c.timersOf(m.id)
	t.rebalance = time.Time{}
	if m.state == unrevoked && m.epoch != staticLeaveEpoch && !m.classic() {
		t.rebalance = c.now.Add(m.rebalanceTimeout())
		c.arm(t.rebalance)
	}
}

func (m *member) rebalanceTimeout() time.Duration {
	return milliseconds(m.subscription.RebalanceTimeoutMs)
}
