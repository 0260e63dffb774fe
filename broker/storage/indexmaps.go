package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"

	"github.com/firnlog/firn/internal/vfs"
)

// indexMaps are the index files of a sealed segment as read-only memory. They are made at the first look-up and kept
// in a bounded cache: a kernel allows 65 530 maps, and touching one page of a map makes 64 KiB resident.
type indexMaps struct{ offsets, times, aborted *vfs.Mapping }

// Close removes the maps.
func (m *indexMaps) Close() error {
	return errors.Join(m.offsets.Close(), m.times.Close(), m.aborted.Close())
}

// segmentMaps is a segment as the opener of its maps.
type segmentMaps segment

// open maps the index files, after making them anew if they do not fit the log.
func (s *segmentMaps) open() (*indexMaps, error) {
	segment := (*segment)(s)
	reason := errIndexMismatch
	if !segment.rebuildIndexes.Load() {
		maps, err := segment.mapIndexes()
		if err == nil {
			return maps, nil
		}
		reason = err
	}
	if err := segment.remakeIndexes(reason); err != nil {
		return nil, err
	}
	segment.rebuildIndexes.Store(false)
	return segment.mapIndexes()
}

func (s *segment) mapIndexes() (*indexMaps, error) {
	offsets, err := s.mapIndex(offsetIndexSuffix, int(s.offsetEntries.Load())*offsetEntrySize)
	if err != nil {
		return nil, err
	}
	times, err := s.mapIndex(timeIndexSuffix, int(s.timeEntries.Load())*timeEntrySize)
	if err != nil {
		return nil, errors.Join(err, offsets.Close())
	}
	maps := &indexMaps{offsets: offsets, times: times, aborted: &vfs.Mapping{}}
	if entries := s.abortedEntries.Load(); entries > 0 {
		if maps.aborted, err = s.mapIndex(txnIndexSuffix, int(entries)*txnEntrySize); err != nil {
			return nil, errors.Join(err, offsets.Close(), times.Close())
		}
	}
	if err := s.checkMaps(maps); err != nil {
		return nil, errors.Join(err, maps.Close())
	}
	return maps, nil
}

// mapIndex maps an index file, which must have exactly the size the log remembers: a zeroed or preallocated tail, or a
// short file, is none of ours.
func (s *segment) mapIndex(suffix string, size int) (*vfs.Mapping, error) {
	name := s.path(suffix)
	file, err := s.env.fs.Open(name)
	if size == 0 && errors.Is(err, fs.ErrNotExist) {
		return &vfs.Mapping{}, nil // an active segment without entries has had none to write
	}
	if err != nil {
		return nil, err
	}
	var mapping *vfs.Mapping
	length, err := file.Size()
	switch {
	case err != nil:
	case length != int64(size):
		err = fmt.Errorf("%s has %d bytes instead of %d", name, length, size)
	default:
		mapping, err = vfs.Map(file, length)
	}
	if closeErr := file.Close(); err == nil && closeErr != nil {
		return nil, errors.Join(closeErr, mapping.Close())
	}
	return mapping, err
}

func (s *segment) checkMaps(maps *indexMaps) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	relativeEnd := s.state.EndOffset - s.baseOffset
	if err := checkOffsetIndex(maps.offsets.Bytes(), relativeEnd, s.state.Size); err != nil {
		return fmt.Errorf("%s: %w", s.path(offsetIndexSuffix), err)
	}
	times := maps.times.Bytes()
	if err := checkTimeIndex(times, relativeEnd); err != nil {
		return fmt.Errorf("%s: %w", s.path(timeIndexSuffix), err)
	}
	if n := len(times) / timeEntrySize; n > 0 && timeEntryAt(times, n-1).timestamp != s.state.MaxTimestamp {
		return fmt.Errorf("%s: its last timestamp is not the segment's largest", s.path(timeIndexSuffix))
	}
	if err := checkTransactionIndex(maps.aborted.Bytes(), s.baseOffset, s.state.EndOffset); err != nil {
		return fmt.Errorf("%s: %w", s.path(txnIndexSuffix), err)
	}
	return nil
}

// remakeIndexes reads the segment's batches and writes the index files anew.
func (s *segment) remakeIndexes(reason error) error {
	file, err := s.env.files.acquire(&s.data, s)
	if err != nil {
		return err
	}
	defer s.Release()
	rebuilt, err := s.scanAll(file)
	if err != nil {
		return err
	}
	if err := s.findAborted(rebuilt); err != nil {
		return err
	}
	rebuilt.seal(s.state.NextBaseOffset)
	if err := vfs.WriteFileAtomic(s.env.fs, s.path(offsetIndexSuffix), rebuilt.indexes.offsets); err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(s.env.fs, s.path(timeIndexSuffix), rebuilt.indexes.times); err != nil {
		return err
	}
	if aborted := rebuilt.indexes.aborted; len(aborted) > 0 {
		if err := vfs.WriteFileAtomic(s.env.fs, s.path(txnIndexSuffix), aborted); err != nil {
			return err
		}
	}
	s.offsetEntries.Store(rebuilt.offsetEntries.Load())
	s.timeEntries.Store(rebuilt.timeEntries.Load())
	s.abortedEntries.Store(rebuilt.abortedEntries.Load())
	s.env.indexRebuilt(s, reason)
	return nil
}

// findAborted fills in the transaction index of the segment that takes this one's place. Of most segments the log knows
// that there is nothing to be found.
func (s *segment) findAborted(rebuilt *segment) error {
	if s.abortedEntries.Load() == 0 {
		return nil
	}
	state, err := s.producersAt(s.baseOffset)
	if err != nil {
		return err
	}
	return s.reach().replayProducers(state, s.state.EndOffset, 0, rebuilt.noteAborted)
}

// scanAll walks a sealed segment from its begin to its end, which must be where the log remembers it.
func (s *segment) scanAll(file vfs.File) (*segment, error) {
	rebuilt := s.afresh()
	scan := s.env.bigScan()
	defer s.env.put(scan)
	scan.reset(file, 0, s.state.Size)
	for {
		header, position, err := scan.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		note := newNote(header)
		if err := scan.verify(header, position); err != nil {
			return nil, err
		}
		rebuilt.note(note)
	}
	if rebuilt.state.EndOffset != s.state.EndOffset {
		return nil, &CorruptError{File: s.path(logSuffix), Position: s.state.Size, Err: fmt.Errorf(
			"its batches end at offset %d instead of %d", rebuilt.state.EndOffset, s.state.EndOffset)}
	}
	return rebuilt, nil
}

// faultError is a memory fault in a map: the disk failed, or somebody cut the file.
type faultError struct{ cause any }

// Error prints the fault.
func (e *faultError) Error() string { return fmt.Sprintf("reading a mapped index failed: %v", e.cause) }

// recoverFault turns a memory fault into an error; any other panic goes on. It is deferred after SetPanicOnFault.
func recoverFault(err *error) {
	cause := recover()
	if cause == nil {
		return
	}
	if _, isFault := cause.(interface{ Addr() uintptr }); !isFault {
		panic(cause)
	}
	*err = &faultError{cause: cause}
}

// The look-ups of a view run under SetPanicOnFault, because their bytes may be a map.

func (v *segmentView) lookupOffset(offset int64) (entry offsetEntry, found bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	entry, found = findOffset(v.offsets, offset-v.segment.baseOffset)
	return entry, found, nil
}

// lookupBefore finds the last batch of the index that begins below a position and ends at or below an offset.
func (v *segmentView) lookupBefore(position, offset int64) (entry offsetEntry, found bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	entry, found = findOffset(v.offsets, offset-1-v.segment.baseOffset)
	if !found {
		return entry, false, nil
	}
	byPosition, found := findPosition(v.offsets, position)
	if byPosition.position < entry.position {
		entry = byPosition
	}
	return entry, found, nil
}
