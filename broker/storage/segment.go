package storage

import (
	"math"
	"sync/atomic"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// segment is one file of batches with its indexes. It answers for [baseOffset, the next segment's base), although its
// last batch may end earlier where compaction has removed the batches behind it.
type segment struct {
	baseOffset int64
	folder     *folder
	env        *environment
	data       resource[vfs.File] // in env.files; the log holds a reference while something in it is unflushed
	writable   atomic.Bool        // the data file is opened for writing, too: the segment is active
	// maps are the indexes of a sealed segment, in env.maps. Finding them wrong replaces the resource.
	maps           atomic.Pointer[resource[*indexMaps]]
	offsetEntries  atomic.Int32 // in the index files of a sealed segment
	timeEntries    atomic.Int32
	abortedEntries atomic.Int32
	rebuildIndexes atomic.Bool // the index files were found wrong
	indexInterval  int32       // index.interval.bytes when the segment was made or opened
	// producersAt is the log's: where a transaction that ends in the segment began, its own batches need not tell.
	producersAt func(offset int64) (*producerState, error)
	damage      atomic.Pointer[CorruptError]

	// The fields below are guarded by Log.mu. The state of a sealed segment does not change any more, and whoever found
	// the segment sealed may read it without the lock.

	file     vfs.File // open for writing while something in it is unflushed, else nil
	state    segmentState
	indexes  *memoryIndexes // nil once a sealed segment's indexes are on disk
	entrySum int64          // bytes since the last index entry
}

// segmentState is what the log knows of a segment; the state database keeps a copy (store.go).
type segmentState struct {
	EndOffset            int64 // exclusive: one past the last batch's last offset, the base offset when empty
	Size                 int64
	FirstTimestamp       int64 // max timestamp of the first batch, which segment.ms counts from; −1 without
	MaxTimestamp         int64
	MaxTimestampLast     int64 // last offset of the first batch with MaxTimestamp: the time index's choice
	MaxTimestampOffset   int64 // of the first record with MaxTimestamp: ListOffsets' choice
	FirstAppendedAt      int64 // broker time in ms, −1 unknown
	LastAppendedAt       int64
	OffsetEntries        int32 // in the index file; filled in by saved
	TimeEntries          int32
	AbortedEntries       int32
	Sealed               bool
	NextBaseOffset       int64 // of a sealed segment: where it stops to answer, at or above EndOffset
	maxTimestampPosition int64 // of the batch with MaxTimestamp, for recovery to look for the record in it
}

// memoryIndexes are the indexes of a segment that is written to, as bytes of Kafka's format. What has been appended
// never changes in place, so a reader may keep the slices when the lock is gone: cutting replaces them.
type memoryIndexes struct {
	offsets []byte
	times   []byte
	aborted []byte // of the transaction index
	// onDisk counts the bytes that the index files hold. Missing ones cost a rebuild after a crash and nothing else.
	offsetsOnDisk int
	timesOnDisk   int
	abortedOnDisk int
}

// newSegment is an empty segment of the log.
func (l *Log) newSegment(baseOffset int64) *segment {
	s := &segment{
		baseOffset: baseOffset, folder: l.folder, env: l.env, indexInterval: l.config.IndexIntervalBytes,
		producersAt: l.producersAt, state: emptyState(baseOffset),
	}
	s.maps.Store(&resource[*indexMaps]{})
	return s
}

// afresh is the segment without anything in it, to be indexed anew.
func (s *segment) afresh() *segment {
	empty := &segment{
		baseOffset: s.baseOffset, folder: s.folder, env: s.env, indexInterval: s.indexInterval,
		producersAt: s.producersAt, state: emptyState(s.baseOffset), indexes: &memoryIndexes{},
	}
	empty.maps.Store(&resource[*indexMaps]{})
	return empty
}

func emptyState(baseOffset int64) segmentState {
	return segmentState{
		EndOffset:          baseOffset,
		FirstTimestamp:     record.NoTimestamp,
		MaxTimestamp:       record.NoTimestamp,
		MaxTimestampLast:   -1,
		MaxTimestampOffset: -1,
		FirstAppendedAt:    -1,
		LastAppendedAt:     -1,
	}
}

// open opens the data file: the cache calls it.
func (s *segment) open() (vfs.File, error) {
	if s.writable.Load() {
		return s.env.fs.OpenReadWrite(s.path(logSuffix))
	}
	return s.env.fs.Open(s.path(logSuffix))
}

// Release gives back the reference that a Region holds.
func (s *segment) Release() { s.env.files.release(&s.data) }

func (s *segment) path(suffix string) string {
	return segmentPath(s.folder.path(), s.baseOffset, suffix)
}

// isFull tells whether an index has no room for what another batch may add (one entry in each, and a last one in the
// time index when the segment is sealed).
func (s *segment) isFull(maxIndexBytes int32) bool {
	return len(s.indexes.offsets) >= int(maxIndexBytes)/offsetEntrySize*offsetEntrySize ||
		len(s.indexes.times) >= (int(maxIndexBytes)/timeEntrySize-1)*timeEntrySize
}

// relative is an offset as the indexes hold it.
func (s *segment) relative(offset int64) int32 { return int32(offset - s.baseOffset) }

func (s *segment) fits(lastOffset int64) bool { return lastOffset-s.baseOffset <= math.MaxInt32 }

// noted is what a segment keeps of a batch.
type noted struct {
	size               int64
	baseOffset         int64
	lastOffset         int64
	maxTimestamp       int64
	maxTimestampOffset int64 // of the first record with it; the last offset where nobody has looked
}

func newNote(header record.Batch) noted {
	return noted{
		size:               int64(header.Size()),
		baseOffset:         header.BaseOffset(),
		lastOffset:         header.LastOffset(),
		maxTimestamp:       timestampOf(header),
		maxTimestampOffset: header.LastOffset(),
	}
}

// timestampOf is the largest timestamp of a batch's records. A batch that the cleaner has left without any has none,
// whatever its header still says.
func timestampOf(header record.Batch) int64 {
	if header.Count() == 0 {
		return record.NoTimestamp
	}
	return header.MaxTimestamp()
}

// note accounts for a batch that has been written at the end, and extends the indexes. It is what append and recovery
// share, so that a rebuilt index is the same as one written on the way.
func (s *segment) note(batch noted) {
	position := s.state.Size
	if position == 0 {
		s.state.FirstTimestamp = batch.maxTimestamp
	}
	if batch.maxTimestamp > s.state.MaxTimestamp {
		s.state.MaxTimestamp, s.state.MaxTimestampLast = batch.maxTimestamp, batch.lastOffset
		s.state.MaxTimestampOffset, s.state.maxTimestampPosition = batch.maxTimestampOffset, position
	}
	if s.entrySum > int64(s.indexInterval) {
		s.indexes.offsets = appendOffsetEntry(s.indexes.offsets,
			offsetEntry{relative: s.relative(batch.lastOffset), position: int32(position)})
		s.noteTime()
		s.entrySum = 0
	}
	s.entrySum += batch.size
	s.state.Size += batch.size
	s.state.EndOffset = batch.lastOffset + 1
}

// noteTime adds the running maximum to the time index.
func (s *segment) noteTime() {
	if s.state.MaxTimestampLast >= 0 {
		s.indexes.times = maybeAppendTime(s.indexes.times,
			timeEntry{timestamp: s.state.MaxTimestamp, relative: s.relative(s.state.MaxTimestampLast)})
	}
}

// noteAborted adds a transaction whose abort marker is in the segment.
func (s *segment) noteAborted(aborted AbortedTransaction) {
	s.indexes.aborted = appendTxnEntry(s.indexes.aborted, aborted)
}

// sealAborted counts what was added to a segment that was sealed before.
func (s *segment) sealAborted() {
	if s.state.Sealed && s.indexes != nil {
		s.abortedEntries.Store(int32(len(s.indexes.aborted) / txnEntrySize))
	}
}

// seal ends the segment: its time index gets the last word on the largest timestamp.
func (s *segment) seal(nextBaseOffset int64) {
	s.noteTime()
	s.offsetEntries.Store(int32(len(s.indexes.offsets) / offsetEntrySize))
	s.timeEntries.Store(int32(len(s.indexes.times) / timeEntrySize))
	s.abortedEntries.Store(int32(len(s.indexes.aborted) / txnEntrySize))
	s.state.Sealed, s.state.NextBaseOffset = true, nextBaseOffset
}

// indexBytes is the size of the larger of the two indexes; it needs Log.mu.
func (s *segment) indexBytes() int64 {
	state := s.saved()
	return max(int64(state.OffsetEntries)*offsetEntrySize, int64(state.TimeEntries)*timeEntrySize)
}

// saved is the segment's state as the state database keeps it; it needs Log.mu.
func (s *segment) saved() segmentState {
	state := s.state
	state.OffsetEntries, state.TimeEntries = s.offsetEntries.Load(), s.timeEntries.Load()
	state.AbortedEntries = s.abortedEntries.Load()
	if s.indexes != nil {
		state.OffsetEntries = int32(len(s.indexes.offsets) / offsetEntrySize)
		state.TimeEntries = int32(len(s.indexes.times) / timeEntrySize)
		state.AbortedEntries = int32(len(s.indexes.aborted) / txnEntrySize)
	}
	return state
}
