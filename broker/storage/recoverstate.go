package storage

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// putInService rebuilds what belongs to the batches, and makes what was found durable if that is in doubt.
func (r *recovery) putInService() error {
	l := r.log
	if err := r.openLast(); err != nil {
		return err
	}
	l.segments = r.opened
	l.unflushedFrom = min(r.scanned, len(l.segments)-1)
	l.endOffset.Store(r.end)
	start := r.startOffset()
	if err := r.loadEpochs(start); err != nil {
		return err
	}
	if err := r.loadProducers(); err != nil {
		return err
	}
	if err := r.forgetLost(); err != nil {
		return err
	}
	if r.clean && r.scanned == len(r.opened) {
		r.publish(start, r.end)
		return nil
	}
	// What was read may be in the page cache only, or have been cut a moment ago.
	r.publish(start, min(r.saved.FlushedOffset, r.end))
	l.folderUnsynced, l.parentUnsynced = true, true
	if err := l.Flush(); err != nil {
		return err
	}
	l.publishHighWatermark(r.highWatermark(start))
	return l.saveCheckpoint()
}

func (r *recovery) publish(start, flushed int64) {
	l := r.log
	l.saved = r.saved
	l.publish(checkpoint{
		FlushedOffset: flushed, HighWatermark: r.highWatermark(start), LogStartOffset: start,
		LocalStart: l.segments[0].baseOffset,
	})
}

// highWatermark is restored within what is left. What the bucket has was below it.
func (r *recovery) highWatermark(start int64) int64 {
	return max(start, min(max(r.saved.HighWatermark, r.log.remoteEnd()), r.end))
}

// forgetLost removes what the state database has of segments that are not there any more.
func (r *recovery) forgetLost() error {
	for _, s := range r.opened {
		delete(r.states, s.baseOffset)
	}
	for baseOffset := range r.states {
		if err := r.log.env.store.Delete(r.log.keys.at(segmentKind, baseOffset)); err != nil {
			return err
		}
	}
	return nil
}

// publish sets the offsets of a log that is not in service yet.
func (l *Log) publish(c checkpoint) {
	l.logStart.Store(c.LogStartOffset)
	l.localStart.Store(c.LocalStart)
	l.flushedOffset.Store(c.FlushedOffset)
	l.publishHighWatermark(c.HighWatermark)
	size := int64(0)
	for _, s := range l.segments {
		size += s.state.Size
	}
	l.size.Store(size)
}

// openLast makes the last segment writable, or begins one if none is left.
func (r *recovery) openLast() error {
	if len(r.opened) == 0 {
		first, err := r.log.createSegment(r.end)
		if err != nil {
			return err
		}
		r.opened = []*segment{first}
		return nil
	}
	last := r.last()
	if last.indexes == nil { // what followed it was cut
		r.scanned = len(r.opened) - 1
		return r.openActive(last)
	}
	last.state.Sealed = false
	return nil
}

// startOffset is the log start offset. That of a tiered log is in the cluster's metadata.
func (r *recovery) startOffset() int64 {
	start := r.saved.LogStartOffset
	if remote, tiered := r.log.remote(); tiered {
		return max(start, remote.StartOffset)
	}
	return min(max(start, r.opened[0].baseOffset), r.end)
}

// loadEpochs reads the epoch file. What was read of the batches goes first: the file may lag behind them. A file that
// is missing or damaged is made anew from the local segments.
func (r *recovery) loadEpochs(start int64) error {
	l := r.log
	entries, err := readEpochFile(l.env.fs, l.folder)
	if err != nil {
		if entries, err = r.rebuildEpochs(err); err != nil {
			return err
		}
		l.epochsUnwritten = true
	}
	l.epochs = leaderEpochs{entries: entries}
	l.epochsUnwritten = l.epochs.cutEnd(r.end) || l.epochsUnwritten
	for _, found := range r.epochs {
		l.epochsUnwritten = l.epochs.correct(found) || l.epochsUnwritten
	}
	l.epochsUnwritten = l.epochs.cutStart(start) || l.epochsUnwritten
	return nil
}

func readEpochFile(fsys vfs.FS, folder *folder) ([]EpochEntry, error) {
	data, err := vfs.ReadFile(fsys, folder.file(epochFileName))
	if err != nil {
		return nil, err
	}
	return parseEpochFile(data)
}

// rebuildEpochs finds the epochs in those segments that were not read. Epochs only grow, so a segment whose successor
// begins with the same epoch needs no walk.
func (r *recovery) rebuildEpochs(reason error) ([]EpochEntry, error) {
	var epochs leaderEpochs
	trusted := r.opened[:r.scanned]
	for i, s := range trusted {
		first, err := r.firstEpoch(s)
		if err != nil {
			return nil, err
		}
		if i+1 < len(trusted) {
			next, err := r.firstEpoch(trusted[i+1])
			if err != nil {
				return nil, err
			}
			if next == first {
				epochs.assign(first, s.baseOffset)
				continue
			}
		}
		err = r.log.walk(s, s.baseOffset, func(scan *batchScan, header record.Batch) {
			epochs.assign(header.LeaderEpoch(), header.BaseOffset())
		})
		if err != nil {
			return nil, err
		}
	}
	if len(epochs.entries) > 0 {
		r.log.env.logger.Warn("the leader epochs of a log were made anew",
			"partition", r.log.topicPartition.String(), "reason", reason)
	}
	return epochs.entries, nil
}

func (r *recovery) firstEpoch(s *segment) (kafka.LeaderEpoch, error) {
	epoch := kafka.NoLeaderEpoch
	err := r.log.walk(s, s.baseOffset, func(scan *batchScan, header record.Batch) {
		epoch = header.LeaderEpoch()
		scan.end = scan.position // one is enough
	})
	return epoch, err
}

// loadProducers starts from the newest checkpoint that fits the log and reads the headers behind it.
func (r *recovery) loadProducers() error {
	l := r.log
	state, err := l.restoreProducers(l.segments[0].baseOffset, r.end, r.now)
	if err != nil {
		return err
	}
	for i, s := range l.segments {
		if err := l.replayProducers(state, s, r.now); err != nil {
			return err
		}
		if i >= r.scanned && s.state.Sealed {
			l.pendingStates = append(l.pendingStates, l.pendingStateOf(s, state, l.segments[i+1].baseOffset))
		}
	}
	state.endOffset = r.end
	l.producers = state
	return nil
}

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

// restoreProducers loads the newest checkpoint at or below an offset, and forgets those that are past it or of another
// lineage: the state database never knows more than the log. One from before the first local segment is of no use,
// since what followed it cannot be read; then any producer is unknown, and may go on with any sequence.
func (l *Log) restoreProducers(firstLocal, endOffset, now int64) (*producerState, error) {
	fitting, stale, err := l.producerCheckpoints(endOffset)
	if err != nil {
		return nil, err
	}
	state := newProducerState(0, l.env.expireMs)
	for _, offset := range slices.Backward(fitting) {
		if offset < firstLocal {
			break
		}
		entries, err := l.loadProducerCheckpoint(offset)
		if err == nil {
			state.restore(entries, offset, now)
			break
		}
		l.env.logger.Warn("a producer checkpoint cannot be used", "partition", l.topicPartition.String(),
			"offset", offset, "reason", err)
		stale = append(stale, offset)
	}
	for _, offset := range stale {
		if err := l.env.store.Delete(l.keys.at(producerKind, offset)); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// producerCheckpoints lists the offsets of those that fit a log that ends at an offset, ascending, and of the others.
func (l *Log) producerCheckpoints(endOffset int64) (fitting, stale []int64, err error) {
	err = l.env.store.Scan(l.keys.kind(producerKind), func(key, value []byte) error {
		offset := offsetOfKey(key)
		epoch, err := producerCheckpointEpoch(value)
		if err != nil || offset > endOffset || epoch != l.EpochAt(offset-1) {
			stale = append(stale, offset)
		} else {
			fitting = append(fitting, offset)
		}
		return nil
	})
	return fitting, stale, err
}

func (l *Log) loadProducerCheckpoint(offset int64) ([]SnapshotEntry, error) {
	data, err := l.env.store.Get(l.keys.at(producerKind, offset))
	if err != nil {
		return nil, err
	}
	loaded, err := parseProducerCheckpoint(offset, data)
	if err != nil {
		return nil, err
	}
	return ParseProducerSnapshot(loaded.Snapshot)
}

// replayProducers takes in the batches of a segment that the state does not have yet.
func (l *Log) replayProducers(state *producerState, s *segment, now int64) error {
	return l.replayProducersTo(state, s, s.state.EndOffset, now)
}

func (l *Log) replayProducersTo(state *producerState, s *segment, endOffset, now int64) error {
	from := state.endOffset
	if endOffset <= from || s.state.EndOffset <= from {
		return nil
	}
	return l.walk(s, from, func(scan *batchScan, header record.Batch) {
		switch {
		case header.BaseOffset() >= endOffset:
			scan.end = scan.position
		case header.BaseOffset() >= from:
			state.update(header, now)
		}
	})
}

// walk visits the headers of a segment's batches, as far as its size goes, from about the one that holds an offset.
// The visitor may end the walk through the scan.
func (l *Log) walk(s *segment, offset int64, visit func(scan *batchScan, header record.Batch)) error {
	file, err := l.env.files.acquire(&s.data, s)
	if err != nil {
		return err
	}
	defer s.Release()
	position := int64(0)
	if s.indexes != nil {
		if entry, found := findOffset(s.indexes.offsets, offset-s.baseOffset); found {
			position = int64(entry.position)
		}
	}
	scan := l.env.bigScan()
	defer l.env.put(scan)
	scan.reset(file, position, s.state.Size)
	for {
		header, _, err := scan.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("walk %s: %w", s.path(logSuffix), err)
		}
		visit(scan, header)
	}
}
