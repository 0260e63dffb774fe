package metastore

import (
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// Items gives a partition's tier state and the top level of its manifest, in order of offsets, both as of one moment:
// at least what every command that has been answered made of them. The state is nil if tiering has not begun. A
// partition that this node does not know is an error, because "not known yet" must not be taken for "nothing is
// remote".
func (s *Store) Items(tp kafka.TopicIDPartition) (tier *image.TierState, items []command.Item, err error) {
	if _, found := s.Image().PartitionByID(tp); !found {
		return nil, nil, fmt.Errorf("partition %s: %w", tp, kafka.UnknownTopicID)
	}
	s.machine.restoring.RLock()
	frozen := s.options.State.Snapshot()
	s.machine.restoring.RUnlock()
	defer func() { err = errors.Join(err, frozen.Close()) }()
	value, err := frozen.Get(state.SpaceTier, partitionKey(keyTier, tp))
	if err == nil && value != nil {
		tier, err = parseTier(value)
	}
	if err == nil {
		err = frozen.Scan(state.SpaceTier, state.Prefix(partitionKey(keyHead, tp)), func(_, value []byte) error {
			item, err := command.ParseItem(value)
			items = append(items, item)
			return err
		})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the manifest of %s: %w", tp, err)
	}
	return tier, items, nil
}

// Garbage lists what is or may be in the bucket and belongs to no log any more, in no particular order.
func (s *Store) Garbage() ([]command.Garbage, error) {
	var all []command.Garbage
	err := s.scanTier([]byte{keyGarbage}, func(key, value []byte) error {
		garbage, err := parseGarbage(key, value)
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

// Reserved lists the upload ids that are reserved for a partition, in no particular order: there may be an object under
// each that is not committed yet.
func (s *Store) Reserved(tp kafka.TopicIDPartition) ([]kafka.UUID, error) {
	var all []kafka.UUID
	err := s.scanTier(partitionKey(keyReservation, tp), func(key, _ []byte) error {
		_, upload := parseUpload(key)
		all = append(all, upload)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the reserved uploads of %s: %w", tp, err)
	}
	return all, nil
}

// Pins lists the ranges whose objects must be kept, in no particular order.
func (s *Store) Pins() ([]command.Pin, error) {
	var all []command.Pin
	err := s.scanTier([]byte{keyPin}, func(_, value []byte) error {
		pin, err := parsePin(value)
		all = append(all, pin)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	return all, nil
}

// Checkpoints lists the newest durable checkpoints, at most command.KeptCheckpoints, the oldest first.
func (s *Store) Checkpoints() ([]command.Checkpoint, error) {
	var all []command.Checkpoint
	err := s.scanTier([]byte{keyCheckpoint}, func(key, _ []byte) error {
		all = append(all, parseCheckpoint(key))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return all, nil
}

func (s *Store) scanTier(prefix []byte, visit func(key, value []byte) error) error {
	s.machine.restoring.RLock()
	defer s.machine.restoring.RUnlock()
	return s.options.State.Space(state.SpaceTier).Scan(prefix, visit)
}
