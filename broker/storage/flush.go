package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/firnlog/firn/internal/vfs"
)

// groupFlushDelay is how long an append under FlushGroup may stay unflushed when nobody waits for it.
const groupFlushDelay = 10 * time.Millisecond

// minIndexWrite is how many bytes of index entries are worth a write while their segment is active. The rest follows
// when it is sealed; a crash in between costs nothing, because the active segment is read again anyway.
const minIndexWrite = 4 << 10

// RequestFlush says that somebody waits for what has been appended so far. Requests that come while a flush is under
// way share the next one.
func (l *Log) RequestFlush() {
	if l.flushedOffset.Load() < l.endOffset.Load() {
		l.dir.committer.request(l)
	}
}

// scheduleFlush needs mu. It sees to it that what has been appended is flushed in time, be it asked for or not.
func (l *Log) scheduleFlush() {
	l.unsaved.Store(true)
	group := l.Policy() == FlushGroup
	if group && l.unflushedBytes >= maxUnflushedBytes {
		l.dir.committer.request(l)
		return
	}
	if l.flushScheduled || !group && l.config.FlushMs == math.MaxInt64 {
		return
	}
	delay := groupFlushDelay
	if flushMs := min(l.config.FlushMs, math.MaxInt64/int64(time.Millisecond)); !group ||
		time.Duration(flushMs)*time.Millisecond < delay {
		delay = time.Duration(flushMs) * time.Millisecond
	}
	l.flushScheduled = true
	l.dir.committer.schedule(l, time.Now().Add(delay))
}

// Flush makes everything that had been appended when it was called durable. A failure takes the whole log directory
// offline: after it nobody can know what is on disk, and asking again would get a lie for an answer.
func (l *Log) Flush() error {
	l.flushing <- struct{}{}
	defer func() { <-l.flushing }()
	return l.flush()
}

// flush needs the flushing token.
func (l *Log) flush() error {
	work, err := l.planFlush()
	if err != nil || !work.needed {
		return err
	}
	start := time.Now()
	if err := work.run(l); err != nil {
		return l.dir.fail(fmt.Errorf("flush %s: %w", l.topicPartition, err))
	}
	l.env.metrics.flushSeconds.Observe(time.Since(start).Seconds())
	return l.finishFlush(work)
}

// flushWork is what one flush has to do, as of one moment.
type flushWork struct {
	needed     bool
	segments   []flushSegment // oldest first
	epochFile  []byte         // nil if it need not be written
	syncFolder bool
	syncParent bool // of a log that is new
	endOffset  int64
	states     []pendingState
}

type flushSegment struct {
	segment *segment
	file    vfs.File // nil if nothing in it was unflushed
	sealed  bool
	indexes memoryIndexes // as of the plan; what is to be written of them, if anything
	writes  bool
}

func (l *Log) planFlush() (flushWork, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return flushWork{}, err
	}
	work := flushWork{endOffset: l.endOffset.Load(), states: slices.Clone(l.pendingStates)}
	work.syncFolder, work.syncParent = l.folderUnsynced, l.parentUnsynced
	work.needed = !l.closed && (work.endOffset > l.flushedOffset.Load() || l.epochsDue() || l.folderUnsynced ||
		len(l.pendingStates) > 0 || l.closing && l.active().indexes.unwritten() > 0)
	if !work.needed {
		return work, nil
	}
	if l.epochsDue() {
		work.epochFile = appendEpochFile(nil, l.epochs.written())
		l.epochsStale = epochsCurrent
	}
	for _, segment := range l.segments[l.unflushedFrom:] {
		work.segments = append(work.segments, flushSegment{
			segment: segment,
			file:    segment.file,
			sealed:  segment.state.Sealed,
			indexes: *segment.indexes,
			writes: segment.state.Sealed || segment.indexes.unwritten() >= minIndexWrite ||
				l.closing && segment.indexes.unwritten() > 0,
		})
	}
	l.folderUnsynced, l.parentUnsynced, l.flushScheduled = false, false, false
	l.unflushedMessages, l.unflushedBytes = 0, 0
	return work, nil
}

// epochsDue tells whether the epoch file must follow now: it lags behind in what no start would read. It needs mu.
func (l *Log) epochsDue() bool {
	return l.epochsStale < l.active().baseOffset
}

func (x *memoryIndexes) unwritten() int {
	return len(x.offsets) - x.offsetsOnDisk + len(x.times) - x.timesOnDisk + len(x.aborted) - x.abortedOnDisk
}

// run does the writing, without any lock: the batches of each segment before anything that tells of them.
func (w *flushWork) run(l *Log) error {
	for _, part := range w.segments {
		if part.file != nil { // else all of it had been flushed
			if err := part.file.SyncData(); err != nil {
				return err
			}
		}
		if !part.writes {
			continue
		}
		if err := part.writeIndexes(l.env.fs); err != nil {
			return err
		}
		w.syncFolder = w.syncFolder || part.sealed
	}
	if w.epochFile != nil {
		if err := vfs.WriteFileAtomic(l.env.fs, l.folder.file(epochFileName), w.epochFile); err != nil {
			return err
		}
	}
	if w.syncFolder && w.epochFile == nil { // writing the epoch file has synced it
		if err := l.env.fs.SyncDir(l.folder.path()); err != nil {
			return err
		}
	}
	if w.syncParent {
		return l.env.fs.SyncDir(l.folder.parent)
	}
	return nil
}

func (p *flushSegment) writeIndexes(fsys vfs.FS) error {
	err := writeTail(fsys, p.segment.path(offsetIndexSuffix), p.indexes.offsets, p.indexes.offsetsOnDisk, p.sealed)
	if err != nil {
		return err
	}
	err = writeTail(fsys, p.segment.path(timeIndexSuffix), p.indexes.times, p.indexes.timesOnDisk, p.sealed)
	if err != nil || len(p.indexes.aborted) == 0 { // without any there is no file, as in Kafka
		return err
	}
	return writeTail(fsys, p.segment.path(txnIndexSuffix), p.indexes.aborted, p.indexes.abortedOnDisk, p.sealed)
}

// writeTail brings a file that holds the first onDisk bytes of data up to all of them. A sealed segment's index is
// synced and has no more bytes than that, whatever an earlier life of the segment left behind.
func writeTail(fsys vfs.FS, name string, data []byte, onDisk int, sealed bool) error {
	file, err := fsys.OpenReadWrite(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && onDisk == 0 {
		if file != nil {
			_ = file.Close() // it is made anew
		}
		onDisk = 0
		file, err = fsys.Create(name)
	}
	if err != nil {
		return err
	}
	if onDisk < len(data) {
		_, err = file.WriteAt(data[onDisk:], int64(onDisk))
	}
	if err == nil && sealed {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// finishFlush publishes what has become durable, and lets go of segments that are sealed and flushed.
func (l *Log) finishFlush(work flushWork) error {
	l.mu.Lock()
	for _, part := range work.segments {
		l.noteFlushed(part)
	}
	flushed := min(work.endOffset, l.endOffset.Load())
	l.flushedOffset.Store(max(flushed, l.flushedOffset.Load()))
	l.unsaved.Store(true)
	if !l.closed {
		l.rest()
	}
	l.mu.Unlock()

	if l.env.events.Flushed != nil {
		l.env.events.Flushed(l.topicPartition, flushed)
	}
	if fn := l.onFlush.Load(); fn != nil {
		(*fn)(flushed)
	}
	return l.saveStates(work.states)
}

// noteFlushed needs mu.
func (l *Log) noteFlushed(part flushSegment) {
	if part.writes && part.segment.indexes != nil {
		part.segment.indexes.offsetsOnDisk = len(part.indexes.offsets)
		part.segment.indexes.timesOnDisk = len(part.indexes.times)
		part.segment.indexes.abortedOnDisk = len(part.indexes.aborted)
	}
	if !part.sealed || part.segment.indexes == nil {
		return
	}
	part.segment.indexes = nil
	if part.segment.file != nil {
		part.segment.file = nil
		l.env.files.release(&part.segment.data)
	}
	if l.unflushedFrom < len(l.segments)-1 && l.segments[l.unflushedFrom] == part.segment {
		l.unflushedFrom++
	}
}

// saveStates tells the state database about segments that were sealed before the flush.
func (l *Log) saveStates(states []pendingState) error {
	for _, pending := range states {
		if err := l.saveSealed(pending); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pendingStates = l.pendingStates[len(states):]
	return nil
}

// saveSealed tells the state database about a sealed segment, and before that about the producers at its end: who finds
// the one finds the other.
func (l *Log) saveSealed(pending pendingState) error {
	if pending.producers.Snapshot != nil {
		key := l.keys.at(producerKind, pending.producers.Offset)
		if err := l.env.store.Set(key, pending.producers.append(nil)); err != nil {
			return storageError(fmt.Sprintf("save the producers of %s", l.topicPartition), err)
		}
	}
	l.mu.Lock()
	state := pending.segment.saved()
	l.mu.Unlock()
	if err := l.env.store.Set(l.keys.at(segmentKind, pending.segment.baseOffset), state.append(nil)); err != nil {
		return storageError(fmt.Sprintf("save a segment of %s", l.topicPartition), err)
	}
	return nil
}
