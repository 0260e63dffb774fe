//go:build linux

package replay

import (
	"net"
	"syscall"
)

// discard takes bytes off a connection without looking at them; Linux drops them in the kernel when it is told
// MSG_TRUNC, so that they need not be copied.
func discard(conn *net.TCPConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	for size > 0 {
		var n int
		var failure error
		err := raw.Read(func(fd uintptr) bool {
			n, failure = truncate(int(fd), size)
			for failure == syscall.EINTR {
				n, failure = truncate(int(fd), size)
			}
			return failure != syscall.EAGAIN
		})
		if err == nil {
			err = failure
		}
		if err == nil && n == 0 {
			err = net.ErrClosed
		}
		if err != nil {
			return err
		}
		size -= n
	}
	return nil
}

// truncate drops what has arrived, up to a size. 0 bytes are the end of the connection.
func truncate(fd, size int) (int, error) {
	n, _, errno := syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(fd), 0, uintptr(size), syscall.MSG_TRUNC, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
