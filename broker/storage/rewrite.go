package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// ErrSegmentsChanged says that a rewrite has been overtaken: some of the segments it is to replace are not part of the
// log any more, since it was truncated, or they have expired. Nothing has changed.
var ErrSegmentsChanged = errors.New("the segments are not those of the log any more")

// Rewrite is a segment in the making that will take the place of neighbouring sealed ones. Nobody sees it until Commit.
// It is for one goroutine, which calls Abort when it is done, whatever Commit has returned.
//
// A crash at any moment leaves the old segments or the new one. Commit first makes the new files durable under names of
// their own, then notes in the state database what they replace, and then moves them into their places; the next start
// finishes what was noted and removes what was not.
type Rewrite struct {
	log      *Log
	replaced []*segment
	into     *segment
	file     vfs.File
	endBase  int64 // where the segment after the replaced ones begins
	behind   int64 // bytes that the kernel was told to write to disk
	over     bool  // committed or given up
}

// writeBehind is how much of a rewrite the kernel may keep to itself: with all of it left to the sync at the end, disk
// and processor would take turns.
const writeBehind = 8 << 20

// Rewrite begins to write the segments anew that begin in [firstBase, endBase), both of which are bases of segments.
// They must be sealed, flushed and whole.
func (l *Log) Rewrite(firstBase, endBase int64) (*Rewrite, error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	replaced, err := l.rewritable(firstBase, endBase)
	w := &Rewrite{log: l, replaced: replaced, into: l.newSegment(firstBase), endBase: endBase}
	l.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("rewrite the segments [%d, %d) of %s: %w", firstBase, endBase, l.topicPartition, err)
	}
	w.into.indexes = &memoryIndexes{}
	// That an earlier rewrite is over must be known for good before there is a file which could be taken for its own.
	if err := l.env.syncStore(); err != nil {
		return nil, fmt.Errorf("rewrite %s: %w", l.topicPartition, err)
	}
	if w.file, err = l.env.fs.Create(w.path(logSuffix)); err != nil {
		return nil, l.dir.judge(storageError(fmt.Sprintf("rewrite %s", l.topicPartition), err))
	}
	return w, nil
}

// rewritable needs mu.
func (l *Log) rewritable(firstBase, endBase int64) ([]*segment, error) {
	from, to := l.segmentIndex(firstBase), l.segmentIndex(endBase)
	if l.closed || from < 0 || from >= to || l.segments[from].baseOffset != firstBase ||
		l.segments[to].baseOffset != endBase {
		return nil, ErrSegmentsChanged
	}
	replaced := slices.Clone(l.segments[from:to])
	for _, s := range replaced {
		if damage := s.damage.Load(); damage != nil {
			return nil, damage
		}
	}
	if to > l.unflushedFrom || slices.ContainsFunc(replaced, l.unsettled) {
		return nil, fmt.Errorf("they are not flushed yet: %w", ErrSegmentsChanged)
	}
	return replaced, nil
}

// path is the name of one of the files in the making.
func (w *Rewrite) path(suffix string) string { return w.into.path(suffix) + cleanedSuffix }

// Size is the number of bytes that were written.
func (w *Rewrite) Size() int64 { return w.into.state.Size }

// Append writes whole batches, whose offsets rise and lie in the range of what is replaced. Where the disk is nearly
// full the error is ErrNoSpace.
func (w *Rewrite) Append(batches []byte) error {
	l := w.log
	if err := l.dir.checkReserve(len(batches), time.Now().UnixMilli()); err != nil {
		return fmt.Errorf("rewrite %s: %w", l.topicPartition, err)
	}
	n, err := w.file.WriteAt(batches, w.into.state.Size)
	if err == nil && n < len(batches) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return l.dir.judge(storageError(fmt.Sprintf("rewrite %s", l.topicPartition), err))
	}
	for len(batches) > 0 {
		batch, rest, err := record.Next(batches)
		if err != nil {
			return fmt.Errorf("rewrite %s: %w", l.topicPartition, err)
		}
		if batch.BaseOffset() < w.into.state.EndOffset || batch.NextOffset() > w.endBase || !w.into.fits(batch.LastOffset()) {
			return fmt.Errorf("rewrite %s: a batch [%d, %d) does not fit behind %d and before %d",
				l.topicPartition, batch.BaseOffset(), batch.NextOffset(), w.into.state.EndOffset, w.endBase)
		}
		w.into.note(newNote(batch))
		batches = rest
	}
	if size := w.into.state.Size; size-w.behind >= writeBehind {
		vfs.WriteBehind(w.file, w.behind, size-w.behind)
		w.behind = size
	}
	return nil
}

// KeepAborted says that the marker of an aborted transaction was kept. Transactions come in the order of their markers.
func (w *Rewrite) KeepAborted(aborted AbortedTransaction) { w.into.noteAborted(aborted) }

// Abort removes what was written. After Commit has succeeded it does nothing.
func (w *Rewrite) Abort() {
	if w.over {
		return
	}
	w.over = true
	_ = w.file.Close() // its content is given up
	for _, suffix := range rewrittenSuffixes {
		if err := w.log.env.fs.Remove(w.path(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.log.env.logger.Warn("a file of an unfinished cleaning could not be removed; the next start does",
				"file", w.path(suffix), "error", err)
		}
	}
}

// Commit puts the new segment in the place of the old ones. Who reads one of them goes on undisturbed. After
// ErrSegmentsChanged, and after an error that leaves the log online, the log is as it was. It goes offline where it is
// not known any more which files are in place: the next start makes it whole.
func (w *Rewrite) Commit() error {
	l := w.log
	w.into.findMaxTimestampOffset(w.file)
	w.into.seal(w.endBase)
	if err := w.writeFiles(); err != nil { // nothing is lost with what was not written
		return l.dir.judge(storageError(fmt.Sprintf("flush a rewritten segment of %s", l.topicPartition), err))
	}
	release := l.holdSegments()
	defer release()
	if err := w.check(); err != nil {
		return err
	}
	noted := rewriteNote{state: w.noteTimes(), replaced: basesOf(w.replaced)}
	w.over = true // from here on it is finished, by this start or by the next
	err := l.env.store.Set(l.keys.at(rewriteKind, w.into.baseOffset), noted.append(nil))
	if err == nil {
		err = l.env.syncStore()
	}
	if err != nil { // nobody knows whether the note is there: the files stay for the next start to tell
		return l.fail(errors.Join(fmt.Errorf("note a rewrite of %s: %w", l.topicPartition, err), w.file.Close()))
	}
	if err := w.swap(); err != nil {
		return l.fail(err)
	}
	if err := l.finishRewrite(w.into.baseOffset, noted); err != nil {
		return l.fail(err)
	}
	w.settle()
	return nil
}

func basesOf(segments []*segment) []int64 {
	bases := make([]int64, len(segments))
	for i, s := range segments {
		bases[i] = s.baseOffset
	}
	return bases
}

// writeFiles makes everything durable under the names of files in the making.
func (w *Rewrite) writeFiles() error {
	fsys, indexes := w.log.env.fs, w.into.indexes
	if err := w.file.SyncData(); err != nil {
		return err
	}
	err := errors.Join(
		writeTail(fsys, w.path(offsetIndexSuffix), indexes.offsets, 0, true),
		writeTail(fsys, w.path(timeIndexSuffix), indexes.times, 0, true))
	if err == nil && len(indexes.aborted) > 0 {
		err = writeTail(fsys, w.path(txnIndexSuffix), indexes.aborted, 0, true)
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(w.log.folder.path())
}

// check looks whether the segments are still the log's.
func (w *Rewrite) check() error {
	l := w.log
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := l.rewritable(w.replaced[0].baseOffset, w.endBase)
	if err == nil && !slices.Equal(now, w.replaced) {
		err = ErrSegmentsChanged
	}
	if err != nil {
		return fmt.Errorf("put rewritten segments of %s in place: %w", l.topicPartition, err)
	}
	return nil
}

// noteTimes gives the new segment the append times of what it replaces, and returns its state as it will be saved.
func (w *Rewrite) noteTimes() segmentState {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	first, last := w.replaced[0].state, w.replaced[len(w.replaced)-1].state
	w.into.state.FirstAppendedAt, w.into.state.LastAppendedAt = first.FirstAppendedAt, last.LastAppendedAt
	for _, s := range w.replaced {
		w.into.state.LastAppendedAt = max(w.into.state.LastAppendedAt, s.state.LastAppendedAt)
	}
	return w.into.saved()
}

// swap puts the new segment into service. Its file stays open, and its indexes in memory, until all files are in place:
// nobody may open a file by a name that is still another's. Whoever found an old segment and has not opened it yet
// looks again.
func (w *Rewrite) swap() error {
	l := w.log
	if _, err := l.env.files.install(&w.into.data, w.file); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.segmentIndex(w.into.baseOffset)
	for _, s := range w.replaced {
		l.size.Add(-s.state.Size)
		l.dropSegment(s)
	}
	l.size.Add(w.into.state.Size)
	l.segments = slices.Concat(l.segments[:at], []*segment{w.into}, l.segments[at+len(w.replaced):])
	l.unflushedFrom -= len(w.replaced) - 1
	return nil
}

// settle lets go of what was held until the files were in place.
func (w *Rewrite) settle() {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.into.indexes = nil
	w.into.Release()
}

// holdSegments takes the right to take segments away or to put others in their place: truncation, retention, the end of
// the log and a finished rewrite exclude each other. Flushes go on.
func (l *Log) holdSegments() (release func()) {
	l.swapping <- struct{}{}
	return func() { <-l.swapping }
}

// finishRewrite moves the files of a noted rewrite into their places and removes those of the segments it replaces.
// What an earlier attempt has done is not done again. In service it needs the right to swap segments.
func (l *Log) finishRewrite(baseOffset int64, noted rewriteNote) error {
	for _, suffix := range rewrittenSuffixes {
		name := segmentPath(l.folder.path(), baseOffset, suffix)
		err := l.env.fs.Rename(name+cleanedSuffix, name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			if suffix == txnIndexSuffix && noted.state.AbortedEntries == 0 {
				err = l.removeFile(name) // of the segment that was here before; an empty one has none
			}
		}
		if err != nil {
			return fmt.Errorf("put a rewritten segment of %s in place: %w", l.topicPartition, err)
		}
	}
	if err := l.env.fs.SyncDir(l.folder.path()); err != nil {
		return l.dir.fail(err)
	}
	err := l.env.store.Set(l.keys.at(segmentKind, baseOffset), noted.state.append(nil))
	for _, base := range noted.replaced {
		if base == baseOffset || err != nil {
			continue
		}
		// The note stays until its files are gone: the next start would take them for segments of the log.
		for _, suffix := range segmentSuffixes {
			err = errors.Join(err, l.removeFile(segmentPath(l.folder.path(), base, suffix)))
		}
		if err == nil {
			err = l.forget(base)
		}
	}
	if err != nil {
		return fmt.Errorf("note that %s was rewritten: %w", l.topicPartition, err)
	}
	// Without the note a start would take files that a power cut brings back for segments of the log.
	if err := l.env.fs.SyncDir(l.folder.path()); err != nil {
		return l.dir.fail(err)
	}
	if err := l.env.store.Delete(l.keys.at(rewriteKind, baseOffset)); err != nil {
		return fmt.Errorf("note that %s was rewritten: %w", l.topicPartition, err)
	}
	l.env.unsynced.Store(true)
	return nil
}

func (l *Log) removeFile(name string) error {
	if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// rewriteFits tells whether a noted rewrite is one of the files there are: a note may outlive its rewrite if the state
// database forgets in a crash that it was removed.
func (l *Log) rewriteFits(baseOffset int64, noted rewriteNote) (bool, error) {
	name := segmentPath(l.folder.path(), baseOffset, logSuffix)
	for _, candidate := range []string{name + cleanedSuffix, name} {
		info, err := l.env.fs.Stat(candidate)
		if err == nil {
			return info.Size() == noted.state.Size, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}

// finishRewrites finishes what a crash has interrupted.
func (r *recovery) finishRewrites(rewrites map[int64]rewriteNote) error {
	l := r.log
	for baseOffset, noted := range rewrites {
		fits, err := l.rewriteFits(baseOffset, noted)
		if err != nil {
			return err
		}
		if !fits {
			if err := l.env.store.Delete(l.keys.at(rewriteKind, baseOffset)); err != nil {
				return err
			}
			continue
		}
		if err := l.finishRewrite(baseOffset, noted); err != nil {
			return err
		}
		for _, base := range noted.replaced {
			delete(r.states, base)
		}
		r.states[baseOffset] = noted.state
	}
	return nil
}
