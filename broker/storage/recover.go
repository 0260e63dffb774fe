package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// recovery opens a log. What it may assume about the files depends on the flushed offset, which is a lower bound of
// what had been synced. Below it everything must be there, whole: what is not is corruption or loss, and the log stays
// offline rather than being silently shortened. At or above it a power cut may have kept any subset of blocks: the log
// ends before the first bad batch, whatever follows.
//
// A segment is trusted, not read, if it was sealed and flushed and its file has the size it had then; after a clean
// stop, so is the active one. All others are read with their checksums, and their indexes made anew.
type recovery struct {
	log       *Log
	clean     bool
	saved     checkpoint
	states    map[int64]segmentState
	producers []savedProducers
	// savedEpochs were left by the last clean stop.
	savedEpochs []EpochEntry
	now         int64

	opened  []*segment
	end     int64 // one past the last good batch
	scanned int   // index in opened of the first segment that was read, or len(opened)
	// unindexedFrom is the base of the first segment whose aborted transactions are still to be found.
	unindexedFrom int64
	lastEpoch     kafka.LeaderEpoch
	epochs        []EpochEntry // found in what was read
	cut           *RecoveryCut
}

type segmentFile struct {
	baseOffset int64
	size       int64
}

// open brings a log from disk into service. Nobody else knows it yet. saved is what the state database has of it;
// without anything there, all is read from the files.
func (l *Log) open(clean bool, saved *savedLog) error {
	if saved == nil {
		saved = &savedLog{}
	}
	if saved.err != nil {
		return saved.err
	}
	r := &recovery{
		log: l, clean: clean, saved: saved.checkpoint, states: saved.segments, producers: saved.producers,
		savedEpochs: saved.epochs, lastEpoch: kafka.NoLeaderEpoch, now: time.Now().UnixMilli(),
		unindexedFrom: math.MaxInt64,
	}
	l.epochsSaved = saved.epochs != nil
	l.cleaned.Store(saved.cleaned)
	if r.states == nil {
		r.states = map[int64]segmentState{}
	}
	if err := r.finishRewrites(saved.rewrites); err != nil {
		return err
	}
	files, err := r.listFiles()
	if err != nil {
		return err
	}
	if err := r.openSegments(files); err != nil {
		r.abandon()
		return err
	}
	if err := r.putInService(); err != nil {
		r.abandon()
		return err
	}
	r.report()
	return nil
}

// abandon closes what was opened of a log that stays offline.
func (r *recovery) abandon() {
	for _, s := range r.opened {
		r.log.dropSegment(s)
	}
}

func (l *Log) loadCheckpoint() (checkpoint, error) {
	data, err := l.env.store.Get(l.keys.kind(checkpointKind))
	if err != nil || data == nil {
		return checkpoint{}, err
	}
	return parseCheckpoint(data)
}

// listFiles finds the segments in the folder, oldest first, and finishes what a crash has interrupted: files that were
// being written or had been given up are removed.
func (r *recovery) listFiles() ([]segmentFile, error) {
	l := r.log
	names, err := l.env.fs.List(l.folder.path())
	if err != nil {
		return nil, err
	}
	var files []segmentFile
	for _, name := range names {
		if strings.HasSuffix(name, vfs.TempSuffix) || strings.HasSuffix(name, deletedFileSuffix) ||
			strings.HasSuffix(name, cleanedSuffix) {
			if err := l.env.fs.Remove(l.folder.file(name)); err != nil {
				return nil, err
			}
			continue
		}
		baseOffset, ok := parseSegmentName(name, logSuffix)
		if !ok {
			continue
		}
		info, err := l.env.fs.Stat(l.folder.file(name))
		if err != nil {
			return nil, err
		}
		files = append(files, segmentFile{baseOffset: baseOffset, size: info.Size()})
	}
	slices.SortFunc(files, func(a, b segmentFile) int { return cmp.Compare(a.baseOffset, b.baseOffset) })
	for len(files) > 1 && files[1].baseOffset <= r.saved.LocalStart {
		l.removeFiles(files[0].baseOffset)
		files = files[1:]
	}
	return files, r.removeOrphans(names, files)
}

// removeOrphans removes indexes without a log file.
func (r *recovery) removeOrphans(names []string, files []segmentFile) error {
	l := r.log
	for _, name := range names {
		for _, suffix := range []string{offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix} {
			baseOffset, ok := parseSegmentName(name, suffix)
			if !ok || slices.ContainsFunc(files, func(f segmentFile) bool { return f.baseOffset == baseOffset }) {
				continue
			}
			if err := l.env.fs.Remove(l.folder.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// openSegments opens the files in order and decides where the log begins and ends.
func (r *recovery) openSegments(files []segmentFile) error {
	if err := r.checkStart(files); err != nil {
		return err
	}
	for i, file := range files {
		if i == 0 {
			r.end = file.baseOffset
		} else if gap, err := r.checkBorder(file); err != nil {
			return err
		} else if gap {
			r.cutHere(files[i-1].baseOffset, r.last().state.Size, files[i:], "the next segment does not begin here")
			break
		}
		bad, err := r.openSegment(file, i == len(files)-1)
		if err != nil {
			return err
		}
		if bad != nil {
			r.cutHere(file.baseOffset, bad.Position, files[i+1:], bad.Err.Error())
			r.cut.Bytes += file.size - bad.Position
			break
		}
	}
	return r.checkEnd()
}

func (r *recovery) last() *segment { return r.opened[len(r.opened)-1] }

// checkStart looks for segments missing at the begin: those that had not been given up.
func (r *recovery) checkStart(files []segmentFile) error {
	if len(files) == 0 {
		r.end = max(r.saved.LocalStart, r.saved.LogStartOffset)
		return nil
	}
	first, flushed := files[0].baseOffset, r.saved.FlushedOffset
	wanted := max(r.saved.LocalStart, r.saved.LogStartOffset)
	if first > wanted && flushed > wanted && r.log.remoteEnd() < min(first, flushed) {
		return &MissingError{Folder: r.log.folder.path(), Start: wanted, EndOffset: min(first, flushed)}
	}
	return nil
}

// checkBorder compares the end of the segment before with the base of a file. Where compaction has removed the last
// batches of a segment the state database knows which base follows. Otherwise offsets are missing in between: what had
// not been flushed is cut (gap), what the bucket has is given up here, and the rest is a loss.
func (r *recovery) checkBorder(file segmentFile) (gap bool, err error) {
	before := r.last()
	state, known := r.states[before.baseOffset]
	complete := known && state.Sealed && state.EndOffset == r.end && state.Size == before.state.Size
	switch {
	case file.baseOffset == r.end || complete && file.baseOffset == state.NextBaseOffset:
		r.end = file.baseOffset
		if !before.state.Sealed { // it was read
			before.seal(file.baseOffset)
		}
		return false, nil
	case r.end >= r.saved.FlushedOffset:
		return true, nil
	case file.baseOffset > r.end && file.baseOffset <= r.log.remoteEnd():
		r.giveUp()
		r.end = file.baseOffset
		return false, nil
	case file.baseOffset > r.end:
		return false, &MissingError{Folder: r.log.folder.path(), Start: r.end, EndOffset: file.baseOffset}
	}
	return false, &CorruptError{File: before.path(logSuffix), Position: before.state.Size, Err: fmt.Errorf(
		"its batches end at offset %d and the next segment begins at %d", r.end, file.baseOffset)}
}

// giveUp drops what was opened so far: there is a hole behind it, and the bucket has everything before the hole.
func (r *recovery) giveUp() {
	for _, s := range r.opened {
		r.log.dropSegment(s)
		r.log.removeFiles(s.baseOffset)
	}
	r.opened, r.scanned, r.epochs = nil, 0, nil
}

// checkEnd looks for segments missing at the end.
func (r *recovery) checkEnd() error {
	remoteEnd := r.log.remoteEnd()
	if r.end >= r.saved.FlushedOffset && (len(r.opened) > 0 || r.end >= remoteEnd) {
		return nil
	}
	if r.saved.FlushedOffset <= remoteEnd {
		r.giveUp()
		r.end = remoteEnd
		return nil
	}
	return &MissingError{Folder: r.log.folder.path(), Start: r.end, EndOffset: r.saved.FlushedOffset}
}

// openSegment opens one file. bad is where its first bad batch is, if it may be cut there.
func (r *recovery) openSegment(file segmentFile, isLast bool) (bad *CorruptError, err error) {
	l := r.log
	s := l.newSegment(file.baseOffset)
	state, trusted := r.trust(file, isLast)
	if trusted && r.scanned == len(r.opened) {
		s.state = state
		s.offsetEntries.Store(state.OffsetEntries)
		s.timeEntries.Store(state.TimeEntries)
		s.abortedEntries.Store(state.AbortedEntries)
		r.opened, r.scanned = append(r.opened, s), r.scanned+1
		r.end = state.EndOffset
		if isLast {
			return nil, r.openActive(s)
		}
		return nil, nil
	}
	r.opened = append(r.opened, s)
	return r.scanSegment(s, file.size)
}

// trust tells whether a file need not be read, and what it holds then.
func (r *recovery) trust(file segmentFile, isLast bool) (segmentState, bool) {
	if r.clean && isLast && file.size == 0 {
		return emptyState(file.baseOffset), true
	}
	state, known := r.states[file.baseOffset]
	flushed := state.Sealed && state.EndOffset <= r.saved.FlushedOffset && !isLast
	return state, known && state.Size == file.size && (r.clean || flushed)
}

// openActive makes the last segment of a clean log writable. Its file is opened by the first append. Its indexes are
// read, or made anew if they do not fit; without entries there is nothing to read.
func (r *recovery) openActive(s *segment) error {
	s.writable.Store(true)
	s.state.Sealed = false
	s.entrySum = int64(s.indexInterval) // unknown, so the next batch but one gets an entry
	if s.offsetEntries.Load() == 0 && s.timeEntries.Load() == 0 && s.abortedEntries.Load() == 0 {
		s.indexes = &memoryIndexes{}
		return nil
	}
	indexes, reason := s.readIndexes()
	if reason == nil {
		s.indexes = indexes
		return nil
	}
	file, err := r.log.openForWriting(s)
	if err != nil {
		return err
	}
	rebuilt, err := s.scanAll(file)
	if err != nil {
		return err
	}
	s.indexes = rebuilt.indexes
	r.unindexedFrom = min(r.unindexedFrom, s.baseOffset)
	r.log.env.indexRebuilt(s, reason)
	return nil
}

// readIndexes loads the index files of a segment that will be written to.
func (s *segment) readIndexes() (*memoryIndexes, error) {
	maps, err := s.mapIndexes()
	if err != nil {
		return nil, err
	}
	indexes := &memoryIndexes{
		offsets: slices.Clone(maps.offsets.Bytes()),
		times:   slices.Clone(maps.times.Bytes()),
		aborted: slices.Clone(maps.aborted.Bytes()),
	}
	indexes.offsetsOnDisk, indexes.timesOnDisk = len(indexes.offsets), len(indexes.times)
	indexes.abortedOnDisk = len(indexes.aborted)
	return indexes, maps.Close()
}

// scanSegment reads a segment's batches with their checksums.
func (r *recovery) scanSegment(s *segment, size int64) (bad *CorruptError, err error) {
	file, err := r.log.openForWriting(s)
	if err != nil {
		return nil, err
	}
	s.indexes = &memoryIndexes{}
	r.unindexedFrom = min(r.unindexedFrom, s.baseOffset)
	if err := r.log.removeTransactionIndex(s); err != nil {
		return nil, err
	}
	scan := r.log.env.bigScan()
	defer r.log.env.put(scan)
	scan.reset(file, 0, size)
	for err == nil {
		err = r.scanBatch(s, scan)
	}
	switch {
	case err == io.EOF:
	case errors.As(err, &bad):
		if r.end < r.saved.FlushedOffset {
			return nil, bad
		}
		if err := file.Truncate(bad.Position); err != nil {
			return nil, fmt.Errorf("cut %s: %w", file.Name(), err)
		}
	default:
		return nil, err
	}
	r.finishScan(s, file)
	return bad, nil
}

// scanBatch reads one batch; io.EOF is the end, a *CorruptError a bad batch.
func (r *recovery) scanBatch(s *segment, scan *batchScan) error {
	header, position, err := scan.next()
	if err != nil {
		return err
	}
	nextOffset, epoch := header.NextOffset(), header.LeaderEpoch()
	switch {
	case header.BaseOffset() < r.end || header.BaseOffset() < s.baseOffset:
		return scan.corrupt(position, fmt.Errorf("offset %d after %d", header.BaseOffset(), r.end))
	case !s.fits(nextOffset - 1):
		return scan.corrupt(position, fmt.Errorf("offset %d is too far from the segment's base", nextOffset-1))
	case epoch < r.lastEpoch:
		return scan.corrupt(position, fmt.Errorf("leader epoch %d after %d", epoch, r.lastEpoch))
	}
	note := newNote(header)
	if err := scan.verify(header, position); err != nil {
		return err
	}
	if epoch > r.lastEpoch {
		r.epochs = append(r.epochs, EpochEntry{Epoch: epoch, StartOffset: note.baseOffset})
		r.lastEpoch = epoch
	}
	s.note(note)
	r.end = nextOffset
	return nil
}

// finishScan adds what the batches do not say themselves.
func (r *recovery) finishScan(s *segment, file vfs.File) {
	s.findMaxTimestampOffset(file)
	state, known := r.states[s.baseOffset]
	if s.state.Size == 0 {
		return
	}
	s.state.FirstAppendedAt, s.state.LastAppendedAt = r.now, r.now // at the latest
	if known && state.FirstAppendedAt >= 0 {
		s.state.FirstAppendedAt, s.state.LastAppendedAt = state.FirstAppendedAt, state.LastAppendedAt
	}
}

// findMaxTimestampOffset looks into the batch with the largest timestamp for the first record that has it.
func (s *segment) findMaxTimestampOffset(file vfs.File) {
	if s.state.MaxTimestampLast < 0 {
		return
	}
	s.state.MaxTimestampOffset = s.state.MaxTimestampLast // if the batch does not tell
	prefix := make([]byte, record.PrefixSize)
	if n, _ := file.ReadAt(prefix, s.state.maxTimestampPosition); n < len(prefix) {
		return
	}
	size, err := record.SizeOf(prefix)
	if err != nil {
		return
	}
	batch, err := readBatch(file, s.state.maxTimestampPosition, size)
	if err != nil {
		return
	}
	if found, ok, err := s.firstAtOrAfter(batch, s.state.MaxTimestamp, 0); ok && err == nil {
		s.state.MaxTimestampOffset = found.Offset
	}
}

// cutHere ends the log at the position of a bad batch. What follows goes, too.
func (r *recovery) cutHere(baseOffset, position int64, following []segmentFile, reason string) {
	l := r.log
	r.cut = &RecoveryCut{
		TopicPartition: l.topicPartition, Offset: r.end, Reason: reason, SegmentsRemoved: len(following),
		File: path.Base(segmentPath(l.folder.path(), baseOffset, logSuffix)), Position: position,
	}
	for _, file := range slices.Backward(following) {
		r.cut.Bytes += file.size
		l.removeFiles(file.baseOffset)
	}
}

func (r *recovery) report() {
	if r.cut == nil {
		return
	}
	l := r.log
	l.env.metrics.recoveryCutBytes.Add(float64(r.cut.Bytes))
	l.env.logger.Warn("recovery after an unclean stop has cut a log", "partition", l.topicPartition.String(),
		"end offset", r.cut.Offset, "flushed offset", r.saved.FlushedOffset, "file", r.cut.File,
		"position", r.cut.Position, "bytes", r.cut.Bytes, "segments", r.cut.SegmentsRemoved, "reason", r.cut.Reason)
	if l.env.events.RecoveryCut != nil {
		l.env.events.RecoveryCut(*r.cut)
	}
}
