package metastore

import (
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// leads finds a partition and checks that the proposer leads it in its current epoch: what a former leader wants, or
// one that this node has not heard of yet, is refused whatever it is.
func (t *transition) leads(tp kafka.TopicIDPartition, epoch kafka.LeaderEpoch) (*image.Partition, error) {
	if _, found := t.image.TopicByID(tp.ID); !found {
		return nil, fmt.Errorf("partition %s: %w", tp, kafka.UnknownTopicID)
	}
	partition, found := t.image.PartitionByID(tp)
	switch {
	case !found:
		return nil, fmt.Errorf("partition %s: %w", tp, kafka.UnknownTopicOrPartition)
	case epoch < partition.Epoch:
		return partition, fmt.Errorf("partition %s has leader epoch %d, not %d: %w",
			tp, partition.Epoch, epoch, kafka.FencedLeaderEpoch)
	case epoch > partition.Epoch:
		return partition, fmt.Errorf("partition %s has leader epoch %d, not %d: %w",
			tp, partition.Epoch, epoch, kafka.UnknownLeaderEpoch)
	}
	return partition, nil
}

// opened is leads for a partition whose tier is open.
func (t *transition) opened(tp kafka.TopicIDPartition, epoch kafka.LeaderEpoch) (image.TierState, error) {
	partition, err := t.leads(tp, epoch)
	switch {
	case err != nil:
		return tierOf(partition), err
	case partition.Tier == nil:
		return image.TierState{}, fmt.Errorf("partition %s: %w", tp, command.ErrTierNotOpen)
	}
	return *partition.Tier, nil
}

func tierOf(partition *image.Partition) image.TierState {
	if partition == nil || partition.Tier == nil {
		return image.TierState{}
	}
	return *partition.Tier
}

// setTier stores the next tier state; its version is one above the last.
func (t *transition) setTier(tp kafka.TopicIDPartition, epoch kafka.LeaderEpoch, next image.TierState) image.TierState {
	next.Version++
	next.LeaderEpoch = epoch
	t.batch.Set(state.SpaceTier, partitionKey(keyTier, tp), encodeTier(&next))
	t.image = t.image.WithTier(tp, &next)
	t.delta.TierChanged = append(t.delta.TierChanged, tp)
	return next
}

func (t *transition) openTier(cmd command.OpenTier) (any, error) {
	partition, err := t.leads(cmd.Partition, cmd.LeaderEpoch)
	if err != nil {
		return tierOf(partition), err
	}
	if partition.Tier != nil {
		return *partition.Tier, nil
	}
	if cmd.Start < 0 {
		return image.TierState{}, fmt.Errorf("a log cannot start at %d: %w", cmd.Start, kafka.InvalidRequest)
	}
	return t.setTier(cmd.Partition, cmd.LeaderEpoch, image.TierState{Start: cmd.Start, End: cmd.Start}), nil
}

func (t *transition) reserveUploads(cmd command.ReserveUploads) (any, error) {
	tier, err := t.opened(cmd.Partition, cmd.LeaderEpoch)
	if err != nil {
		return tier, err
	}
	if err := t.checkReservation(cmd); err != nil {
		return tier, err
	}
	t.observe(cmd.ElapsedMs)
	reserved := reservation{leaderEpoch: cmd.LeaderEpoch, remoteEnd: tier.End, deadlineMs: cmd.DeadlineMs}
	for _, upload := range cmd.UploadIDs {
		t.batch.Set(state.SpaceTier, uploadKey(keyReservation, cmd.Partition, upload), reserved.encode())
		t.batch.Set(state.SpaceTier, deadlineKey(cmd.DeadlineMs, cmd.Partition, upload), nil)
	}
	return tier, nil
}

// checkReservation refuses ids that are reserved or garbage already. A committed one cannot be found out cheaply; ids
// are random, so that it can only be a mistake of the proposer's.
func (t *transition) checkReservation(cmd command.ReserveUploads) error {
	if len(cmd.UploadIDs) == 0 || len(cmd.UploadIDs) > command.MaxReservedUploads {
		return fmt.Errorf("%d upload ids cannot be reserved at once: %w", len(cmd.UploadIDs), kafka.InvalidRequest)
	}
	if now := max(cmd.ElapsedMs, t.image.ElapsedMs); cmd.DeadlineMs <= now {
		return fmt.Errorf("the deadline %d ms is over at %d ms: %w", cmd.DeadlineMs, now, kafka.InvalidRequest)
	}
	for _, upload := range cmd.UploadIDs {
		if upload.IsZero() ||
			t.get(uploadKey(keyReservation, cmd.Partition, upload)) != nil ||
			t.get(uploadKey(keyGarbage, cmd.Partition, upload)) != nil {
			return fmt.Errorf("upload id %s is not a new one: %w", upload, kafka.InvalidRequest)
		}
	}
	return nil
}

func (t *transition) commitSegment(cmd command.CommitSegment) (any, error) {
	tier, err := t.opened(cmd.Partition, cmd.LeaderEpoch)
	if err != nil {
		return tier, err
	}
	entry := cmd.Entry
	if err := entry.Validate(); err != nil {
		return tier, err
	}
	if entry.LeaderEpoch > cmd.LeaderEpoch {
		return tier, fmt.Errorf("the segment's leader epoch %d is above the leader's %d: %w",
			entry.LeaderEpoch, cmd.LeaderEpoch, kafka.InvalidRequest)
	}
	if cmd.Version != tier.Version || entry.BaseOffset != tier.End {
		return tier, fmt.Errorf("segment [%d, %d) at version %d does not follow the remote end %d at version %d: %w",
			entry.BaseOffset, entry.EndOffset, cmd.Version, tier.End, tier.Version, command.ErrTierMoved)
	}
	reserved, found := t.reservation(cmd.Partition, entry.UploadID)
	if !found {
		return tier, fmt.Errorf("upload id %s of partition %s: %w",
			entry.UploadID, cmd.Partition, command.ErrUploadNotReserved)
	}
	t.consume(cmd.Partition, entry.UploadID, reserved)
	// The head has no bound yet: sealing its oldest 64 entries into a leaf object, once it has 128, is a command of its
	// own, and the entries' kind byte keeps the place of the reference that replaces them.
	t.batch.Set(state.SpaceTier, headKey(cmd.Partition, entry.BaseOffset), entry.AppendTo(nil))
	tier.End = entry.EndOffset
	tier.Bytes += entry.ObjectBytes
	tier.Segments++
	return t.setTier(cmd.Partition, cmd.LeaderEpoch, tier), nil
}

func (t *transition) reservation(tp kafka.TopicIDPartition, upload kafka.UUID) (reservation, bool) {
	value := t.get(uploadKey(keyReservation, tp, upload))
	if value == nil {
		return reservation{}, false
	}
	reserved, err := parseReservation(value)
	t.note(err)
	return reserved, err == nil
}

// consume ends a reservation.
func (t *transition) consume(tp kafka.TopicIDPartition, upload kafka.UUID, reserved reservation) {
	t.batch.Delete(state.SpaceTier, uploadKey(keyReservation, tp, upload))
	t.batch.Delete(state.SpaceTier, deadlineKey(reserved.deadlineMs, tp, upload))
}

func (t *transition) advanceStart(cmd command.AdvanceStart) (any, error) {
	tier, err := t.opened(cmd.Partition, cmd.LeaderEpoch)
	if err != nil || cmd.Start <= tier.Start {
		return tier, err
	}
	elapsedMs := t.observe(cmd.ElapsedMs)
	for _, entry := range t.entriesBelow(cmd.Partition, cmd.Start) {
		t.batch.Delete(state.SpaceTier, headKey(cmd.Partition, entry.BaseOffset))
		t.discard(command.Garbage{
			Partition: cmd.Partition, Kind: command.RemovedSegment, UploadID: entry.UploadID,
			LeaderEpoch: entry.LeaderEpoch, BaseOffset: entry.BaseOffset, EndOffset: entry.EndOffset,
			ObjectBytes: entry.ObjectBytes, ElapsedMs: elapsedMs,
		})
		tier.Bytes -= entry.ObjectBytes
		tier.Segments--
	}
	tier.Start = cmd.Start
	tier.End = max(tier.End, cmd.Start)
	return t.setTier(cmd.Partition, cmd.LeaderEpoch, tier), nil
}

// errEnough ends a scan early.
var errEnough = errors.New("enough")

// entriesBelow lists the head entries that end at or before the offset. They are the first ones of the partition.
func (t *transition) entriesBelow(tp kafka.TopicIDPartition, offset int64) []command.SegmentEntry {
	var entries []command.SegmentEntry
	head := state.Prefix(partitionKey(keyHead, tp))
	err := t.batch.Scan(state.SpaceTier, head, func(_, value []byte) error {
		entry, err := command.ParseSegmentEntry(value)
		if err != nil {
			return err
		}
		if entry.EndOffset > offset {
			return errEnough
		}
		entries = append(entries, entry)
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.note(err)
	}
	return entries
}

func (t *transition) discard(garbage command.Garbage) {
	key := uploadKey(keyGarbage, garbage.Partition, garbage.UploadID)
	t.batch.Set(state.SpaceTier, key, encodeGarbage(garbage))
}

func (t *transition) lapseReservations(cmd command.LapseReservations) (any, error) {
	elapsedMs := t.observe(cmd.ElapsedMs)
	var lapsed command.ReservationsLapsed
	for _, key := range t.deadlinesUpTo(elapsedMs) {
		_, tp, upload := parseDeadline(key)
		t.batch.Delete(state.SpaceTier, key)
		reserved, found := t.reservation(tp, upload)
		if !found {
			continue // its topic is deleted
		}
		t.batch.Delete(state.SpaceTier, uploadKey(keyReservation, tp, upload))
		t.discard(command.Garbage{
			Partition: tp, Kind: command.LapsedUpload, UploadID: upload, LeaderEpoch: reserved.leaderEpoch,
			BaseOffset: reserved.remoteEnd, EndOffset: -1, ElapsedMs: elapsedMs,
		})
		lapsed.Uploads++
	}
	return lapsed, nil
}

// deadlinesUpTo lists keys of the index by deadline.
func (t *transition) deadlinesUpTo(elapsedMs int64) [][]byte {
	var keys [][]byte
	due := state.Range{
		Start: []byte{keyDeadline},
		End:   deadlineKey(elapsedMs+1, kafka.TopicIDPartition{}, kafka.UUID{}),
	}
	t.note(t.batch.Scan(state.SpaceTier, due, func(key, _ []byte) error {
		keys = append(keys, append([]byte(nil), key...))
		return nil
	}))
	return keys
}

func (t *transition) collected(cmd command.Collected) {
	for _, object := range cmd.Objects {
		t.batch.Delete(state.SpaceTier, uploadKey(keyGarbage, object.Partition, object.UploadID))
	}
}

func (t *transition) topicCollected(cmd command.TopicCollected) {
	t.batch.Delete(state.SpaceTier, topicKey(keyDeletedTopic, cmd.TopicID))
}
