package firn

import (
	"context"
	"math"
	"time"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// shownPins gives pins out at the HTTP listener.
type shownPins struct{ node *Node }

// unpinTimeout is for taking back a pin that nobody gets to know of.
const unpinTimeout = 5 * time.Second

// Pin implements admin.Pins. The manifest is read only when the pin is part of the metadata: what it then lists cannot
// be collected, and what was taken out of it before, which may be collected, is not in it. What has come to the log
// meanwhile is above the pinned range, and cut off.
func (s shownPins) Pin(ctx context.Context, topic *image.Topic, ranges []command.PartitionRange, lease time.Duration) (
	view.Pin, error,
) {
	meta := s.node.meta
	if len(ranges) == 0 {
		ranges = wholeTopic(topic)
	}
	pin := command.Pin{ID: newID(), TopicID: topic.ID, DeadlineMs: meta.ElapsedMs() + lease.Milliseconds()}
	for _, wanted := range ranges {
		known, err := s.partition(topic, wanted)
		if err != nil {
			return view.Pin{}, err
		}
		pin.Ranges = append(pin.Ranges, command.PartitionRange{
			Partition: wanted.Partition, From: known.Start, To: known.End,
		})
	}
	shown := s.describe(topic, pin, lease)
	_, err := meta.Propose(ctx, command.PinSnapshot{Pin: pin, ElapsedMs: meta.ElapsedMs()})
	for i := 0; i < len(pin.Ranges) && err == nil; i++ {
		var partition view.PinPartition
		partition, err = s.partition(topic, pin.Ranges[i])
		shown.Partitions = append(shown.Partitions, partition)
	}
	if err == nil {
		return shown, nil
	}
	// It may have been made all the same. If it cannot be taken back, its lease ends it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unpinTimeout)
	defer cancel()
	if err := s.Unpin(ctx, pin.ID); err != nil {
		s.node.logger.Warn("a pin that nobody uses is kept until its lease ends", "pin", pin.ID.Hex(), "err", err)
	}
	return view.Pin{}, err
}

// describe tells of a pin whose it is.
func (s shownPins) describe(topic *image.Topic, pin command.Pin, lease time.Duration) view.Pin {
	cluster := s.node.meta.Image().ClusterID
	shown := view.Pin{
		ID: pin.ID.Hex(), LeaseMs: lease.Milliseconds(), ClusterID: cluster.Hex(), Topic: topic.Name,
		TopicID: topic.ID.String(),
	}
	if s.node.deps.Bucket == nil {
		shown.Store = s.node.config.ObjectStore
	}
	for origin := range max(len(topic.Origins), 1) {
		shown.Origins = append(shown.Origins, topic.OriginID(cluster, origin).Hex())
	}
	return shown
}

func wholeTopic(topic *image.Topic) []command.PartitionRange {
	ranges := make([]command.PartitionRange, len(topic.Partitions))
	for i := range ranges {
		ranges[i] = command.PartitionRange{Partition: int32(i), To: math.MaxInt64}
	}
	return ranges
}

// partition tells what is in the bucket of a range of a partition. Nothing is where tiering has not begun yet.
func (s shownPins) partition(topic *image.Topic, wanted command.PartitionRange) (view.PinPartition, error) {
	tier, items, err := s.node.meta.Items(kafka.TopicIDPartition{ID: topic.ID, Partition: wanted.Partition})
	if err != nil {
		return view.PinPartition{}, err
	}
	if tier == nil {
		tier = &image.TierState{}
	}
	shown := view.PinPartition{
		Partition: wanted.Partition, Start: max(wanted.From, tier.Start),
		LogStart: tier.Start, HighWatermark: -1, LastStableOffset: -1,
	}
	shown.End = max(shown.Start, min(wanted.To, tier.End))
	log, err := s.node.logs.Log(kafka.TopicPartition{Topic: topic.Name, Partition: wanted.Partition})
	if err == nil { // else it is offline, and the bucket has what it has
		shown.LogStart, shown.HighWatermark = log.LogStartOffset(), log.HighWatermark()
		shown.LastStableOffset = log.LastStableOffset()
	}
	var within []command.Item
	for _, item := range items {
		if summary := item.Summary(); summary.EndOffset > shown.Start && summary.BaseOffset < shown.End {
			within = append(within, item)
		}
	}
	shown.Items = command.AppendItems(nil, within)
	return shown, nil
}

// Extend implements admin.Pins.
func (s shownPins) Extend(ctx context.Context, id kafka.UUID, lease time.Duration) error {
	now := s.node.meta.ElapsedMs()
	_, err := s.node.meta.Propose(ctx, command.ExtendPin{
		ID: id, DeadlineMs: now + lease.Milliseconds(), ElapsedMs: now,
	})
	return err
}

// Unpin implements admin.Pins. What was only kept for the pin may go at once.
func (s shownPins) Unpin(ctx context.Context, id kafka.UUID) error {
	_, err := s.node.meta.Propose(ctx, command.Unpin{ID: id})
	if err == nil {
		s.node.tier.Collect()
	}
	return err
}

// List implements admin.Pins.
func (s shownPins) List() ([]view.PinStatus, error) {
	pins, err := s.node.meta.Pins()
	if err != nil {
		return nil, err
	}
	now := s.node.meta.ElapsedMs()
	shown := make([]view.PinStatus, len(pins))
	for i, pin := range pins {
		shown[i] = view.PinStatus{
			ID: pin.ID.Hex(), TopicID: pin.TopicID.String(), LeaseMs: max(pin.DeadlineMs-now, 0),
			Partitions: []view.PinRange{},
		}
		for _, part := range pin.Ranges {
			shown[i].Partitions = append(shown[i].Partitions, view.PinRange(part))
		}
	}
	return shown, nil
}
