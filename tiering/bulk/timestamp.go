package bulk

import (
	"context"
	"errors"
	"fmt"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// OffsetForTimestamp finds the first record of a partition whose timestamp, in Unix milliseconds, is at or after the
// given one, as ListOffsets does; the end of the partition's snapshot if there is none. Markers and what aborted
// transactions have written count if the reader lets them through.
func (r *Reader) OffsetForTimestamp(ctx context.Context, partition int32, timestamp int64) (int64, error) {
	tree, err := r.manifests.Get(ctx, kafka.TopicIDPartition{ID: r.snapshot.TopicID, Partition: partition})
	if err != nil {
		return 0, fmt.Errorf("look up time %d in partition %d: %w", timestamp, partition, err)
	}
	for from := tree.Start; from < tree.End; {
		entry, may, err := tree.FindTimestamp(ctx, timestamp, from)
		if err != nil {
			return 0, fmt.Errorf("look up time %d in partition %d: %w", timestamp, partition, err)
		}
		if !may {
			break
		}
		wanted := Range{Partition: partition, From: max(from, entry.BaseOffset), To: min(entry.EndOffset, tree.End)}
		if wanted.From >= wanted.To {
			break
		}
		offset, err := r.timestampIn(ctx, tree, entry, wanted, timestamp)
		if err == nil {
			return offset, nil
		}
		if !errors.Is(err, errNotThere) {
			return 0, judge(place{partition, wanted.From, tree.Key(entry).String()}, err)
		}
		from = entry.EndOffset
	}
	return tree.End, nil
}

// errNotThere says that a segment has no such record.
var errNotThere = errors.New("no record is that young")

// timestampIn looks in one segment, a chunk at a time.
func (r *Reader) timestampIn(ctx context.Context, tree *manifest.Tree, entry command.SegmentEntry, wanted Range,
	timestamp int64,
) (int64, error) {
	key := tree.Key(entry).String()
	tail, err := r.readTail(ctx, key, entry)
	if err != nil {
		return 0, err
	}
	var memory buffer
	for position := tail.PositionForTimestamp(timestamp); position < tail.DataBytes; {
		end := tail.Cut(position + tail.ChunkBytes).Position
		chunk, err := r.readSplit(ctx, Split{Partition: wanted.Partition, Entry: entry, Key: key, Position: position,
			Size: end - position, From: wanted.From, To: wanted.To, tail: tail}, &memory)
		if err != nil {
			return 0, err
		}
		if offset, found, err := firstAt(chunk, timestamp); found || err != nil {
			return offset, err
		}
		position = end
	}
	return 0, errNotThere
}

// firstAt finds the first record of a chunk that is young enough.
func firstAt(chunk *Chunk, timestamp int64) (offset int64, found bool, err error) {
	var lookup record.Lookup
	for _, batch := range chunk.Batches {
		if batch.MaxTimestamp() < timestamp {
			continue
		}
		match, found, err := lookup.OffsetForTimestamp(batch, timestamp, chunk.Split.From)
		if err != nil {
			return 0, false, &segment.CorruptError{Position: chunk.Split.Position, Err: err}
		}
		if found && chunk.Wants(match.Offset) {
			return match.Offset, true, nil
		}
	}
	return 0, false, nil
}
