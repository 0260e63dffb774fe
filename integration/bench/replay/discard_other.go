//go:build !linux

package replay

import (
	"io"
	"net"
)

// discard takes bytes off a connection without looking at them.
func discard(conn *net.TCPConn, size int, scratch []byte) error {
	for size > 0 {
		n, err := io.ReadFull(conn, scratch[:min(size, len(scratch))])
		if err != nil {
			return err
		}
		size -= n
	}
	return nil
}
