package vfs

import "golang.org/x/sys/unix"

// ReadAhead has the kernel begin to read a range of a file that will be read soon. It is advice: it does not wait, and
// that it fails shows when the range is read.
func ReadAhead(file File, position, length int64) {
	if osFile := file.OSFile(); osFile != nil && length > 0 {
		_ = control(osFile, func(fd int) error { return unix.Fadvise(fd, position, length, unix.FADV_WILLNEED) })
	}
}

// WriteBehind has the kernel begin to write a range of a file to disk, so that a later sync has less left to do. It is
// advice: that it fails shows in the sync, which alone makes anything durable.
func WriteBehind(file File, position, length int64) {
	if osFile := file.OSFile(); osFile != nil && length > 0 {
		_ = control(osFile, func(fd int) error {
			return unix.SyncFileRange(fd, position, length, unix.SYNC_FILE_RANGE_WRITE)
		})
	}
}
