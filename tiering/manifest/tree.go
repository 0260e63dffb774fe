package manifest

import (
	"context"
	"fmt"
	"iter"
	"sort"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/segment"
)

// Tree is the manifest of a partition as of one version of its tier state. It may be used by several goroutines. Sealed
// objects are loaded when a look-up needs them.
type Tree struct {
	Start, End int64 // what is remote of the log, as the tier state says
	Version    int64
	Bytes      int64 // of all objects of segments that are part of the log
	Count      int64 // of these segments

	manifests *Manifests
	tp        kafka.TopicIDPartition
	topic     *image.Topic
	items     []command.Item
}

// Items is the top level. It must not be changed.
func (t *Tree) Items() []command.Item { return t.items }

// Key is the key of the object that an item of the tree stands for.
func (t *Tree) Key(item command.Item) segment.Key { return t.manifests.keyOf(t.topic, t.tp, item) }

// Open gives what a reference stands for.
func (t *Tree) Open(ctx context.Context, reference command.Reference) ([]command.Item, error) {
	return t.manifests.load(ctx, t.Key(reference), reference)
}

// endingAfter is the index of the first item with anything past an offset, or len(items).
func endingAfter(items []command.Item, offset int64) int {
	return sort.Search(len(items), func(i int) bool { return items[i].Summary().EndOffset > offset })
}

// Find is the segment that answers for an offset. There is none if the offset is past the end, or below the first one.
func (t *Tree) Find(ctx context.Context, offset int64) (entry command.SegmentEntry, found bool, err error) {
	items := t.items
	for {
		index := endingAfter(items, offset)
		if index == len(items) || items[index].Summary().BaseOffset > offset {
			return command.SegmentEntry{}, false, nil
		}
		reference, sealed := items[index].(command.Reference)
		if !sealed {
			return items[index].(command.SegmentEntry), true, nil
		}
		if items, err = t.Open(ctx, reference); err != nil {
			return command.SegmentEntry{}, false, fmt.Errorf("look up offset %d: %w", offset, err)
		}
	}
}

// Segments yields the segments that reach into [from, to), in order. Sealed objects are loaded one by one as they are
// come to; an error ends it.
func (t *Tree) Segments(ctx context.Context, from, to int64) iter.Seq2[command.SegmentEntry, error] {
	return func(yield func(command.SegmentEntry, error) bool) {
		t.walk(ctx, t.items, from, to, func(item command.Item, err error) bool {
			if err != nil {
				yield(command.SegmentEntry{}, err)
				return false
			}
			entry, isSegment := item.(command.SegmentEntry)
			return !isSegment || yield(entry, nil)
		})
	}
}

// Walk yields all items of the tree that reach into [from, to), in order, each reference before what it stands for. An
// error is about what the reference before it stands for, and the walk goes on behind that.
func (t *Tree) Walk(ctx context.Context, from, to int64) iter.Seq2[command.Item, error] {
	return func(yield func(command.Item, error) bool) { t.walk(ctx, t.items, from, to, yield) }
}

func (t *Tree) walk(ctx context.Context, items []command.Item, from, to int64,
	yield func(command.Item, error) bool,
) (goesOn bool) {
	for _, item := range items[endingAfter(items, from):] {
		if item.Summary().BaseOffset >= to {
			return false
		}
		if !yield(item, nil) {
			return false
		}
		reference, sealed := item.(command.Reference)
		if !sealed {
			continue
		}
		inner, err := t.Open(ctx, reference)
		if err != nil {
			if !yield(item, err) {
				return false
			}
			continue
		}
		if !t.walk(ctx, inner, from, to, yield) {
			return false
		}
	}
	return true
}

// FindTimestamp is the first segment that may hold a record at or after offset from with a timestamp at or after the
// given one. It holds none only if from lies inside it and the record that it was found for comes before from; the
// search then goes on from the segment's end. That there is none the summaries alone tell, unless from lies inside a
// reference.
func (t *Tree) FindTimestamp(ctx context.Context, timestamp, from int64) (command.SegmentEntry, bool, error) {
	return t.findTimestamp(ctx, t.items, timestamp, from)
}

func (t *Tree) findTimestamp(ctx context.Context, items []command.Item, timestamp, from int64) (
	command.SegmentEntry, bool, error,
) {
	for _, item := range items[endingAfter(items, from):] {
		if item.Summary().MaxTimestamp < timestamp {
			continue
		}
		reference, sealed := item.(command.Reference)
		if !sealed {
			return item.(command.SegmentEntry), true, nil
		}
		inner, err := t.Open(ctx, reference)
		if err != nil {
			return command.SegmentEntry{}, false, fmt.Errorf("look up time %d: %w", timestamp, err)
		}
		if entry, found, err := t.findTimestamp(ctx, inner, timestamp, from); found || err != nil {
			return entry, found, err
		}
	}
	return command.SegmentEntry{}, false, nil
}

// Peak is a record with the largest timestamp.
type Peak struct{ Timestamp, Offset int64 }

// MaxTimestamp is the first record at or after offset from with the largest timestamp, of those that a manifest knows:
// it knows one of each segment. What it leaves out is what Straddling finds.
func (t *Tree) MaxTimestamp(ctx context.Context, from int64) (peak Peak, found bool, err error) {
	peak, err = t.maxTimestamp(ctx, t.items, from)
	return peak, peak.Offset >= 0, err
}

func (t *Tree) maxTimestamp(ctx context.Context, items []command.Item, from int64) (Peak, error) {
	best := Peak{Timestamp: -1, Offset: -1}
	items = items[endingAfter(items, from):]
	if len(items) == 0 {
		return best, nil
	}
	for _, item := range items[1:] {
		if s := item.Summary(); s.MaxTimestampOffset >= from && s.MaxTimestamp > best.Timestamp {
			best = Peak{s.MaxTimestamp, s.MaxTimestampOffset}
		}
	}
	first := items[0].Summary() // where it is as large as the best, it comes before that
	reference, sealed := items[0].(command.Reference)
	switch {
	case first.MaxTimestamp < 0 || first.MaxTimestamp < best.Timestamp:
	case first.MaxTimestampOffset >= from:
		best = Peak{first.MaxTimestamp, first.MaxTimestampOffset}
	case sealed:
		inner, err := t.Open(ctx, reference)
		if err != nil {
			return best, fmt.Errorf("look up the largest time: %w", err)
		}
		rest, err := t.maxTimestamp(ctx, inner, from)
		if err != nil {
			return best, err
		}
		if rest.Offset >= 0 && rest.Timestamp >= best.Timestamp {
			best = rest
		}
	}
	return best, nil
}

// Straddling is the segment in which offset from lies such that the record with its largest timestamp comes before
// from: its entry does not tell the largest timestamp of the rest.
func (t *Tree) Straddling(ctx context.Context, from int64) (command.SegmentEntry, bool, error) {
	entry, found, err := t.Find(ctx, from)
	return entry, found && entry.MaxTimestampOffset >= 0 && entry.MaxTimestampOffset < from, err
}

// Live is the part of the manifest that the log consists of: the top level with the reference in which the log start
// lies replaced by what of it lies past the start. It loads at most a node and a leaf.
func (t *Tree) Live(ctx context.Context) ([]command.Item, error) {
	return t.live(ctx, t.items, t.Start)
}

func (t *Tree) live(ctx context.Context, items []command.Item, start int64) ([]command.Item, error) {
	items = items[endingAfter(items, start):]
	if len(items) == 0 {
		return nil, nil
	}
	reference, sealed := items[0].(command.Reference)
	if !sealed || reference.BaseOffset >= start {
		return items, nil
	}
	inner, err := t.Open(ctx, reference)
	if err != nil {
		return nil, fmt.Errorf("list what of the log is remote: %w", err)
	}
	if inner, err = t.live(ctx, inner, start); err != nil {
		return nil, err
	}
	return append(inner[:len(inner):len(inner)], items[1:]...), nil
}

// Below counts what of the reference in which a log start would lie is below that start, for AdvanceStart.
func (t *Tree) Below(ctx context.Context, start int64) (command.Below, error) {
	index := endingAfter(t.items, start)
	if index == len(t.items) {
		return command.Below{}, nil
	}
	reference, sealed := t.items[index].(command.Reference)
	if !sealed || reference.BaseOffset >= start {
		return command.Below{}, nil
	}
	below := command.Below{Reference: reference.UploadID, Segments: reference.Segments, Bytes: reference.ObjectBytes}
	rest, err := t.live(ctx, t.items[index:index+1], start)
	if err != nil {
		return command.Below{}, err
	}
	for _, item := range rest {
		s := item.Summary()
		below.Segments -= s.Segments
		below.Bytes -= s.ObjectBytes
	}
	return below, nil
}
