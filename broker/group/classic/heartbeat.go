package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// Heartbeat keeps a member's session alive. The error is a kafka.Errno; REBALANCE_IN_PROGRESS tells the member to join
// anew.
func (g *Group) Heartbeat(now time.Time, request *kmsg.HeartbeatRequest) error {
	m, err := g.member(request.MemberID, request.InstanceID)
	switch {
	case err != nil:
		return err
	case request.Generation != g.generation:
		return kafka.IllegalGeneration
	}
	g.touch(now, m)
	if g.state == PreparingRebalance {
		return kafka.RebalanceInProgress
	}
	return nil
}

// touch notes that a member was heard of.
func (g *Group) touch(now time.Time, m *member) {
	g.expect(m, now.Add(m.sessionTimeout))
}
