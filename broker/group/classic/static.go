package classic

import (
	"time"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// replacement is a static member that came back without its id, while the new one is written.
type replacement struct {
	member *member
	before member // what it was
	waiter machine.Waiter
	leader string // of the group, before
	skips  bool   // the version knows how to tell a leader that it need not assign (KIP-814)
}

// replaceStatic gives a static member a new id: its client was restarted. Who used the old one is fenced. A stable
// group is not rebalanced for it, unless the member changes what the group would agree on.
func (g *Group) replaceStatic(now time.Time, j Join, m *member, newID string, step *machine.Step) {
	g.answerJoin(m, joinError(kafka.FencedInstanceID, m.id), step)
	g.answerSync(m, syncError(kafka.FencedInstanceID), step)
	r := replacement{
		member: m, before: *m, waiter: j.Waiter, leader: g.leader,
		skips: j.Request.Version >= skipAssignmentVersion,
	}
	g.rename(m, newID)
	m.isNew = false
	g.update(m, j, step)
	g.expect(m, now.Add(m.sessionTimeout))
	why := j.Why("a static member has come back", newID)
	switch {
	case g.state == Stable && g.choose() == *g.protocol:
		g.write(step, nil, func(now time.Time, err error) machine.Step { return g.replaced(now, r, err) })
	case g.state == CompletingRebalance:
		g.prepare(now, step, why) // the leader may be assigning to the old id
	default:
		g.rebalance(now, step, why)
	}
}

func (g *Group) rename(m *member, newID string) {
	delete(g.byID, m.id)
	if g.leader == m.id {
		g.leader = newID
	}
	m.id = newID
	g.byID[newID] = m
}

// replaced ends a replacement, unless the member has gone or a rebalance has begun meanwhile: that answers it.
func (g *Group) replaced(now time.Time, r replacement, err error) machine.Step {
	var step machine.Step
	m := r.member
	if m.join != r.waiter || g.state != Stable {
		return step
	}
	g.expect(m, now.Add(m.sessionTimeout))
	if err != nil {
		g.answerJoin(m, joinError(writeError(err), ""), &step)
		g.count(m, -1)
		g.rename(m, r.before.id)
		m.client, m.protocols = r.before.client, r.before.protocols
		m.sessionTimeout, m.rebalanceTimeout = r.before.sessionTimeout, r.before.rebalanceTimeout
		g.count(m, 1)
		return step
	}
	response := g.joined(m)
	if r.skips {
		response.SkipAssignment = m.id == g.leader
	} else {
		// With the old leader's id it does not take itself for the leader, and does not assign.
		response.LeaderID, response.Members = r.leader, nil
	}
	g.answerJoin(m, response, &step)
	return step
}
