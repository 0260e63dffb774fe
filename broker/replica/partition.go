package replica

import (
	"fmt"
	"sync/atomic"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// Isolation tells which records a reader may see (KIP-98).
type Isolation int8

// The isolation levels, by their values on the wire.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// Partition is one replica of a partition on this broker: its leader, as long as it has one replica.
type Partition struct {
	topicPartition kafka.TopicPartition
	id             kafka.TopicIDPartition
	manager        *Manager
	counts         *topicCounts // of the topic, shared by its partitions

	// log is nil when the partition's directory is missing or failed; fault then says why, as a storage error.
	log   *storage.Log
	fault error

	// config and state are replaced as a whole when the metadata changes, and read without a lock.
	config atomic.Pointer[config.TopicConfig]
	state  atomic.Pointer[leadership]

	followers followers
}

// leadership is what the metadata says of a partition, as one value so that a reader never mixes two of them.
type leadership struct {
	leader   kafka.BrokerID
	epoch    kafka.LeaderEpoch
	replicas int
	isr      int
	tier     *image.TierState
	deleted  bool
}

// TopicPartition is the partition's name.
func (p *Partition) TopicPartition() kafka.TopicPartition { return p.topicPartition }

// ID is the partition by its topic's id.
func (p *Partition) ID() kafka.TopicIDPartition { return p.id }

// Config returns the topic's settings, resolved.
func (p *Partition) Config() *config.TopicConfig { return p.config.Load() }

// LeaderEpoch is the epoch of the current leadership.
func (p *Partition) LeaderEpoch() kafka.LeaderEpoch { return p.state.Load().epoch }

// Leader is the broker that leads the partition now.
func (p *Partition) Leader() kafka.BrokerID { return p.state.Load().leader }

// Log returns the local log, or a storage error that says why there is none.
func (p *Partition) Log() (*storage.Log, error) {
	if p.log == nil {
		return nil, p.fault
	}
	return p.log, nil
}

// usableLog is Log, or why that serves nobody any more.
func (p *Partition) usableLog() (*storage.Log, error) {
	log, err := p.Log()
	if err == nil {
		err = log.Err()
	}
	return log, err
}

// CheckLeader tells whether this broker leads the partition, and whether the client believes in the same epoch.
func (p *Partition) CheckLeader(requested kafka.LeaderEpoch) error {
	_, err := p.leaderLog(requested)
	return err
}

// leaderLog returns the log for a request that only the leader answers. requested is the leader epoch the client
// believes in, or −1 (KIP-320): an older one is fenced, a newer one says that we have not heard of it yet. A log that
// cannot be used is what the client is told before anything else: its partition has no leader then, and nobody else to
// ask.
func (p *Partition) leaderLog(requested kafka.LeaderEpoch) (*storage.Log, error) {
	state := p.state.Load()
	if state.deleted {
		return nil, kafka.UnknownTopicOrPartition
	}
	log, err := p.usableLog()
	switch {
	case err != nil:
		return nil, err
	case state.leader != p.manager.options.BrokerID:
		return nil, kafka.NotLeaderOrFollower
	case requested != kafka.NoLeaderEpoch && requested < state.epoch:
		return nil, fmt.Errorf("%s has leader epoch %d: %w", p.topicPartition, state.epoch, kafka.FencedLeaderEpoch)
	case requested > state.epoch:
		return nil, fmt.Errorf("%s has leader epoch %d: %w", p.topicPartition, state.epoch, kafka.UnknownLeaderEpoch)
	}
	return log, nil
}

// limit is the exclusive upper bound of what a reader of the given isolation may see.
func limit(log *storage.Log, isolation Isolation) int64 {
	if isolation == ReadCommitted {
		return log.LastStableOffset()
	}
	return log.HighWatermark()
}

// groupCommit tells whether the high watermark of the partition waits for the flushed offset: with an ISR of one the
// disk is the only copy.
func (p *Partition) groupCommit() bool {
	return p.manager.options.FlushPolicy == storage.FlushGroup
}

// advance moves the high watermark as far as the ISR (today: this replica) allows and wakes those who wait for it.
func (p *Partition) advance() {
	target := p.log.EndOffset()
	if p.groupCommit() {
		target = p.log.FlushedOffset()
	}
	if target > p.log.HighWatermark() {
		p.log.SetHighWatermark(target)
		if committed := p.manager.options.Committed; committed != nil {
			committed(p.topicPartition)
		}
	}
	p.changed()
}
