package server

import (
	"errors"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const sendfileSupported = true

// errSendfileUnsupported says that this file cannot be sent without reading it.
var errSendfileUnsupported = errors.New("the file system cannot sendfile")

// maxSendfile bounds one system call, so that a stop or a deadline is noticed in between.
const maxSendfile = 4 << 20

// fileSender is the state of one sendfile, kept in the sender so that the function handed to RawConn.Write is made once
// per connection.
type fileSender struct {
	file      int
	offset    int64
	remaining int64
	err       error
	step      func(socket uintptr) (done bool)
}

// sendFile sends size bytes of file from position on, always at an explicit offset: the file's own position is shared
// by all readers of a segment and never used. It returns how many bytes went out, also with an error.
func (s *sender) sendFile(file *os.File, position, size int64) (int64, error) {
	f := &s.file
	if f.step == nil {
		f.step = f.send
	}
	f.file, f.offset, f.remaining, f.err = int(file.Fd()), position, size, nil
	for {
		before := f.remaining
		err := s.raw.Write(f.step)
		if err == nil {
			err = f.err
		}
		if f.remaining == 0 || err == nil {
			break
		}
		if f.err = s.retry(err, before-f.remaining); f.err != nil {
			break
		}
	}
	runtime.KeepAlive(file)
	return size - f.remaining, f.err
}

// send runs with the socket's descriptor until all is sent or the socket is full (false: call again when it is not).
func (f *fileSender) send(socket uintptr) (done bool) {
	for f.remaining > 0 {
		n, err := unix.Sendfile(int(socket), f.file, &f.offset, int(min(f.remaining, maxSendfile)))
		f.remaining -= int64(max(n, 0))
		switch {
		case err == nil && n == 0:
			f.err = io.ErrUnexpectedEOF // the file is shorter than the region claims
			return true
		case err == nil || errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS):
			f.err = errSendfileUnsupported
			return true
		default:
			f.err = os.NewSyscallError("sendfile", err)
			return true
		}
	}
	return true
}
