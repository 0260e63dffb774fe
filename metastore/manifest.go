package metastore

import (
	"fmt"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// items lists the top level of a partition's manifest.
func (t *transition) items(tp kafka.TopicIDPartition) []command.Item {
	var items []command.Item
	t.note(t.batch.Scan(state.SpaceTier, state.Prefix(partitionKey(keyHead, tp)), func(_, value []byte) error {
		item, err := command.ParseItem(value)
		items = append(items, item)
		return err
	}))
	if t.fault != nil {
		return nil // what cannot be read stops the state machine: nothing may be made of a part of it
	}
	return items
}

// totals adds up what of a run of items is part of the log.
func totals(items []command.Item, below command.Below) (segments, bytes int64) {
	if len(items) == 0 {
		return 0, 0
	}
	sum := command.Summarize(items)
	return sum.Segments - below.Segments, sum.ObjectBytes - below.Bytes
}

// hiddenIn tells what the first item, a reference in which the log start lies, lists of segments that are not part of
// the log any more: all items together have as much more than the tier state says.
func hiddenIn(items []command.Item, tier image.TierState) command.Below {
	segments, bytes := totals(items, command.Below{})
	if segments == tier.Segments {
		return command.Below{}
	}
	return command.Below{
		Reference: items[0].Summary().UploadID, Segments: segments - tier.Segments, Bytes: bytes - tier.Bytes,
	}
}

// referenceAt is the first item if it is a reference in which the log start lies; else none.
func referenceAt(items []command.Item, start int64) command.Reference {
	if len(items) == 0 {
		return command.Reference{}
	}
	if first, sealed := items[0].(command.Reference); sealed && first.BaseOffset < start {
		return first
	}
	return command.Reference{}
}

// checkBelow holds what a proposer says of the reference in which a log start lies against which one that is.
func checkBelow(items []command.Item, start int64, below command.Below) error {
	inside := referenceAt(items, start)
	switch {
	case below.Reference != inside.UploadID:
		return fmt.Errorf("offset %d lies in reference %s, not in %s: %w",
			start, inside.UploadID, below.Reference, command.ErrTierMoved)
	case below.Segments < 0 || below.Bytes < 0 || below.Bytes > inside.ObjectBytes ||
		(below.Segments == 0) != (below.Bytes == 0) ||
		below.Segments > 0 && below.Segments >= inside.Segments:
		return fmt.Errorf("%d of the %d segments of reference %s, with %d bytes, cannot be below an offset inside it: %w",
			below.Segments, inside.Segments, inside.UploadID, below.Bytes, kafka.InvalidRequest)
	}
	return nil
}

// run finds the items with exactly the given upload ids, from an offset on.
func run(items []command.Item, base int64, uploads []kafka.UUID) (first int, err error) {
	first = slices.IndexFunc(items, func(item command.Item) bool { return item.Summary().BaseOffset == base })
	if first >= 0 && first+len(uploads) <= len(items) {
		same := true
		for i, upload := range uploads {
			same = same && items[first+i].Summary().UploadID == upload
		}
		if same {
			return first, nil
		}
	}
	return 0, fmt.Errorf("the manifest has not the %d items from offset %d on: %w",
		len(uploads), base, command.ErrTierMoved)
}

func checkVersion(seen int64, tier image.TierState) error {
	if seen != tier.Version {
		return fmt.Errorf("the manifest is at version %d, not at %d: %w", tier.Version, seen, command.ErrTierMoved)
	}
	return nil
}

func (t *transition) seal(cmd command.Seal) (any, error) {
	tier, err := t.opened(cmd.Partition, cmd.LeaderEpoch)
	if err == nil {
		err = cmd.Reference.Validate()
	}
	if err == nil {
		err = checkVersion(cmd.Version, tier)
	}
	if err == nil {
		err = t.checkOrigin(cmd.Partition, cmd.Reference.Origin())
	}
	if err != nil {
		return tier, err
	}
	if len(cmd.Removed) == 0 || len(cmd.Removed) > command.MaxSealed {
		return tier, fmt.Errorf("%d items cannot be sealed at once: %w", len(cmd.Removed), kafka.InvalidRequest)
	}
	items := t.items(cmd.Partition)
	first, err := run(items, cmd.Reference.BaseOffset, cmd.Removed)
	if err != nil {
		return tier, err
	}
	sealed := items[first : first+len(cmd.Removed)]
	for _, item := range sealed {
		if level := item.Summary().Level; level != cmd.Reference.Level-1 {
			return tier, fmt.Errorf("an item of level %d cannot be sealed in one of level %d: %w",
				level, cmd.Reference.Level, kafka.InvalidRequest)
		}
	}
	if !cmd.Reference.Covers(sealed) {
		return tier, fmt.Errorf("reference %s does not say what its %d items do: %w",
			cmd.Reference.UploadID, len(sealed), kafka.InvalidRequest)
	}
	if err := t.consume(cmd.Partition, cmd.Reference.UploadID); err != nil {
		return tier, err
	}
	t.setItems(cmd.Partition, sealed, []command.Item{cmd.Reference})
	return t.setTier(cmd.Partition, cmd.LeaderEpoch, tier), nil
}

// setItems puts items in the place of others.
func (t *transition) setItems(tp kafka.TopicIDPartition, removed, added []command.Item) {
	for _, item := range removed {
		t.batch.Delete(state.SpaceTier, headKey(tp, item.Summary().BaseOffset))
	}
	for _, item := range added {
		t.batch.Set(state.SpaceTier, headKey(tp, item.Summary().BaseOffset), item.AppendTo(nil))
	}
}

func (t *transition) replaceRange(cmd command.ReplaceRange) (any, error) {
	tier, err := t.opened(cmd.Partition, cmd.LeaderEpoch)
	if err == nil {
		err = checkVersion(cmd.Version, tier)
	}
	if err == nil {
		err = t.checkAdded(cmd)
	}
	if err != nil {
		return tier, err
	}
	items := t.items(cmd.Partition)
	first, err := run(items, cmd.Added[0].Summary().BaseOffset, cmd.Removed)
	if err != nil {
		return tier, err
	}
	removed := items[first : first+len(cmd.Removed)]
	end := cmd.Added[len(cmd.Added)-1].Summary().EndOffset
	if removedEnd := removed[len(removed)-1].Summary().EndOffset; removedEnd != end {
		return tier, fmt.Errorf("the added items end at %d, the removed ones at %d: %w", end, removedEnd,
			kafka.InvalidRequest)
	}
	next := slices.Concat(items[:first], cmd.Added, items[first+len(removed):])
	below := hiddenIn(items, tier)
	if next[0] != items[0] {
		below = cmd.Below
		if err := checkBelow(next, tier.Start, below); err != nil {
			return tier, err
		}
	}
	if err := t.consume(cmd.Partition, cmd.Consumed...); err != nil {
		return tier, err
	}
	elapsedMs := t.observe(cmd.ElapsedMs)
	t.setItems(cmd.Partition, removed, cmd.Added)
	for _, item := range removed {
		if !slices.Contains(cmd.Added, item) {
			t.discard(cmd.Partition, replaced(item), elapsedMs)
		}
	}
	for _, garbage := range cmd.Discarded {
		t.discard(cmd.Partition, garbage, elapsedMs)
	}
	tier.Segments, tier.Bytes = totals(next, below)
	return t.setTier(cmd.Partition, cmd.LeaderEpoch, tier), nil
}

// replaced is what an item becomes that another takes the place of.
func replaced(item command.Item) command.Garbage {
	garbage := expired(item)
	if reference, sealed := item.(command.Reference); sealed {
		garbage.Kind, garbage.Whole, garbage.ObjectBytes = command.ReplacedManifest, false, int64(reference.SealedBytes)
	}
	return garbage
}

// checkAdded checks what can be checked of a replacement without the manifest.
func (t *transition) checkAdded(cmd command.ReplaceRange) error {
	if len(cmd.Removed) == 0 || len(cmd.Added) == 0 {
		return fmt.Errorf("%d items cannot be replaced by %d: %w", len(cmd.Removed), len(cmd.Added), kafka.InvalidRequest)
	}
	for i, item := range cmd.Added {
		if err := item.Validate(); err != nil {
			return err
		}
		s := item.Summary()
		if i > 0 && cmd.Added[i-1].Summary().EndOffset != s.BaseOffset {
			return fmt.Errorf("the added items have a gap at offset %d: %w", s.BaseOffset, kafka.InvalidRequest)
		}
		if slices.Contains(cmd.Removed, s.UploadID) {
			continue
		}
		if !slices.Contains(cmd.Consumed, s.UploadID) {
			return fmt.Errorf("upload id %s: %w", s.UploadID, command.ErrUploadNotReserved)
		}
		if err := t.checkOrigin(cmd.Partition, s.Origin()); err != nil {
			return err
		}
	}
	for i, upload := range cmd.Consumed {
		if slices.Contains(cmd.Consumed[:i], upload) {
			return fmt.Errorf("upload id %s is consumed twice: %w", upload, kafka.InvalidRequest)
		}
	}
	for _, garbage := range cmd.Discarded {
		if garbage.Kind != command.RemovedSegment && garbage.Kind != command.ReplacedManifest || garbage.UploadID.IsZero() {
			return fmt.Errorf("garbage of kind %d cannot be discarded: %w", garbage.Kind, kafka.InvalidRequest)
		}
	}
	return nil
}
