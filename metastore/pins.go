package metastore

import (
	"fmt"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/state"
)

func (t *transition) pinSnapshot(cmd command.PinSnapshot) error {
	if err := t.checkPin(cmd.Pin, max(cmd.ElapsedMs, t.image.ElapsedMs)); err != nil {
		return err
	}
	existing, count := t.pins()
	for _, pin := range existing {
		if pin.ID != cmd.Pin.ID {
			continue
		}
		if pin.TopicID == cmd.Pin.TopicID && pin.DeadlineMs == cmd.Pin.DeadlineMs &&
			slices.Equal(pin.Ranges, cmd.Pin.Ranges) {
			return nil
		}
		return fmt.Errorf("pin %s exists: %w", pin.ID, kafka.InvalidRequest)
	}
	if count >= command.MaxPins {
		return fmt.Errorf("there are %d pins already, end some or wait until they lapse: %w", count, kafka.PolicyViolation)
	}
	t.observe(cmd.ElapsedMs)
	t.batch.Set(state.SpaceTier, pinKey(cmd.Pin.ID), encodePin(cmd.Pin))
	return nil
}

func (t *transition) checkPin(pin command.Pin, now int64) error {
	topic, found := t.image.TopicByID(pin.TopicID)
	switch {
	case !found:
		return fmt.Errorf("topic %s: %w", pin.TopicID, kafka.UnknownTopicID)
	case pin.ID.IsZero() || len(pin.Ranges) == 0 || len(pin.Ranges) > command.MaxPinRanges:
		return fmt.Errorf("pin %s of %d ranges is none: %w", pin.ID, len(pin.Ranges), kafka.InvalidRequest)
	case pin.DeadlineMs <= now:
		return fmt.Errorf("the deadline %d ms is over at %d ms: %w", pin.DeadlineMs, now, kafka.InvalidRequest)
	}
	for i, part := range pin.Ranges {
		if part.From < 0 || part.To < part.From || i > 0 && part.Partition <= pin.Ranges[i-1].Partition {
			return fmt.Errorf("range [%d, %d) of partition %d is none, or not in order: %w",
				part.From, part.To, part.Partition, kafka.InvalidRequest)
		}
		if part.Partition < 0 || int(part.Partition) >= len(topic.Partitions) {
			return fmt.Errorf("partition %d of topic %q: %w", part.Partition, topic.Name, kafka.UnknownTopicOrPartition)
		}
	}
	return nil
}

func (t *transition) pins() (pins []command.Pin, count int) {
	t.note(t.batch.Scan(state.SpaceTier, state.Prefix([]byte{keyPin}), func(_, value []byte) error {
		pin, err := parsePin(value)
		pins = append(pins, pin)
		return err
	}))
	return pins, len(pins)
}

func (t *transition) extendPin(cmd command.ExtendPin) error {
	value := t.get(pinKey(cmd.ID))
	if value == nil {
		return fmt.Errorf("pin %s: %w", cmd.ID, command.ErrNoPin)
	}
	pin, err := parsePin(value)
	if err != nil {
		t.note(err)
		return err
	}
	if now := max(cmd.ElapsedMs, t.image.ElapsedMs); cmd.DeadlineMs <= now {
		return fmt.Errorf("the deadline %d ms is over at %d ms: %w", cmd.DeadlineMs, now, kafka.InvalidRequest)
	}
	t.observe(cmd.ElapsedMs)
	pin.DeadlineMs = cmd.DeadlineMs
	t.batch.Set(state.SpaceTier, pinKey(cmd.ID), encodePin(pin))
	return nil
}

// lapsePins ends the pins whose time is over.
func (t *transition) lapsePins(elapsedMs int64) {
	pins, _ := t.pins()
	for _, pin := range pins {
		if pin.DeadlineMs <= elapsedMs {
			t.batch.Delete(state.SpaceTier, pinKey(pin.ID))
		}
	}
}

func (t *transition) checkpointWritten(cmd command.CheckpointWritten) error {
	if cmd.Checkpoint.ID.IsZero() || cmd.Checkpoint.Index > t.index {
		return fmt.Errorf("checkpoint %s of index %d is not one of this log at %d: %w",
			cmd.Checkpoint.ID, cmd.Checkpoint.Index, t.index, kafka.InvalidRequest)
	}
	var known []command.Checkpoint
	t.note(t.batch.Scan(state.SpaceTier, state.Prefix([]byte{keyCheckpoint}), func(key, _ []byte) error {
		known = append(known, parseCheckpoint(key))
		return nil
	}))
	if len(known) > 0 && known[len(known)-1].Index > cmd.Checkpoint.Index {
		return fmt.Errorf("checkpoint %s of index %d is older than the newest, of index %d: %w",
			cmd.Checkpoint.ID, cmd.Checkpoint.Index, known[len(known)-1].Index, kafka.InvalidRequest)
	}
	t.observe(cmd.ElapsedMs)
	for len(known) >= command.KeptCheckpoints {
		t.batch.Delete(state.SpaceTier, checkpointKey(known[0]))
		known = known[1:]
	}
	t.batch.Set(state.SpaceTier, checkpointKey(cmd.Checkpoint), nil)
	return nil
}
