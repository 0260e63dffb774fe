package storage

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// pendingStateOf is what the state database will get to know when a segment that has just been sealed is flushed.
func (l *Log) pendingStateOf(s *segment, state *producerState, endOffset int64) pendingState {
	return pendingState{
		segment: s,
		producers: producerCheckpoint{
			Offset:   endOffset,
			Epoch:    l.epochs.at(endOffset - 1),
			Snapshot: AppendProducerSnapshot(nil, state.snapshot()),
		},
	}
}

// ProducerSnapshotAt is the state of all producers at the base offset of a local segment, or at the log end, in the
// format of Kafka's .snapshot files.
func (l *Log) ProducerSnapshotAt(offset int64) ([]byte, error) {
	snapshot, err := l.producerSnapshotAt(offset)
	if err != nil {
		return nil, fmt.Errorf("producers of %s at %d: %w", l.topicPartition, offset, err)
	}
	return snapshot, nil
}

func (l *Log) producerSnapshotAt(offset int64) ([]byte, error) {
	if snapshot := l.currentSnapshot(offset); snapshot != nil {
		return snapshot, nil
	}
	data, err := l.env.store.Get(l.keys.at(producerKind, offset))
	if err != nil {
		return nil, err
	}
	if data != nil {
		found, err := parseProducerCheckpoint(offset, data)
		return found.Snapshot, err
	}
	isBase := slices.ContainsFunc(l.reaches(), func(r reach) bool { return r.segment.baseOffset == offset })
	if !isBase {
		return nil, fmt.Errorf("no local segment begins or ends there: %w", kafka.OffsetOutOfRange)
	}
	// It was never saved, so it is made from the one before.
	state, err := l.producersAt(offset)
	if err != nil {
		return nil, err
	}
	return AppendProducerSnapshot(nil, state.snapshot()), nil
}

// producersAt makes the state at any local offset, from the newest checkpoint and the batches behind it.
func (l *Log) producersAt(offset int64) (*producerState, error) {
	state, err := l.restoreProducers(offset, time.Now().UnixMilli())
	if err != nil {
		return nil, err
	}
	return state, replayProducers(l.reaches(), state, offset)
}

// currentSnapshot looks for the state in memory.
func (l *Log) currentSnapshot(offset int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset == l.endOffset.Load() {
		return AppendProducerSnapshot(nil, l.producers.snapshot())
	}
	for _, pending := range l.pendingStates {
		if pending.producers.Offset == offset && pending.producers.Snapshot != nil {
			return pending.producers.Snapshot
		}
	}
	return nil
}

// restoreProducers loads the newest checkpoint at or below an offset. One from before the first local segment is of no
// use, since what followed it cannot be read; then any producer is unknown, and may go on with any sequence.
func (l *Log) restoreProducers(endOffset, now int64) (*producerState, error) {
	saved, err := l.savedProducers()
	if err != nil {
		return newProducerState(0, &l.env.expireMs), err
	}
	return l.restoreFrom(saved, endOffset, now), nil
}

func (l *Log) restoreFrom(saved []savedProducers, endOffset, now int64) *producerState {
	state := newProducerState(0, &l.env.expireMs)
	firstLocal := l.firstBase()
	for _, checkpoint := range slices.Backward(saved) {
		if !l.fits(checkpoint, endOffset) {
			continue
		}
		if checkpoint.offset < firstLocal {
			break
		}
		entries, err := l.loadProducerCheckpoint(checkpoint)
		if err == nil {
			state.restore(entries, checkpoint.offset, now)
			break
		}
		l.env.logger.Warn("a producer checkpoint cannot be used", "partition", l.topicPartition.String(),
			"offset", checkpoint.offset, "reason", err)
	}
	return state
}

func (l *Log) firstBase() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments[0].baseOffset
}

// savedProducers lists the log's producer checkpoints, by offset.
func (l *Log) savedProducers() (saved []savedProducers, err error) {
	err = l.env.store.Scan(l.keys.kind(producerKind), func(key, value []byte) error {
		saved = append(saved, producersOf(key, value))
		return nil
	})
	return saved, err
}

// fits tells whether a checkpoint is one of a log that ends at an offset: it is not past the end, and not of another
// lineage. The state database never knows more than the log. What the lineage was below the log start is forgotten.
func (l *Log) fits(checkpoint savedProducers, endOffset int64) bool {
	otherLineage := checkpoint.offset > l.logStart.Load() && checkpoint.epoch != l.EpochAt(checkpoint.offset-1)
	return !checkpoint.broken && checkpoint.offset <= endOffset && !otherLineage
}

// forgetProducersAbove removes the checkpoints that do not fit a log that ends at an offset.
func (l *Log) forgetProducersAbove(endOffset int64) error {
	saved, err := l.savedProducers()
	if err != nil {
		return err
	}
	return l.forgetUnfitting(saved, endOffset)
}

func (l *Log) forgetUnfitting(saved []savedProducers, endOffset int64) (err error) {
	for _, checkpoint := range saved {
		if !l.fits(checkpoint, endOffset) {
			err = errors.Join(err, l.env.store.Delete(l.keys.at(producerKind, checkpoint.offset)))
		}
	}
	return err
}

func (l *Log) loadProducerCheckpoint(saved savedProducers) ([]SnapshotEntry, error) {
	data := saved.value
	if data == nil {
		var err error
		if data, err = l.env.store.Get(l.keys.at(producerKind, saved.offset)); err != nil {
			return nil, err
		}
	}
	loaded, err := parseProducerCheckpoint(saved.offset, data)
	if err != nil {
		return nil, err
	}
	return ParseProducerSnapshot(loaded.Snapshot)
}

// reach is how far a segment could be read at one moment, for whoever walks it without the lock.
type reach struct {
	segment   *segment
	size      int64
	endOffset int64
	offsets   []byte // of the index, if that is in memory
}

// reach needs Log.mu, or a log that is not in service yet.
func (s *segment) reach() reach {
	r := reach{segment: s, size: s.state.Size, endOffset: s.state.EndOffset}
	if s.indexes != nil {
		r.offsets = s.indexes.offsets
	}
	return r
}

// reaches are those of all local segments, oldest first.
func (l *Log) reaches() []reach {
	l.mu.Lock()
	defer l.mu.Unlock()
	reaches := make([]reach, len(l.segments))
	for i, s := range l.segments {
		reaches[i] = s.reach()
	}
	return reaches
}

// replayProducers takes in the batches below an offset that the state does not have yet.
func replayProducers(reaches []reach, state *producerState, endOffset int64) error {
	now := time.Now().UnixMilli()
	for _, r := range reaches {
		if err := r.replayProducers(state, endOffset, now, nil); err != nil {
			return err
		}
	}
	state.endOffset = endOffset
	return nil
}

// replayProducers takes in the segment's batches. Transactions that were aborted in it are handed to noteAborted, if
// that is not nil.
func (r reach) replayProducers(state *producerState, endOffset, now int64, noteAborted func(AbortedTransaction)) error {
	from := state.endOffset
	if endOffset <= from || r.endOffset <= from || r.segment.baseOffset >= endOffset {
		return nil
	}
	return r.walk(from, func(scan *batchScan, header record.Batch, marker *record.EndMarker) {
		switch {
		case header.BaseOffset() >= endOffset:
			scan.end = scan.position
		case header.BaseOffset() >= from:
			if aborted, found := state.update(header, marker, now); found && noteAborted != nil {
				noteAborted(aborted)
			}
		}
	})
}

// walk visits the headers of the segment's batches, from about the one that holds an offset, with the markers that end
// transactions. The visitor may end the walk through the scan.
func (r reach) walk(offset int64, visit func(*batchScan, record.Batch, *record.EndMarker)) error {
	env := r.segment.env
	file, err := env.files.acquire(&r.segment.data, r.segment)
	if err != nil {
		return err
	}
	defer r.segment.Release()
	entry, _ := findOffset(r.offsets, offset-r.segment.baseOffset)
	scan := env.bigScan()
	defer env.put(scan)
	scan.reset(file, int64(entry.position), r.size)
	for {
		header, position, err := scan.next()
		if err == io.EOF {
			return nil
		}
		var marker *record.EndMarker
		if err == nil {
			header, marker, err = scan.endMarker(header, position)
		}
		if err != nil {
			return fmt.Errorf("walk %s: %w", r.segment.path(logSuffix), err)
		}
		visit(scan, header, marker)
	}
}
