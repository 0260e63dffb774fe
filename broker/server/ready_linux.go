package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// readyReader reads from a socket without waiting. It is kept in the frameReader so that the function handed to
// RawConn.Read is made once per connection.
type readyReader struct {
	p    []byte
	n    int
	step func(socket uintptr) (done bool)
}

// read reads what lies in the socket. It returns 0 if nothing does, and at the end or after a failure, which whoever
// then waits for bytes finds as well.
func (r *readyReader) read(raw syscall.RawConn, p []byte) int {
	if r.step == nil {
		r.step = r.once
	}
	r.p, r.n = p, 0
	err := raw.Read(r.step)
	r.p = nil
	if err != nil {
		return 0
	}
	return r.n
}

func (r *readyReader) once(socket uintptr) (done bool) {
	for {
		n, err := unix.Read(int(socket), r.p)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		r.n = max(n, 0)
		return true
	}
}
