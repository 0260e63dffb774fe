package storage

import (
	"errors"
	"fmt"
	"io"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// ReadRequest asks for whole batches.
type ReadRequest struct {
	// Offset is where to begin: the batch that holds it, or the first one after it, is the first one returned.
	Offset int64
	// MaxBytes bounds the answer; with AtLeastOne the first batch is returned even if it is larger (KIP-74).
	MaxBytes   int
	AtLeastOne bool
	// UpTo is exclusive: the high watermark or the last stable offset of the reader, or the log end for a replica.
	UpTo int64
}

// ReadResult is a run of batches of one segment. An empty one means that nothing is there yet, or that the first
// batch is too large.
type ReadResult struct {
	// Region holds a reference on the segment: it must be released once. An empty one may be released, too.
	Region      vfs.Region
	FirstOffset int64 // base offset of the first batch, which may lie below the request's; the request's when empty
	NextOffset  int64 // where to read on
	Size        int
}

// Read finds batches to answer a fetch with. It returns a place, not bytes: who sends them decides how. It never
// crosses a segment, but where a segment ends without a batch at or after the offset it goes on in the next one.
func (l *Log) Read(req ReadRequest) (ReadResult, error) { return l.readFrom(req, false) }

// ReadResident is Read for somebody who must not wait for the disk: an answer that is not in memory is
// vfs.ErrNotResident. Of an answer some pages are looked at, and pages leave memory when the system wants them to.
func (l *Log) ReadResident(req ReadRequest) (ReadResult, error) { return l.readFrom(req, true) }

func (l *Log) readFrom(req ReadRequest, resident bool) (ReadResult, error) {
	offset := req.Offset
	if l.hasNothingAt(offset, req.UpTo) {
		return ReadResult{FirstOffset: offset, NextOffset: offset}, nil
	}
	for {
		view, err := l.viewAt(offset)
		if err != nil {
			return ReadResult{}, err
		}
		if offset >= min(req.UpTo, view.logEnd) {
			return ReadResult{FirstOffset: req.Offset, NextOffset: req.Offset}, nil
		}
		result, err := view.read(req, offset, resident)
		switch {
		case err == nil:
			return result, nil
		case err == io.EOF && view.nextBase >= 0: // a hole that compaction left at the end of the segment (FE-08)
			offset = view.nextBase
		case err == io.EOF:
			return ReadResult{FirstOffset: req.Offset, NextOffset: req.Offset}, nil
		case errors.Is(err, errSegmentRemoved): // the log start has moved meanwhile, and the next look-up sees it
		case errors.Is(err, vfs.ErrNotResident):
			return ReadResult{}, err
		default:
			return ReadResult{}, l.readError(view.segment, err)
		}
	}
}

// hasNothingAt tells, without the lock, that a reader has read everything: consumers that poll thousands of quiet
// partitions ask for little else.
func (l *Log) hasNothingAt(offset, upTo int64) bool {
	return offset >= upTo && offset >= l.logStart.Load() && offset <= l.endOffset.Load() &&
		l.Err() == nil && !l.retired.Load()
}

// segmentView is what a reader knows of a segment once it has let go of the lock: what was in it then.
type segmentView struct {
	segment   *segment
	size      int64
	endOffset int64
	nextBase  int64 // −1 for the active segment
	logEnd    int64

	file    vfs.File // acquired
	offsets []byte
	times   []byte
	aborted []byte
	maps    *resource[*indexMaps] // acquired, nil if the indexes are in memory
}

// viewAt finds the segment that answers for an offset.
func (l *Log) viewAt(offset int64) (segmentView, error) {
	if err := l.Err(); err != nil {
		return segmentView{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	start, end := l.logStart.Load(), l.endOffset.Load()
	if offset < start || offset > end {
		return segmentView{}, &RangeError{Partition: l.topicPartition, Offset: offset, Start: start, EndOffset: end}
	}
	if l.closed {
		return segmentView{}, fmt.Errorf("read %s, which is closed: %w", l.topicPartition, kafka.KafkaStorageError)
	}
	at := l.segmentIndex(offset)
	if at < 0 {
		return segmentView{}, ErrNotLocal
	}
	return l.viewOf(at), nil
}

// RangeError says that an offset is none of the log's.
type RangeError struct {
	Partition kafka.TopicPartition
	Offset    int64
	Start     int64 // log start offset
	EndOffset int64
}

// Error prints the offset and the log's range.
func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d of %s is not within [%d, %d]", e.Offset, e.Partition, e.Start, e.EndOffset)
}

// Unwrap gives the error the code for clients.
func (e *RangeError) Unwrap() error { return kafka.OffsetOutOfRange }

// segmentIndex is the last segment whose base is at or below an offset, −1 if there is none; it needs mu.
func (l *Log) segmentIndex(offset int64) int {
	low, high := 0, len(l.segments)
	for low < high {
		if middle := (low + high) / 2; l.segments[middle].baseOffset <= offset {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1
}

// viewOf needs mu.
func (l *Log) viewOf(at int) segmentView {
	found := l.segments[at]
	view := segmentView{
		segment:   found,
		size:      found.state.Size,
		endOffset: found.state.EndOffset,
		nextBase:  -1,
		logEnd:    l.endOffset.Load(),
	}
	if at+1 < len(l.segments) {
		view.nextBase = l.segments[at+1].baseOffset
	}
	if found.indexes != nil {
		view.offsets, view.times, view.aborted = found.indexes.offsets, found.indexes.times, found.indexes.aborted
	} else {
		view.maps = found.maps.Load()
	}
	return view
}

// acquire opens what the view needs, if it is not open yet.
func (v *segmentView) acquire() error {
	if damage := v.segment.damage.Load(); damage != nil {
		return damage
	}
	var err error
	if v.file, err = v.segment.env.files.acquire(&v.segment.data, v.segment); err != nil || v.maps == nil {
		return err
	}
	maps, err := v.segment.env.maps.acquire(v.maps, (*segmentMaps)(v.segment))
	if err != nil {
		v.maps = nil
		v.release()
		return err
	}
	v.offsets, v.times, v.aborted = maps.offsets.Bytes(), maps.times.Bytes(), maps.aborted.Bytes()
	return nil
}

// release gives back everything; releaseIndexes keeps the file.
func (v *segmentView) release() {
	v.releaseIndexes()
	v.segment.Release()
}

func (v *segmentView) releaseIndexes() {
	if v.maps != nil {
		v.segment.env.maps.release(v.maps)
		v.offsets, v.times, v.aborted = nil, nil, nil
	}
}

// read answers a request from this segment. io.EOF means that it has no batch at or after the offset.
func (v *segmentView) read(req ReadRequest, offset int64, resident bool) (ReadResult, error) {
	result, err := v.tryRead(req, offset, resident)
	if err == errIndexMismatch && v.maps != nil {
		v.distrustIndexes()
		result, err = v.tryRead(req, offset, resident)
	}
	return result, err
}

func (v *segmentView) tryRead(req ReadRequest, offset int64, resident bool) (ReadResult, error) {
	if err := v.acquire(); err != nil {
		return ReadResult{}, err
	}
	scan := v.segment.env.scan()
	scan.resident = resident
	first, err := v.seek(scan, offset)
	var result ReadResult
	if err == nil {
		result, err = v.extent(scan, first, req)
	}
	if err == nil && resident && result.Size > 0 && !result.Region.Resident() {
		err = vfs.ErrNotResident
	}
	v.segment.env.put(scan)
	v.releaseIndexes()
	if err != nil || result.Size == 0 {
		v.segment.Release()
	}
	return result, err
}

// batchPlace is a batch as a walk has seen it.
type batchPlace struct {
	position     int64
	size         int64
	baseOffset   int64
	nextOffset   int64
	maxTimestamp int64
}

func (b batchPlace) end() int64 { return b.position + b.size }

func placeOf(header record.Batch, position int64) batchPlace {
	return batchPlace{
		position:     position,
		size:         int64(header.Size()),
		baseOffset:   header.BaseOffset(),
		nextOffset:   header.NextOffset(),
		maxTimestamp: timestampOf(header),
	}
}

// seek finds the first batch that ends at or after an offset, and leaves the walk behind it.
func (v *segmentView) seek(scan *batchScan, offset int64) (batchPlace, error) {
	entry, found, err := v.lookupOffset(offset)
	if err != nil {
		return batchPlace{}, err
	}
	place, err := v.enter(scan, entry, found)
	for err == nil && place.nextOffset <= offset {
		place, err = nextPlace(scan)
	}
	return place, err
}

// enter begins a walk at an index entry and checks that the entry and the log fit each other.
func (v *segmentView) enter(scan *batchScan, entry offsetEntry, indexed bool) (batchPlace, error) {
	scan.reset(v.file, int64(entry.position), v.size)
	place, err := nextPlace(scan)
	if indexed && (isCorrupt(err) ||
		err == nil && place.nextOffset-1 != v.segment.baseOffset+int64(entry.relative)) {
		return place, errIndexMismatch
	}
	return place, err
}

// isCorrupt is a function of its own so that a read without an error allocates nothing for it.
func isCorrupt(err error) bool {
	if err == nil {
		return false
	}
	var corrupt *CorruptError
	return errors.As(err, &corrupt)
}

func nextPlace(scan *batchScan) (batchPlace, error) {
	header, position, err := scan.next()
	if err != nil {
		return batchPlace{}, err
	}
	return placeOf(header, position), nil
}

// extent finds how far an answer that begins with the first batch may go.
func (v *segmentView) extent(scan *batchScan, first batchPlace, req ReadRequest) (ReadResult, error) {
	empty := ReadResult{FirstOffset: req.Offset, NextOffset: req.Offset}
	if first.nextOffset > req.UpTo || first.size > int64(req.MaxBytes) && !req.AtLeastOne {
		return empty, nil
	}
	last, err := v.lastWithin(scan, first, first.position+int64(req.MaxBytes), req.UpTo)
	if err != nil {
		return empty, err
	}
	size := last.end() - first.position
	return ReadResult{
		Region:      vfs.NewRegion(v.file, first.position, size, v.segment),
		FirstOffset: first.baseOffset,
		NextOffset:  last.nextOffset,
		Size:        int(size),
	}, nil
}

// lastWithin is the last batch, at or after first, that ends within a position and below an offset. The walk stands
// behind first.
func (v *segmentView) lastWithin(scan *batchScan, first batchPlace, endPosition, upTo int64) (batchPlace, error) {
	if v.endOffset <= upTo && v.size <= endPosition { // all there is: the usual case at the tail
		return batchPlace{position: v.size, nextOffset: v.endOffset}, nil
	}
	if first.end() >= endPosition {
		return first, nil
	}
	last := first
	entry, found, err := v.lookupBefore(endPosition, upTo)
	if err != nil {
		return last, err
	}
	if found && int64(entry.position) >= first.end() {
		place, err := v.enter(scan, entry, true)
		if err != nil {
			return last, err
		}
		if place.end() > endPosition || place.nextOffset > upTo {
			// The entry's batch begins within the bounds and ends outside, so the one before it is the last.
			return batchPlace{position: place.position, nextOffset: place.baseOffset}, nil
		}
		last = place
	}
	for {
		place, err := nextPlace(scan)
		if err == io.EOF {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		if place.end() > endPosition || place.nextOffset > upTo {
			return last, nil
		}
		last = place
	}
}

// distrustIndexes has the indexes made anew from the log: they point to where no such batch is.
func (v *segmentView) distrustIndexes() {
	fresh := &resource[*indexMaps]{}
	if v.segment.maps.CompareAndSwap(v.maps, fresh) {
		v.segment.rebuildIndexes.Store(true)
		v.segment.env.maps.remove(v.maps)
	}
	v.maps = v.segment.maps.Load()
}

// readError judges an error of a read. Damage is remembered: the segment answers with it from now on and is not
// uploaded, while the rest of the log serves.
func (l *Log) readError(segment *segment, err error) error {
	var corrupt *CorruptError
	var fault *faultError
	switch {
	case errors.As(err, &fault):
		return l.dir.fail(err)
	case errors.As(err, &corrupt) && segment.damage.CompareAndSwap(nil, corrupt):
		l.env.logger.Error("a segment is corrupt; its records are not served",
			"partition", l.topicPartition.String(), "error", err)
	}
	return storageError(fmt.Sprintf("read %s", l.topicPartition), err)
}
