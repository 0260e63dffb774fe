package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/segment"
)

// errNotSaved: the log has been flushed to the segment's end, but what else it keeps about that place is still on its
// way into the state database. It will be there in a moment.
var errNotSaved = errors.New("the producers at the segment's end are not saved yet")

// notSavedWait is that moment.
const notSavedWait = 20 * time.Millisecond

// damagedError is a segment that will not get better: it is not copied.
type damagedError struct{ err error }

func (e *damagedError) Error() string { return e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

// isLasting tells whether trying the same upload again is useless.
func isLasting(err error) bool {
	var damaged *damagedError
	return errors.As(err, &damaged) || errors.Is(err, errMoved)
}

// build reads a segment, checks it and gives it its tail. The caller releases what it gets.
func (t *Task) build(ctx context.Context, log *storage.Log, job Job, id kafka.UUID) (source, error) {
	if log.FlushedOffset() < job.EndOffset { // under the policy os nothing but the tier makes sure that it is
		if err := log.Flush(); err != nil {
			return source{}, err
		}
	}
	snapshot, err := log.ProducerSnapshotAt(job.EndOffset)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return source{}, fmt.Errorf("%w: %w", errNotSaved, err)
	}
	if err != nil {
		return source{}, err
	}
	files, err := log.SegmentFiles(job.SegmentBase)
	if errors.Is(err, kafka.OffsetOutOfRange) { // retention was faster
		return source{}, fmt.Errorf("%w: %w", errMoved, err)
	}
	if err != nil {
		return source{}, err
	}
	tail := t.tail(log, job, id)
	tail.ProducerSnapshot = snapshot
	aborted, err := log.AbortedTransactions(job.BaseOffset, job.EndOffset)
	if err != nil {
		return source{}, err
	}
	slices.SortFunc(aborted, func(a, b storage.AbortedTransaction) int { return cmp.Compare(a.LastOffset, b.LastOffset) })
	for _, transaction := range aborted { // in the order of their markers, as in Kafka's file
		tail.AbortedTransactions = append(tail.AbortedTransactions, segment.AbortedTransaction(transaction))
	}
	object, err := seal(ctx, files, tail)
	if segment.IsCorrupt(err) {
		// If the data is sound without the indexes, those are wrong. Look-ups in the object are slower, and right.
		t.logger().Warn("a segment's indexes do not fit it", "segment", job.SegmentBase, "err", err)
		object, err = seal(ctx, storage.SegmentFiles{Data: files.Data}, tail)
	}
	if err != nil {
		files.Data.Release()
		return source{}, t.judge(log, job, err)
	}
	return source{object: object, release: files.Data.Release}, nil
}

// judge remembers damage: what is broken must neither be served nor become the only copy.
func (t *Task) judge(log *storage.Log, job Job, err error) error {
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) {
		return err
	}
	log.MarkDamaged(job.SegmentBase, &storage.CorruptError{
		File: fmt.Sprintf("segment %d of %s", job.SegmentBase, t.partition.Name), Position: corrupt.Position, Err: err,
	})
	return &damagedError{err}
}

// tail says what the log knows about the part of it that the job is about.
func (t *Task) tail(log *storage.Log, job Job, id kafka.UUID) segment.Tail {
	tail := segment.Tail{
		ClusterID:       t.options.ClusterID,
		Partition:       t.partition.ID,
		Topic:           t.partition.Name.Topic,
		BaseOffset:      job.BaseOffset,
		EndOffset:       job.EndOffset,
		LeaderEpoch:     t.partition.Epoch,
		UploadID:        id,
		LogStartOffset:  min(log.LogStartOffset(), job.BaseOffset),
		IndexBaseOffset: job.SegmentBase,
		FirstAppendedAt: job.Appended.First,
		LastAppendedAt:  job.Appended.Last,
	}
	for _, entry := range log.Epochs() {
		if entry.StartOffset < job.EndOffset {
			tail.LeaderEpochs = append(tail.LeaderEpochs,
				segment.EpochStart{Epoch: entry.Epoch, StartOffset: entry.StartOffset})
		}
	}
	return tail
}

// seal makes the object of what of the segment belongs to the tail's range.
func seal(ctx context.Context, files storage.SegmentFiles, tail segment.Tail) (*segment.Object, error) {
	data := files.Data
	tail.OffsetIndex, tail.TimeIndex = files.OffsetIndex, files.TimeIndex
	if tail.BaseOffset > tail.IndexBaseOffset {
		cut, relative, err := findCut(data, &tail)
		if err != nil {
			return nil, err
		}
		data = data.Slice(cut, data.Size()-cut)
		tail.OffsetIndex, tail.TimeIndex = segment.CutIndexes(tail.OffsetIndex, tail.TimeIndex, cut, relative)
	}
	tail.DataBytes = data.Size()
	return segment.New(ctx, data, tail)
}

// findCut finds the first batch that reaches into the range: its position, and its base offset less the segment's. The
// log start, and so the range, may begin inside it.
func findCut(data vfs.Region, tail *segment.Tail) (position int64, relative int32, err error) {
	header := make(record.Batch, record.HeaderSize)
	for position = tail.Position(tail.BaseOffset); position < data.Size(); position += int64(header.Size()) {
		if _, err := io.ReadFull(io.NewSectionReader(data, position, data.Size()-position), header); err != nil {
			return 0, 0, &segment.CorruptError{Position: position, Err: err}
		}
		if _, err := record.SizeOf(header); err != nil {
			return 0, 0, &segment.CorruptError{Position: position, Err: err}
		}
		if header.NextOffset() > tail.BaseOffset {
			return position, int32(header.BaseOffset() - tail.IndexBaseOffset), nil
		}
	}
	return data.Size(), math.MaxInt32, nil // there is nothing but a hole
}
