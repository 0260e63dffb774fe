package metastore

import (
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/state"
)

// HeadEntries lists a partition's segments in the manifest, in order of their offsets, as of now: at least what every
// command that has been answered made of them. A partition that is not tiered has none; one that this node does not
// know is an error, because "not known yet" must not be taken for "nothing is remote".
func (s *Store) HeadEntries(tp kafka.TopicIDPartition) ([]command.SegmentEntry, error) {
	if _, found := s.Image().PartitionByID(tp); !found {
		return nil, fmt.Errorf("partition %s: %w", tp, kafka.UnknownTopicID)
	}
	var entries []command.SegmentEntry
	err := s.scanTier(partitionKey(keyHead, tp), func(_, value []byte) error {
		entry, err := command.ParseSegmentEntry(value)
		entries = append(entries, entry)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the manifest of %s: %w", tp, err)
	}
	return entries, nil
}

// Garbage lists what is or may be in the bucket and belongs to no log any more, in no particular order.
func (s *Store) Garbage() ([]command.Garbage, error) {
	var all []command.Garbage
	err := s.scanTier([]byte{keyGarbage}, func(key, value []byte) error {
		tp, upload := parseUpload(key)
		garbage, err := parseGarbage(tp, upload, value)
		all = append(all, garbage)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list garbage: %w", err)
	}
	return all, nil
}

// DeletedTopics lists the deleted topics that may still have objects in the bucket.
func (s *Store) DeletedTopics() ([]command.DeletedTopic, error) {
	var all []command.DeletedTopic
	err := s.scanTier([]byte{keyDeletedTopic}, func(key, value []byte) error {
		topic, err := parseDeletedTopic(kafka.UUID(key[1:]), value)
		all = append(all, topic)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list deleted topics: %w", err)
	}
	return all, nil
}

func (s *Store) scanTier(prefix []byte, visit func(key, value []byte) error) error {
	s.machine.restoring.RLock()
	defer s.machine.restoring.RUnlock()
	return s.options.State.Space(state.SpaceTier).Scan(prefix, visit)
}
