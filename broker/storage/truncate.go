package storage

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"

	"github.com/firnlog/firn/internal/vfs"
)

// Truncate cuts the log so that it ends at an offset: a follower has found that its records from there on are not
// those of the leader. A batch that holds the offset goes as a whole. Nobody appends meanwhile.
func (l *Log) Truncate(offset int64) error {
	defer l.holdSegments()()
	l.flushing <- struct{}{}
	defer func() { <-l.flushing }()
	if err := l.Err(); err != nil {
		return err
	}
	if offset >= l.endOffset.Load() {
		return nil
	}
	if offset < l.localStart.Load() {
		return l.startAt(offset)
	}
	t, err := l.planTruncate(offset)
	if err != nil {
		return storageError(fmt.Sprintf("truncate %s to %d", l.topicPartition, offset), err)
	}
	if t.endOffset < l.logStart.Load() { // the batch around the log start goes, and nothing is left
		return l.startAt(offset)
	}
	return l.cutTo(t)
}

// TruncateFullyAndStartAt drops all local segments and goes on at an offset: a follower's log ends before its leader's
// begins, or begins at the remote end.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	defer l.holdSegments()()
	l.flushing <- struct{}{}
	defer func() { <-l.flushing }()
	if err := l.Err(); err != nil {
		return err
	}
	return l.startAt(offset)
}

// startAt needs the flushing token.
func (l *Log) startAt(offset int64) error {
	return l.cutTo(&truncation{
		endOffset: offset, fresh: true, producers: newProducerState(offset, &l.env.expireMs),
	})
}

// truncation is what will be left of a log.
type truncation struct {
	endOffset int64
	fresh     bool // nothing is left: one empty segment begins at endOffset
	kept      int  // else: whole segments that stay as they are
	last      *segment
	producers *producerState
}

// planTruncate finds out what will be left, by reading the segment that is cut.
func (l *Log) planTruncate(offset int64) (*truncation, error) {
	l.mu.Lock()
	at := l.segmentIndex(offset)
	view := l.viewOf(at)
	l.mu.Unlock()

	if err := view.acquire(); err != nil {
		return nil, err
	}
	defer view.release()
	scan := l.env.scan()
	place, err := view.seek(scan, offset)
	l.env.put(scan)
	t := &truncation{endOffset: offset, kept: at}
	size := view.size
	switch {
	case err == nil:
		t.endOffset, size = min(offset, place.baseOffset), place.position
	case err != io.EOF:
		return nil, err
	}
	if t.last, err = view.segment.prefix(view.file, size); err != nil {
		return nil, err
	}
	l.mu.Lock()
	t.last.state.FirstAppendedAt = view.segment.state.FirstAppendedAt
	t.last.state.LastAppendedAt = view.segment.state.LastAppendedAt
	l.mu.Unlock()
	if err := view.keepAborted(t.last, t.endOffset); err != nil {
		return nil, err
	}
	t.producers, err = l.producersAt(t.endOffset)
	return t, err
}

// keepAborted gives what is left of the segment the transactions whose markers are left.
func (v *segmentView) keepAborted(left *segment, endOffset int64) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	left.indexes.aborted = slices.Clone(v.aborted[:findAborted(v.aborted, endOffset)*txnEntrySize])
	return nil
}

// prefix is the segment as it will be when its file is cut.
func (s *segment) prefix(file vfs.File, size int64) (*segment, error) {
	cut := s.afresh()
	scan := s.env.bigScan()
	defer s.env.put(scan)
	scan.reset(file, 0, size)
	for {
		header, _, err := scan.next()
		if err == io.EOF {
			cut.findMaxTimestampOffset(file)
			return cut, nil
		}
		if err != nil {
			return nil, err
		}
		cut.note(newNote(header))
	}
}

// cutTo carries a truncation out. The state database learns of it first, for good: if it believed in more than the
// files have, the next start would take what is missing for a loss, and the producers of what was cut for those of what
// comes in its place.
func (l *Log) cutTo(t *truncation) error {
	l.lowerOffsets(t)
	if err := l.saveCheckpoint(); err != nil {
		return err
	}
	err := l.forgetProducersAbove(t.endOffset)
	if err == nil && l.cleaned.Load() > t.endOffset {
		err = l.saveCleaned(t.endOffset)
	}
	if err := errors.Join(err, l.env.syncStore()); err != nil {
		return fmt.Errorf("truncate %s: %w", l.topicPartition, err)
	}
	dropped, err := l.swapTail(t)
	if err != nil {
		return l.fail(err) // the files may be cut and the log not know it
	}
	if err := l.removeTransactionIndex(t.last); err != nil {
		return l.fail(err)
	}
	if err := l.env.fs.SyncDir(l.folder.path()); err != nil { // no file goes before what replaces it is there
		return l.dir.fail(err)
	}
	for _, s := range slices.Backward(dropped) {
		if err := l.forget(s.baseOffset); err != nil {
			return err
		}
	}
	return l.flush()
}

// removeTransactionIndex removes the file of a segment that is written again from here on. The other indexes are
// written over in any case; this one only if a transaction is aborted.
func (l *Log) removeTransactionIndex(s *segment) error {
	return l.removeFile(s.path(txnIndexSuffix))
}

// lowerOffsets publishes where the log ends, before it does.
func (l *Log) lowerOffsets(t *truncation) {
	remote, tiered := l.remote()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushedOffset.Store(min(l.flushedOffset.Load(), t.endOffset))
	if !t.fresh {
		l.publishHighWatermark(min(l.highWatermark.Load(), t.endOffset))
		return
	}
	l.localStart.Store(t.endOffset)
	if !tiered || remote.EndOffset < t.endOffset || t.endOffset < l.logStart.Load() {
		l.logStart.Store(t.endOffset) // nothing before it is anywhere
		l.epochs = leaderEpochs{}
		l.epochsStale = epochsAllStale
	}
	l.publishHighWatermark(t.endOffset) // as in Kafka: what a follower is told to begin after has been committed
}

// swapTail replaces the segments that are cut or dropped, and returns those that leave files behind.
func (l *Log) swapTail(t *truncation) (dropped []*segment, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	replaced := l.segments[t.kept:]
	for _, s := range replaced {
		l.dropSegment(s)
	}
	if t.fresh {
		dropped = replaced
		if t.last, err = l.createSegment(t.endOffset); err != nil {
			return nil, err
		}
	} else {
		dropped = replaced[1:]
		file, err := l.openForWriting(t.last)
		if err != nil {
			return nil, err
		}
		if err := file.Truncate(t.last.state.Size); err != nil {
			return nil, err
		}
	}
	l.segments = append(slices.Clone(l.segments[:t.kept]), t.last)
	l.pendingStates = slices.DeleteFunc(l.pendingStates, func(p pendingState) bool {
		return p.producers.Offset > t.endOffset || slices.Contains(replaced, p.segment)
	})
	l.unflushedFrom = min(l.unflushedFrom, len(l.segments)-1)
	l.folderUnsynced = true
	if l.epochs.cutEnd(t.endOffset) {
		l.epochsStale = epochsAllStale
	}
	l.producers = t.producers
	l.endOffset.Store(t.endOffset)
	l.unsaved.Store(true)
	l.publishStableBound(l.highWatermark.Load())
	size := int64(0)
	for _, s := range l.segments {
		size += s.state.Size
	}
	l.size.Store(size)
	// A segment of the same base may be among those dropped.
	return slices.DeleteFunc(slices.Clone(dropped), func(s *segment) bool {
		return s.baseOffset == t.last.baseOffset
	}), nil
}

// forget removes a dropped segment's files and what the state database has of it.
func (l *Log) forget(baseOffset int64) error {
	l.removeFiles(baseOffset)
	for _, kind := range []byte{segmentKind, producerKind} {
		if err := l.env.store.Delete(l.keys.at(kind, baseOffset)); err != nil {
			return fmt.Errorf("forget a segment of %s: %w", l.topicPartition, err)
		}
	}
	return nil
}
