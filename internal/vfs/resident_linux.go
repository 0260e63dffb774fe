package vfs

import (
	"errors"
	"io"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReadResident implements residency by preadv2 with RWF_NOWAIT. File systems that cannot are read as usual.
func (f osFile) ReadResident(p []byte, off int64) (int, error) {
	read := 0
	for read < len(p) {
		n, err := f.readNow(p[read:], off+int64(read))
		switch {
		case err == nil && n == 0:
			return read, io.EOF
		case err == nil:
			read += n
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return read, ErrNotResident
		default:
			n, err := f.ReadAt(p[read:], off+int64(read))
			return read + n, err
		}
	}
	return read, nil
}

// Resident implements residency. What cannot be found out, as on a file system without RWF_NOWAIT, counts as resident.
func (f osFile) Resident(position, size int64) bool {
	last := position + size - 1
	for at := position; ; at = min(at+residentStep, last) {
		if !f.residentAt(at) {
			return false
		}
		if at == last {
			return true
		}
	}
}

func (f osFile) residentAt(position int64) bool {
	var one [1]byte
	for {
		_, err := f.readNow(one[:], position)
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.EAGAIN)
		}
	}
}

// readNow is preadv2 with RWF_NOWAIT and one buffer, which must not be empty. It is called by hand because the wrapper
// of package unix makes garbage, and this is done for every fetch.
func (f osFile) readNow(p []byte, off int64) (int, error) {
	vector := unix.Iovec{Base: &p[0]}
	vector.SetLen(len(p))
	n, _, errno := syscall.Syscall6(unix.SYS_PREADV2, f.Fd(),
		uintptr(unsafe.Pointer(&vector)), 1, //nolint:gosec // see above
		uintptr(off), uintptr(uint64(off)>>32), unix.RWF_NOWAIT)
	runtime.KeepAlive(f.File)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
