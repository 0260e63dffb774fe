package storage

import (
	"cmp"
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
	l.logStart.Store(start)
	if err := r.loadEpochs(start); err != nil {
		return err
	}
	if err := r.loadProducers(); err != nil {
		return err
	}
	if err := r.forgetLost(); err != nil {
		return err
	}
	if r.isDurable() {
		r.publish(start, r.end)
		l.rest()
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

// isDurable tells whether all that was found had been synced before, so that nobody has to wait for the disk again.
// After a clean stop that is so, and after any other where the log ends at the flushed offset and nothing was mended.
func (r *recovery) isDurable() bool {
	if r.scanned == len(r.opened) {
		return r.clean
	}
	l := r.log
	if r.cut != nil || r.end != r.saved.FlushedOffset || l.epochsDue() || len(l.pendingStates) > 0 {
		return false
	}
	// Whatever was flushed, its files' entries were, too. An empty segment may be a new one, in a new folder perhaps.
	l.folderUnsynced = l.active().state.Size == 0
	l.parentUnsynced = l.folderUnsynced
	return true
}

func (r *recovery) publish(start, flushed int64) {
	l := r.log
	l.saved, l.savedActive = r.saved, r.states[l.active().baseOffset]
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
	for baseOffset := range r.states {
		if _, there := slices.BinarySearchFunc(r.opened, baseOffset, func(s *segment, baseOffset int64) int {
			return cmp.Compare(s.baseOffset, baseOffset)
		}); there {
			continue
		}
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

// loadEpochs finds the epochs. What was read of the batches goes first: the others may lag behind them.
func (r *recovery) loadEpochs(start int64) error {
	l := r.log
	entries, err := r.readEpochs()
	if err != nil {
		return err
	}
	l.epochs = leaderEpochs{entries: entries}
	if l.epochs.cutEnd(r.end) {
		l.epochsStale = epochsAllStale
	}
	for _, found := range r.epochs {
		if l.epochs.correct(found) {
			l.epochsStale = min(l.epochsStale, found.StartOffset)
		}
	}
	if l.epochs.cutStart(start) {
		l.epochsStale = epochsAllStale
	}
	return nil
}

// readEpochs reads what a clean stop has left with the state database, else the epoch file. A file that is missing or
// damaged is made anew from the local segments.
func (r *recovery) readEpochs() ([]EpochEntry, error) {
	l := r.log
	if r.clean && r.savedEpochs != nil && r.scanned == len(r.opened) {
		l.epochsStale = r.last().baseOffset
		return r.savedEpochs, nil
	}
	entries, err := readEpochFile(l.env.fs, l.folder)
	if err != nil {
		l.epochsStale = r.opened[0].baseOffset
		return r.rebuildEpochs(err)
	}
	return entries, nil
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
		err = s.reach().walk(s.baseOffset, func(_ *batchScan, header record.Batch, _ *record.EndMarker) {
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
	err := s.reach().walk(s.baseOffset, func(scan *batchScan, header record.Batch, _ *record.EndMarker) {
		epoch = header.LeaderEpoch()
		scan.end = scan.position // one is enough
	})
	return epoch, err
}

// loadProducers brings the producers up to the log end, and finds the aborted transactions of those segments whose
// indexes are made anew.
func (r *recovery) loadProducers() error {
	l := r.log
	state := l.restoreFrom(r.producers, min(r.end, r.unindexedFrom), r.now)
	for i, reach := range l.reaches() {
		var note func(AbortedTransaction)
		if reach.segment.baseOffset >= r.unindexedFrom {
			note = reach.segment.noteAborted
		}
		if err := reach.replayProducers(state, r.end, r.now, note); err != nil {
			return err
		}
		reach.segment.sealAborted()
		if s := reach.segment; i >= r.scanned && s.state.Sealed {
			l.pendingStates = append(l.pendingStates, r.pendingState(s, state))
		}
	}
	state.endOffset = r.end
	l.producers = state
	return l.forgetUnfitting(r.producers, r.end)
}

// pendingState is what the state database lacks about a sealed segment that was read. If the producers come from a
// checkpoint behind it, the one at its end had been saved before.
func (r *recovery) pendingState(s *segment, state *producerState) pendingState {
	pending := r.log.pendingStateOf(s, state, s.state.NextBaseOffset)
	if state.endOffset > s.state.NextBaseOffset {
		pending.producers = producerCheckpoint{}
	}
	return pending
}
