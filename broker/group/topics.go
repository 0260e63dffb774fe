package group

import (
	"bytes"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// TopicsDeleted says that topics are gone: what groups have committed to them is removed some moments later. It returns
// at once.
func (c *Coordinator) TopicsDeleted() {
	shards, _ := c.runtime.Shards()
	c.sweepLater(shards...)
}

// sweepLater makes Run look for offsets of deleted topics in journals.
func (c *Coordinator) sweepLater(shards ...*coordinator.Shard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unswept = append(c.unswept, shards...)
	select {
	case c.sweep <- struct{}{}:
	default: // Run has not taken them since the last time
	}
}

func (c *Coordinator) takeUnswept() []*coordinator.Shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	shards := c.unswept
	c.unswept = nil
	return shards
}

// sweepTopics removes the offsets of topics that do not exist any more from journals.
func (c *Coordinator) sweepTopics(shards []*coordinator.Shard) {
	for _, shard := range shards {
		orphans, err := c.orphans(shard)
		if err != nil {
			c.options.Logger.Error("offsets of deleted topics stay", "partition", shard.Partition(), "err", err)
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(orphans)) {
			c.visit(shard, id, func(r *registry, s *slot) error { return r.removeOrphans(s, orphans[id]) })
		}
	}
}

// orphans lists the keys of offsets of deleted topics by group, those of open transactions included.
func (c *Coordinator) orphans(shard *coordinator.Shard) (map[string][][]byte, error) {
	found := map[string][][]byte{}
	prefix := records.Prefix(records.OffsetCommit)
	err := eachOffset(shard, prefix, func(key records.Key, encoded []byte, value *kmsg.OffsetCommitValue) error {
		if c.orphaned(key, value.TopicID) {
			found[key.Group] = append(found[key.Group], bytes.Clone(encoded))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, encoded := range shard.StagedKeys(prefix) {
		key, err := records.ParseKey(encoded)
		if err != nil {
			return nil, err
		}
		if c.orphaned(key, kafka.TopicID{}) {
			found[key.Group] = append(found[key.Group], encoded)
		}
	}
	return found, nil
}

// orphaned tells whether an offset was committed to a topic that is gone, also if there is another of its name. The
// name decides where the topic's id is not known.
func (c *Coordinator) orphaned(key records.Key, topic kafka.TopicID) bool {
	now, exists := c.options.Cluster.Topics().Named(key.Topic)
	return !exists || differ(now.ID, topic)
}

// removeOrphans removes offsets, unless somebody has committed there meanwhile.
func (r *registry) removeOrphans(s *slot, keys [][]byte) error {
	var gone [][]byte
	for _, encoded := range keys {
		if _, appended := s.appended[string(encoded)]; appended {
			continue
		}
		orphaned, err := r.stillOrphaned(encoded)
		if err != nil {
			return err
		}
		if orphaned {
			gone = append(gone, encoded)
		}
	}
	return r.removeOffsets(s, gone)
}

func (r *registry) stillOrphaned(encoded []byte) (bool, error) {
	key, err := records.ParseKey(encoded)
	if err != nil {
		return false, err
	}
	var topic kafka.TopicID
	entry, found, err := r.shard.Get(encoded)
	if err != nil {
		return false, err
	}
	if found {
		value, err := parseOffset(key, entry)
		if err != nil {
			return false, err
		}
		topic = value.TopicID
	}
	return r.coordinator.orphaned(key, topic), nil
}
