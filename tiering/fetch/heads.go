package fetch

import (
	"context"
	"errors"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
)

// remoteSegment is a segment object with its key.
type remoteSegment struct {
	entry command.SegmentEntry
	key   string
}

func segmentOf(tree *manifest.Tree, entry command.SegmentEntry) remoteSegment {
	return remoteSegment{entry: entry, key: tree.Key(entry).String()}
}

// withTree calls use with the manifest. If that misses an object, the manifest is read once more: retention may have
// been faster. An object that is missing although the manifest has it is lost.
func (r *Reader) withTree(ctx context.Context, tp kafka.TopicIDPartition, use func(*manifest.Tree) error) error {
	for attempt := 1; ; attempt++ {
		tree, err := r.options.Manifests.Get(ctx, tp)
		if err != nil {
			return err
		}
		err = use(tree)
		if !errors.Is(err, objectstore.ErrNotFound) {
			return err
		}
		if attempt > 1 {
			r.metrics.missing.Inc()
			return err
		}
		r.options.Manifests.Forget(tp)
	}
}

// find is the segment that answers for an offset. Only below the start is an offset out of range.
func find(ctx context.Context, tree *manifest.Tree, offset int64) (command.SegmentEntry, error) {
	if offset < tree.Start {
		return command.SegmentEntry{}, fmt.Errorf("offset %d is below the log start offset %d: %w",
			offset, tree.Start, kafka.OffsetOutOfRange)
	}
	entry, found, err := tree.Find(ctx, offset)
	if found || err != nil {
		return entry, err
	}
	return entry, fmt.Errorf("offset %d: %w %d", offset, errPastEnd, tree.End)
}
