package metastore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/internal/kafka"
)

// follow keeps track of who leads. It ends when the store stops.
func (s *Store) follow(quorum *raft.Raft, leadership <-chan bool) {
	for {
		select {
		case leads := <-leadership:
			if leads {
				s.takeOver(quorum)
			} else {
				s.stepDown()
			}
		case <-s.stopping:
			return
		}
	}
}

// takeOver makes a new leader ready: everything that was committed before is applied behind the barrier.
func (s *Store) takeOver(quorum *raft.Raft) {
	start := time.Now()
	if err := quorum.Barrier(0).Error(); err != nil {
		s.options.Logger.Warn("leadership of the metadata quorum was lost before it began", "error", err)
		return
	}
	s.publishController(s.options.NodeID)
	s.clock.start(s.Image().ElapsedMs)
	s.metrics.leader.Set(1)
	s.options.Logger.Info("leads the metadata quorum",
		"applied", s.Image().Index, "topics", s.Image().TopicCount(), "took", time.Since(start))
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

func (s *Store) stepDown() {
	s.clock.stop()
	s.metrics.leader.Set(0)
	s.options.Logger.Warn("no longer leads the metadata quorum")
	s.publishController(kafka.NoBroker)
}

// publishController tells the watchers who leads. The updates before it, and so all commands before the barrier, have
// been told when it returns.
func (s *Store) publishController(controller kafka.BrokerID) {
	told := make(chan struct{})
	s.watchers.updates <- update{controller: controller, told: told}
	<-told
}

// ElapsedMs is the time that commands carry: milliseconds during which the cluster has been running, from the highest
// value in the log on. It stands still while this node does not lead. What passed since the last command that carried
// it is lost with a restart, so that a wait measured in it may take longer, but never shorter.
func (s *Store) ElapsedMs() int64 { return s.clock.now() }

// elapsedClock counts monotonic time from a base.
type elapsedClock struct {
	mu    sync.Mutex // guards the fields below
	base  int64
	since time.Time // zero while it stands still
}

func (c *elapsedClock) start(base int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = max(base, c.locked())
	c.since = time.Now()
}

func (c *elapsedClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = c.locked()
	c.since = time.Time{}
}

func (c *elapsedClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locked()
}

func (c *elapsedClock) locked() int64 {
	if c.since.IsZero() {
		return c.base
	}
	return c.base + time.Since(c.since).Milliseconds()
}
