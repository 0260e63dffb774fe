package storage

import (
	"errors"
	"io/fs"

	"github.com/firnlog/firn/internal/vfs"
)

// openForWriting opens a segment's file and keeps it open until the segment is sealed and flushed.
func (l *Log) openForWriting(s *segment) (vfs.File, error) {
	file, err := l.env.fs.OpenReadWrite(s.path(logSuffix))
	if err != nil {
		return nil, err
	}
	return file, l.hold(s, file)
}

// hold makes an open file the segment's. The log has one reference on it.
func (l *Log) hold(s *segment, file vfs.File) error {
	if _, err := l.env.files.install(&s.data, file); err != nil {
		return err
	}
	s.file = file
	return nil
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
	for _, suffix := range []string{
		logSuffix, offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix,
	} {
		name := segmentPath(l.folder.path(), baseOffset, suffix)
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.env.logger.Error("a segment's file could not be removed", "file", name, "error", err)
		}
	}
}
