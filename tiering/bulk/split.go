package bulk

import (
	"context"
	"fmt"
	"iter"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// Split is a part of an object that one request reads: whole batches. Splits of a partition follow each other without a
// gap, and no batch is in two of them.
type Split struct {
	Partition int32
	Entry     command.SegmentEntry
	Key       string // of the object
	// Position and Size are the place of the batches in the object.
	Position, Size int64
	// From and To bound the offsets that are wanted of it, [From, To): its records that lie outside are not part of the
	// log, or not of what was asked for. The index that the object was cut by is sparse, so that those of neighbours may
	// overlap.
	From, To int64

	tail *segment.Tail // of the object; nil if it is not known yet
	// chained: the split that follows is read, too, and the checksums of both are compared.
	chained bool
	last    bool // nothing of the object behind the split is wanted
}

// object is an object of the snapshot, as far as it is wanted.
type object struct {
	wanted Range
	entry  command.SegmentEntry
	key    string
}

// objects yields the objects that reach into the ranges, in order. An error is about the range that is returned with
// it, cut to what has not been yielded, and ends the walk.
func (r *Reader) objects(ctx context.Context, ranges []Range) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		for _, wanted := range ranges {
			for o, err := range r.objectsOf(ctx, wanted) {
				if !yield(o, err) || err != nil {
					return
				}
			}
		}
	}
}

func (r *Reader) objectsOf(ctx context.Context, wanted Range) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		tree, err := r.manifests.Get(ctx, kafka.TopicIDPartition{ID: r.snapshot.TopicID, Partition: wanted.Partition})
		if err != nil {
			yield(object{wanted: wanted}, err)
			return
		}
		wanted.From, wanted.To = max(wanted.From, tree.Start), min(wanted.To, tree.End)
		if wanted.From >= wanted.To {
			return
		}
		for item, err := range tree.Walk(ctx, wanted.From, wanted.To) {
			if err != nil {
				yield(object{wanted: wanted, key: tree.Key(item).String()}, err)
				return
			}
			entry, isSegment := item.(command.SegmentEntry)
			if !isSegment {
				continue
			}
			if entry.BaseOffset > wanted.From {
				yield(object{wanted: wanted}, gap(tree, wanted.From, entry.BaseOffset))
				return
			}
			if !yield(object{wanted: wanted, entry: entry, key: tree.Key(entry).String()}, nil) {
				return
			}
			wanted.From = entry.EndOffset
		}
		if wanted.From < wanted.To {
			yield(object{wanted: wanted}, gap(tree, wanted.From, wanted.To))
		}
	}
}

func gap(tree *manifest.Tree, from, to int64) error {
	return fmt.Errorf("the manifest lists [%d, %d) but no object for [%d, %d)", tree.Start, tree.End, from, to)
}

// small tells whether an object is read with one request, tail and all.
func (r *Reader) small(o object) bool { return o.entry.ObjectBytes <= r.splitBytes }

// cut cuts an object into splits. The tail of a small one may be missing.
func (r *Reader) cut(o object, tail *segment.Tail) []Split {
	whole := Split{
		Partition: o.wanted.Partition, Entry: o.entry, Key: o.key, Size: o.entry.DataBytes,
		From: max(o.wanted.From, o.entry.BaseOffset), To: min(o.wanted.To, o.entry.EndOffset), tail: tail, last: true,
	}
	if tail == nil || r.small(o) {
		return []Split{whole}
	}
	unit := max(r.splitBytes/tail.ChunkBytes*tail.ChunkBytes, tail.ChunkBytes)
	end := tail.PositionPast(whole.To)
	var splits []Split
	from := whole.From
	for position := tail.Position(whole.From); position < end; {
		next := tail.Cut((position/unit + 1) * unit)
		split := whole
		split.Position, split.Size = position, min(next.Position, end)-position
		split.From, split.To = from, min(whole.To, next.Below)
		splits = append(splits, split)
		position, from = next.Position, max(from, next.From)
	}
	if len(splits) == 0 { // compaction has left nothing of it
		whole.Size = 0
		return []Split{whole}
	}
	for i := range len(splits) - 1 {
		splits[i].chained, splits[i].last = true, false
	}
	return splits
}

// Splits yields what reads the ranges, in order: partition after partition as they are given, offsets ascending. It
// reads the tails of large objects as it comes to them, and no data. An error ends it.
func (r *Reader) Splits(ctx context.Context, ranges []Range) iter.Seq2[Split, error] {
	return func(yield func(Split, error) bool) {
		for o, err := range r.objects(ctx, ranges) {
			var tail *segment.Tail
			if err == nil && !r.small(o) {
				tail, err = r.readTail(ctx, o.key, o.entry)
			}
			if err != nil {
				yield(Split{}, judge(place{o.wanted.Partition, o.wanted.From, o.key}, err))
				return
			}
			for _, split := range r.cut(o, tail) {
				if !yield(split, nil) {
					return
				}
			}
		}
	}
}
