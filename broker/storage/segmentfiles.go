package storage

import (
	"errors"
	"io/fs"

	"github.com/firnlog/firn/internal/vfs"
)

// openForWriting opens a segment's file, if it is not open, and keeps it open until all of it is flushed: a failed
// write-back is reported to those only who have the file open. It needs mu if the log is in service.
func (l *Log) openForWriting(s *segment) (vfs.File, error) {
	if s.file != nil {
		return s.file, nil
	}
	s.writable.Store(true) // before anybody has opened it: a segment does not become active later
	file, err := l.env.files.acquire(&s.data, s)
	if err == nil {
		s.file = file
	}
	return file, err
}

// rest lets go of the active segment's file if nothing in it is unflushed. The cache keeps it open as long as there is
// room, so that ten thousand quiet partitions do not need as many descriptors. It needs mu if the log is in service.
func (l *Log) rest() {
	active := l.active()
	if active.file != nil && l.flushedOffset.Load() >= l.endOffset.Load() {
		active.file = nil
		l.env.files.release(&active.data)
	}
}

// dropSegment closes a segment that is no longer part of the log, as soon as its last reader is done. It needs mu if
// the log is in service.
func (l *Log) dropSegment(s *segment) {
	l.env.files.remove(&s.data)
	l.env.maps.remove(s.maps.Load())
	if s.file != nil {
		s.file = nil
		l.env.files.release(&s.data)
	}
}

// removeFiles unlinks a segment that has been given up. What cannot be unlinked now will be at the next start: the
// border that says so is already published.
func (l *Log) removeFiles(baseOffset int64) {
	for _, suffix := range segmentSuffixes {
		name := segmentPath(l.folder.path(), baseOffset, suffix)
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.env.logger.Error("a segment's file could not be removed", "file", name, "error", err)
		}
	}
}
