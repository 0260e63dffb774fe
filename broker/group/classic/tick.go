package classic

import (
	"slices"
	"time"

	"github.com/firnlog/firn/broker/group/machine"
)

// NextDeadline is when Tick is due. It may be too early, since heartbeats do not move it: then Tick does nothing.
func (g *Group) NextDeadline() (time.Time, bool) { return g.next, !g.next.IsZero() }

// arm makes sure that Tick is due at a deadline.
func (g *Group) arm(deadline time.Time) {
	if g.next.IsZero() || deadline.Before(g.next) {
		g.next = deadline
	}
}

// expect sets until when a member must be heard of.
func (g *Group) expect(m *member, deadline time.Time) {
	m.session = deadline
	g.arm(deadline)
}

// Tick ends sessions, ids that were handed out in vain, and rebalances that took too long.
func (g *Group) Tick(now time.Time) machine.Step {
	var step machine.Step
	if g.next.IsZero() || now.Before(g.next) {
		return step
	}
	for _, m := range slices.Clone(g.members) {
		if due(m.session, now) && g.byID[m.id] == m {
			g.expireSession(now, m, &step)
		}
	}
	g.expirePending(now, &step)
	if due(g.joinDeadline, now) {
		g.expireJoin(now, &step)
	}
	if due(g.syncDeadline, now) {
		g.expireSync(now, &step)
	}
	g.rearm()
	return step
}

func due(deadline, now time.Time) bool { return !deadline.IsZero() && !deadline.After(now) }

// expireSession removes a member that has been silent for too long. One to which the group owes an answer is not
// silent, unless it is new: nobody would tell if it were gone.
func (g *Group) expireSession(now time.Time, m *member, step *machine.Step) {
	if !m.isNew && (m.join != 0 || m.sync != 0) {
		m.session = time.Time{}
		return
	}
	g.remove(m, step)
	g.rebalance(now, step, machine.Rebalance{Member: m.id, Cause: "a member has been silent for too long"})
}

func (g *Group) expirePending(now time.Time, step *machine.Step) {
	before := len(g.pending)
	for id, deadline := range g.pending {
		if due(deadline, now) {
			delete(g.pending, id)
		}
	}
	if len(g.pending) < before {
		g.maybeCompleteJoin(now, step)
	}
}

// expireSync removes the members that have joined the generation but do not ask for their assignment.
func (g *Group) expireSync(now time.Time, step *machine.Step) {
	g.syncDeadline = time.Time{}
	why := machine.Rebalance{Cause: "a member has not asked for its assignment in time"}
	for _, m := range slices.Clone(g.members) {
		if m.unsynced {
			why.Member = m.id
			g.remove(m, step)
		}
	}
	g.rebalance(now, step, why)
}

// rearm finds the first deadline anew.
func (g *Group) rearm() {
	g.next = time.Time{}
	for _, m := range g.members {
		g.armUnlessZero(m.session)
	}
	for _, deadline := range g.pending {
		g.armUnlessZero(deadline)
	}
	g.armUnlessZero(g.joinDeadline)
	g.armUnlessZero(g.syncDeadline)
}

func (g *Group) armUnlessZero(deadline time.Time) {
	if !deadline.IsZero() {
		g.arm(deadline)
	}
}
