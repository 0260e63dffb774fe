package fetch

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// OffsetForTimestamp finds the first remote record at or after the log start whose timestamp is at or after the given
// one. It reads at most one tail and one part of the data, or two if the log start lies inside a segment; that there is
// no such record the manifest alone tells (TI-07).
func (r *Reader) OffsetForTimestamp(ctx context.Context, tp kafka.TopicIDPartition, timestamp int64) (
	found storage.TimestampOffset, ok bool, err error,
) {
	err = r.lookUp(ctx, tp, func(ctx context.Context, tree *manifest.Tree) error {
		from := tree.Start
		for {
			entry, may, err := tree.FindTimestamp(ctx, timestamp, from)
			if !may || err != nil {
				return err
			}
			found, ok, err = r.timestampIn(ctx, segmentOf(tree, entry), timestamp, from)
			if ok || err != nil {
				return err
			}
			from = entry.EndOffset
		}
	})
	if err != nil {
		return storage.TimestampOffset{}, false, err
	}
	return found, ok, nil
}

// lookUpDeadline ends a look-up before its client gives it up.
const lookUpDeadline = 25 * time.Second

// lookUp runs a look-up with the manifest, as one of the requests that may be under way.
func (r *Reader) lookUp(
	ctx context.Context, tp kafka.TopicIDPartition, use func(context.Context, *manifest.Tree) error,
) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	within, cancel := context.WithTimeout(ctx, lookUpDeadline)
	defer cancel()
	err := r.withTree(within, tp, func(tree *manifest.Tree) error { return use(within, tree) })
	if err != nil {
		return r.judge(ctx, r.topicName(tp), fmt.Errorf("look up a time in %s: %w", tp, err))
	}
	return nil
}

// timestampIn looks in one segment, at its records from an offset on.
func (r *Reader) timestampIn(ctx context.Context, entry remoteSegment, timestamp, from int64) (
	found storage.TimestampOffset, ok bool, err error,
) {
	o, err := r.open(ctx, entry)
	if err != nil {
		return found, false, err
	}
	defer o.close(nil)
	from = max(from, o.tail.BaseOffset)
	for position := o.tail.PositionForTimestamp(timestamp); position < o.tail.DataBytes; {
		at, err := o.header(ctx, position)
		if err != nil {
			return found, false, err
		}
		if at.header.MaxTimestamp() >= timestamp && at.header.NextOffset() > from {
			match, ok, err := o.look(ctx, at, timestamp, from)
			if ok || err != nil {
				return match, ok, err
			}
		}
		position = at.end()
	}
	return found, false, nil
}

// look searches the records of a batch.
func (o *object) look(ctx context.Context, at batchAt, timestamp, from int64) (storage.TimestampOffset, bool, error) {
	batch, err := o.batch(ctx, at)
	if err != nil {
		return storage.TimestampOffset{}, false, err
	}
	match, ok, err := o.reader.lookup.OffsetForTimestamp(batch, timestamp, from)
	if !ok || err != nil {
		return storage.TimestampOffset{}, false, err
	}
	return o.at(match), true, nil
}

// at adds the leader epoch that a record was written under.
func (o *object) at(match record.TimestampOffset) storage.TimestampOffset {
	return storage.TimestampOffset{
		Offset: match.Offset, Timestamp: match.Timestamp, Epoch: epochAt(o.tail.LeaderEpochs, match.Offset),
	}
}

func epochAt(epochs []segment.EpochStart, offset int64) kafka.LeaderEpoch {
	n := sort.Search(len(epochs), func(i int) bool { return epochs[i].StartOffset > offset })
	if n == 0 {
		return kafka.NoLeaderEpoch
	}
	return epochs[n-1].Epoch
}

// MaxTimestamp finds the first remote record with the largest timestamp. The manifest has it; only where the log start
// lies inside a segment whose largest timestamp is below it, the rest of that segment is read.
func (r *Reader) MaxTimestamp(ctx context.Context, tp kafka.TopicIDPartition) (
	found storage.TimestampOffset, ok bool, err error,
) {
	err = r.lookUp(ctx, tp, func(ctx context.Context, tree *manifest.Tree) error {
		found.Timestamp = record.NoTimestamp
		peak, has, err := tree.MaxTimestamp(ctx, tree.Start)
		if err != nil {
			return err
		}
		if ok = has; has {
			found = storage.TimestampOffset{
				Offset: peak.Offset, Timestamp: peak.Timestamp, Epoch: r.localEpoch(tp, peak.Offset),
			}
		}
		cut, straddles, err := tree.Straddling(ctx, tree.Start)
		if !straddles || err != nil || cut.MaxTimestamp < found.Timestamp {
			return err
		}
		rest, has, err := r.maxTimestampIn(ctx, segmentOf(tree, cut), tree.Start)
		if has && rest.Timestamp >= found.Timestamp { // of two with the same time this one comes first
			found, ok = rest, true
		}
		return err
	})
	if err != nil {
		return storage.TimestampOffset{}, false, err
	}
	return found, ok, nil
}

// localEpoch asks the local log, whose lineage reaches over the remote part.
func (r *Reader) localEpoch(tp kafka.TopicIDPartition, offset int64) kafka.LeaderEpoch {
	log, err := r.options.Local(tp)
	if err != nil {
		return kafka.NoLeaderEpoch
	}
	return log.EpochAt(offset)
}

// maxTimestampIn looks at the records of a segment from an offset on.
func (r *Reader) maxTimestampIn(ctx context.Context, entry remoteSegment, from int64) (
	best storage.TimestampOffset, ok bool, err error,
) {
	o, err := r.open(ctx, entry)
	if err != nil {
		return best, false, err
	}
	defer func() { o.close(nil) }()
	best.Timestamp = record.NoTimestamp
	for position := o.tail.Position(from); position < o.tail.DataBytes; {
		at, err := o.header(ctx, position)
		if err != nil {
			return best, false, err
		}
		// The first batch may have records below the offset, so its header does not tell.
		if at.header.NextOffset() > from && at.header.MaxTimestamp() > best.Timestamp {
			match, has, err := o.largest(ctx, at, from)
			if err != nil {
				return best, false, err
			}
			if has && match.Timestamp > best.Timestamp {
				best, ok = match, true
			}
		}
		position = at.end()
		o.close(nil) // a long segment must not be held as a whole
	}
	return best, ok, nil
}

// largest finds the first record of a batch, from an offset on, with the largest timestamp.
func (o *object) largest(ctx context.Context, at batchAt, from int64) (
	best storage.TimestampOffset, ok bool, err error,
) {
	batch, err := o.batch(ctx, at)
	if err != nil {
		return best, false, err
	}
	match, ok, err := o.reader.lookup.MaxTimestamp(batch, from)
	if !ok || err != nil {
		return best, false, err
	}
	return o.at(match), true, nil
}
