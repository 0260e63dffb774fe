package metastore

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

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
	reserved := reservation{
		leaderEpoch: cmd.LeaderEpoch, lowest: tier.End, deadlineMs: cmd.DeadlineMs, rewrite: cmd.Rewrite,
	}
	if cmd.Rewrite {
		reserved.lowest = min(max(cmd.From, 0), tier.End)
	}
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
	if err := t.checkOrigin(cmd.Partition, entry.Origin()); err != nil {
		return tier, err
	}
	if cmd.Version != tier.Version || entry.BaseOffset != tier.End {
		return tier, fmt.Errorf("segment [%d, %d) at version %d does not follow the remote end %d at version %d: %w",
			entry.BaseOffset, entry.EndOffset, cmd.Version, tier.End, tier.Version, command.ErrTierMoved)
	}
	if err := t.consume(cmd.Partition, entry.UploadID); err != nil {
		return tier, err
	}
	// The head has no bound here: the leader seals its oldest entries by and by, and must be able to go on when it cannot.
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

// consume ends the reservations of uploads, all of them or none.
func (t *transition) consume(tp kafka.TopicIDPartition, uploads ...kafka.UUID) error {
	deadlines := make([]int64, len(uploads))
	for i, upload := range uploads {
		reserved, found := t.reservation(tp, upload)
		if !found {
			return fmt.Errorf("upload id %s of partition %s: %w", upload, tp, command.ErrUploadNotReserved)
		}
		deadlines[i] = reserved.deadlineMs
	}
	for i, upload := range uploads {
		t.batch.Delete(state.SpaceTier, uploadKey(keyReservation, tp, upload))
		t.batch.Delete(state.SpaceTier, deadlineKey(deadlines[i], tp, upload))
	}
	return nil
}

// checkOrigin refuses an object that claims to be another cluster's: its key would lead nowhere.
func (t *transition) checkOrigin(tp kafka.TopicIDPartition, origin int) error {
	topic, _ := t.image.TopicByID(tp.ID)
	if want := topic.Origin(); origin != want {
		return fmt.Errorf("an object of %s has origin %d instead of %d: %w", tp, origin, want, kafka.InvalidRequest)
	}
	return nil
}

func (t *transition) advanceStart(cmd command.AdvanceStart) (any, error) {
	tier, err := t.opened(cmd.Partition, cmd.LeaderEpoch)
	if err != nil || cmd.Start <= tier.Start {
		return tier, err
	}
	items := t.items(cmd.Partition)
	gone := 0
	for gone < len(items) && items[gone].Summary().EndOffset <= cmd.Start {
		gone++
	}
	kept := items[gone:]
	hidden := hiddenIn(items, tier)
	if err := checkBelow(kept, cmd.Start, cmd.Below); err != nil {
		return tier, err
	}
	if gone == 0 && cmd.Below.Segments < hidden.Segments {
		return tier, fmt.Errorf("%d segments below %d, where %d have gone already, make no sense: %w",
			cmd.Below.Segments, cmd.Start, hidden.Segments, kafka.InvalidRequest)
	}
	elapsedMs := t.observe(cmd.ElapsedMs)
	for _, item := range items[:gone] {
		t.batch.Delete(state.SpaceTier, headKey(cmd.Partition, item.Summary().BaseOffset))
		t.discard(cmd.Partition, expired(item), elapsedMs)
	}
	newlyBelow := cmd.Below
	if gone == 0 {
		newlyBelow.Segments -= hidden.Segments
		newlyBelow.Bytes -= hidden.Bytes
	}
	if newlyBelow.Segments > 0 {
		t.discard(cmd.Partition, expiredPart(kept[0].(command.Reference), newlyBelow, tier.Start, cmd.Start), elapsedMs)
	}
	tier.Segments, tier.Bytes = totals(kept, cmd.Below)
	tier.Start = cmd.Start
	tier.End = max(tier.End, cmd.Start)
	return t.setTier(cmd.Partition, cmd.LeaderEpoch, tier), nil
}

func (t *transition) emptyTier(cmd command.EmptyTier) (any, error) {
	tier, err := t.opened(cmd.Partition, cmd.LeaderEpoch)
	start := max(tier.Start, cmd.Start)
	if err != nil || tier.Start == start && tier.End == start {
		return tier, err
	}
	elapsedMs := t.observe(cmd.ElapsedMs)
	for _, item := range t.items(cmd.Partition) {
		t.batch.Delete(state.SpaceTier, headKey(cmd.Partition, item.Summary().BaseOffset))
		t.discard(cmd.Partition, expired(item), elapsedMs)
	}
	// An upload that was reserved for a later place than the next one begins at would not be found, should it lapse.
	t.lapseAll(cmd.Partition, elapsedMs)
	tier.Segments, tier.Bytes = 0, 0
	tier.Start, tier.End = start, start
	return t.setTier(cmd.Partition, cmd.LeaderEpoch, tier), nil
}

// expired is what an item becomes that the log start has passed as a whole.
func expired(item command.Item) command.Garbage {
	s := item.Summary()
	garbage := command.Garbage{
		Kind: command.RemovedSegment, UploadID: s.UploadID, Origin: s.Origin(), LeaderEpoch: s.LeaderEpoch,
		BaseOffset: s.BaseOffset, EndOffset: s.EndOffset, ObjectBytes: s.ObjectBytes,
	}
	if reference, sealed := item.(command.Reference); sealed {
		garbage.Kind, garbage.Tree, garbage.Whole = command.ExpiredTree, reference, true
		garbage.ObjectBytes += int64(reference.SealedBytes)
	}
	return garbage
}

// expiredPart is what goes of a reference when the log start moves inside it.
func expiredPart(tree command.Reference, gone command.Below, oldStart, newStart int64) command.Garbage {
	from := max(oldStart, tree.BaseOffset)
	return command.Garbage{
		Kind: command.ExpiredTree, UploadID: tree.UploadID, Origin: tree.Origin(), LeaderEpoch: tree.LeaderEpoch,
		BaseOffset: from, EndOffset: newStart, ObjectBytes: gone.Bytes, Tree: tree, From: from, To: newStart,
	}
}

// discard remembers a piece of garbage. A tree that goes as a whole includes the parts of it that have gone before.
func (t *transition) discard(tp kafka.TopicIDPartition, garbage command.Garbage, elapsedMs int64) {
	garbage.Partition, garbage.ElapsedMs, garbage.Index = tp, elapsedMs, t.index
	if garbage.Kind == command.ExpiredTree && garbage.Whole {
		t.batch.DeleteRange(state.SpaceTier, state.Prefix(uploadKey(keyGarbage, tp, garbage.UploadID)))
	}
	t.batch.Set(state.SpaceTier, garbageKey(garbage.Object()), encodeGarbage(garbage))
}

func (t *transition) lapseReservations(cmd command.LapseReservations) (any, error) {
	elapsedMs := t.observe(cmd.ElapsedMs)
	var lapsed command.ReservationsLapsed
	for _, key := range t.deadlinesUpTo(elapsedMs) {
		_, tp, upload := parseDeadline(key)
		t.batch.Delete(state.SpaceTier, key)
		reserved, found := t.reservation(tp, upload)
		if !found {
			continue // its topic is deleted, or its remote storage was switched off
		}
		t.lapse(tp, upload, reserved, elapsedMs)
		lapsed.Uploads++
	}
	t.lapsePins(elapsedMs)
	return lapsed, nil
}

// lapse ends a reservation under which there may be an object. Its place in the index by deadline is left alone.
func (t *transition) lapse(tp kafka.TopicIDPartition, upload kafka.UUID, reserved reservation, elapsedMs int64) {
	t.batch.Delete(state.SpaceTier, uploadKey(keyReservation, tp, upload))
	garbage := command.Garbage{
		Kind: command.LapsedUpload, UploadID: upload, LeaderEpoch: reserved.leaderEpoch,
		BaseOffset: reserved.lowest, EndOffset: -1,
	}
	if reserved.rewrite {
		garbage.Kind = command.LapsedRewrite
	}
	t.discard(tp, garbage, elapsedMs)
}

// lapseAll ends the reservations of a partition.
func (t *transition) lapseAll(tp kafka.TopicIDPartition, elapsedMs int64) {
	reserved := map[kafka.UUID]reservation{}
	prefix := partitionKey(keyReservation, tp)
	t.note(t.batch.Scan(state.SpaceTier, state.Prefix(prefix), func(key, value []byte) error {
		parsed, err := parseReservation(value)
		reserved[kafka.UUID(key[len(prefix):])] = parsed
		return err
	}))
	if t.fault != nil {
		return
	}
	for _, upload := range slices.SortedFunc(maps.Keys(reserved), func(a, b kafka.UUID) int {
		return bytes.Compare(a[:], b[:])
	}) {
		t.lapse(tp, upload, reserved[upload], elapsedMs)
	}
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
		t.batch.Delete(state.SpaceTier, garbageKey(object))
	}
}

func (t *transition) topicCollected(cmd command.TopicCollected) {
	t.batch.Delete(state.SpaceTier, topicKey(keyDeletedTopic, cmd.TopicID))
}
