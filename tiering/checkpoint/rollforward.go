package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// Edge is where what is known of a partition ends.
type Edge struct {
	ClusterID   kafka.UUID // who has written from here on
	Partition   kafka.TopicIDPartition
	End         int64             // the remote end
	LeaderEpoch kafka.LeaderEpoch // of the last segment, or −1
}

// Forward is what lies beyond an edge.
type Forward struct {
	Entries []command.SegmentEntry // in order, the first of which begins at the edge, or at a later log start
	// Start is the highest log start offset that a segment tells of; −1 if there are none. Where it is past the edge,
	// everything before it is not part of the log any more.
	Start int64
	Last  *segment.Tail // of the last entry; nil if there are none
	// Damaged are objects whose tails cannot be read, with the reason; others may have taken their place.
	Damaged []string
}

// RollForward finds the segments that were uploaded after a checkpoint: self-describing objects that go on from an edge
// without a gap, under leader epochs that do not fall. Of several that begin at the same offset the one of the higher
// leader epoch wins; what a leader uploads is committed, so that those of one epoch say the same. Of a compacted log
// some may be written anew, each under the epoch of the last that it was made of. No data is read.
func RollForward(ctx context.Context, bucket objectstore.Bucket, edge Edge) (*Forward, error) {
	objects, err := listBeyond(ctx, bucket, edge)
	if err != nil {
		return nil, err
	}
	f := &Forward{Start: -1}
	for len(objects) > 0 {
		n := 1
		for n < len(objects) && objects[n].key.BaseOffset == objects[0].key.BaseOffset {
			n++
		}
		if base := objects[0].key.BaseOffset; base >= edge.End {
			accepted, err := f.accept(ctx, bucket, edge, objects[:n])
			if err != nil {
				return nil, err
			}
			if !accepted && base > edge.End {
				break
			}
			if accepted {
				edge.End, edge.LeaderEpoch = f.Last.EndOffset, f.Last.LeaderEpoch
			}
		}
		objects = objects[n:]
	}
	return f, nil
}

// found is an object with what its key says.
type found struct {
	key   segment.Key
	bytes int64
}

// listBeyond lists the segments that begin at the edge or later, by offset; of one offset the best first.
func listBeyond(ctx context.Context, bucket objectstore.Bucket, edge Edge) ([]found, error) {
	var objects []found
	prefix := segment.Prefix(edge.ClusterID, edge.Partition)
	after := segment.StartAfter(edge.ClusterID, edge.Partition, edge.End)
	err := bucket.List(ctx, prefix, after, func(object objectstore.ObjectInfo) error {
		if key, err := segment.ParseKey(object.Key); err == nil { // others are nothing of ours
			objects = append(objects, found{key, object.Size})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list what is newer than offset %d of %s: %w", edge.End, edge.Partition, err)
	}
	slices.SortFunc(objects, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.key.BaseOffset, b.key.BaseOffset),
			cmp.Compare(b.key.LeaderEpoch, a.key.LeaderEpoch), cmp.Compare(b.key.EndOffset, a.key.EndOffset),
			cmp.Compare(a.key.UploadID.Hex(), b.key.UploadID.Hex()))
	})
	return objects, nil
}

// accept takes the first of several objects with the same base offset that is sound and fits.
func (f *Forward) accept(ctx context.Context, bucket objectstore.Bucket, edge Edge, objects []found) (bool, error) {
	for _, object := range objects {
		if object.key.LeaderEpoch < edge.LeaderEpoch {
			return false, nil // and so are those that follow
		}
		tail, err := segment.ReadTail(ctx, bucket, object.key.String(), object.bytes, 0)
		switch {
		case segment.IsCorrupt(err) || errors.Is(err, objectstore.ErrNotFound):
			f.Damaged = append(f.Damaged, err.Error())
			continue
		case err != nil:
			return false, err
		}
		if tail.BaseOffset > edge.End {
			if tail.LogStartOffset < tail.BaseOffset {
				return false, nil // something is missing in between
			}
			f.Entries = nil // the log began here when it was uploaded
		}
		f.Entries = append(f.Entries, tail.Entry())
		f.Start, f.Last = max(f.Start, tail.LogStartOffset), tail
		return true, nil
	}
	return false, nil
}
