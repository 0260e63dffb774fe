package replica

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

// CommitItem is one partition whose high watermark has to reach an offset.
type CommitItem struct {
	Partition *Partition
	Offset    int64
}

// Commit waits until records survive the loss of any one thing: acks=all, and every reader that must see what was
// appended before it asked (ListOffsets latest, a Fetch with no wait, DeleteRecords to the high watermark).
type Commit struct {
	items []CommitItem
	done  chan struct{}
	// expired is set when the deadline came first.
	expired atomic.Bool
}

// AwaitCommit starts the wait. It asks the disk for what the partitions have not flushed yet. At the latest after
// timeout the wait is over.
func (m *Manager) AwaitCommit(items []CommitItem, timeout time.Duration) *Commit {
	if settled(items) {
		return &Commit{items: items, done: m.settled}
	}
	commit := &Commit{items: items, done: make(chan struct{})}
	keys := make([]*Partition, len(items))
	for i, item := range items {
		keys[i] = item.Partition
		if item.Partition.log != nil && item.Partition.groupCommit() {
			item.Partition.log.RequestFlush()
		}
	}
	m.waiters.Watch(commit, timeout, keys...)
	return commit
}

// Done is closed when the wait is over.
func (c *Commit) Done() <-chan struct{} { return c.done }

// Err tells how the wait ended for item i: nil when it is committed, kafka.RequestTimedOut when the deadline came
// first, or what became of the partition.
func (c *Commit) Err(i int) error { return c.items[i].err(c.expired.Load()) }

func (item CommitItem) err(expired bool) error {
	_, err := item.Partition.leaderLog(kafka.NoLeaderEpoch)
	if err != nil && !errors.Is(err, kafka.KafkaStorageError) {
		return err
	}
	if log := item.Partition.log; log != nil && log.HighWatermark() >= item.Offset {
		return nil // even if the disk has failed since
	}
	if err != nil {
		return err
	}
	if expired {
		return kafka.RequestTimedOut
	}
	return errPending
}

// errPending never leaves this package: an item that is neither committed nor lost.
const errPending = pendingError("not committed yet")

type pendingError string

func (e pendingError) Error() string { return string(e) }

// TryComplete implements purgatory.Operation.
func (c *Commit) TryComplete() bool {
	if !settled(c.items) {
		return false
	}
	close(c.done)
	return true
}

// settled tells whether every item is committed or lost.
func settled(items []CommitItem) bool {
	for _, item := range items {
		if item.err(false) == errPending {
			return false
		}
	}
	return true
}

// Expire implements purgatory.Operation.
func (c *Commit) Expire() {
	c.expired.Store(true)
	close(c.done)
}
