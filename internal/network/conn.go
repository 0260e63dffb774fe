package network

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// conn is one end of a pipe.
type conn struct {
	pipe          *pipe
	side          int
	local, remote endpoint
}

// Read implements net.Conn.
func (c *conn) Read(into []byte) (int, error) {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	me, stream := &c.pipe.sides[c.side], &c.pipe.streams[c.side]
	for {
		switch {
		case me.closed:
			return 0, c.failed("read", net.ErrClosed)
		case me.readDeadline.passed():
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		case len(into) == 0:
			return 0, nil
		case stream.arrived > 0:
			return stream.take(into), nil
		case me.wasReset:
			return 0, c.failed("read", os.NewSyscallError("read", syscall.ECONNRESET))
		case stream.ended:
			return 0, io.EOF
		}
		stream.changed.Wait()
	}
}

// Write implements net.Conn. It returns once everything is on its way, which does not mean that it arrives.
func (c *conn) Write(data []byte) (int, error) {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	me, stream := &c.pipe.sides[c.side], &c.pipe.streams[1-c.side]
	written := 0
	for {
		switch {
		case me.closed:
			return written, c.failed("write", net.ErrClosed)
		case me.writeDeadline.passed():
			return written, c.failed("write", os.ErrDeadlineExceeded)
		case me.wasReset:
			return written, c.failed("write", os.NewSyscallError("write", syscall.ECONNRESET))
		case me.finished || me.peerGone:
			return written, c.failed("write", os.NewSyscallError("write", syscall.EPIPE))
		case written == len(data):
			return written, nil
		}
		if n := min(stream.space(), len(data)-written); n > 0 {
			c.pipe.send(1-c.side, data[written:written+n], endNone)
			written += n
			continue
		}
		stream.changed.Wait()
	}
}

// CloseWrite tells the other end that nothing more will come; reading goes on.
func (c *conn) CloseWrite() error {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	me := &c.pipe.sides[c.side]
	if me.closed {
		return c.failed("close", net.ErrClosed)
	}
	if !me.finished {
		me.finished = true
		c.pipe.send(1-c.side, nil, endFinished)
		c.pipe.wake()
	}
	return nil
}

// Close implements net.Conn. What was written before still arrives.
func (c *conn) Close() error {
	last, err := c.close()
	if last {
		c.pipe.memory.forget(c.pipe)
	}
	return err
}

// close tells whether both ends are closed now.
func (c *conn) close() (last bool, err error) {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	me := &c.pipe.sides[c.side]
	if me.closed {
		return false, c.failed("close", net.ErrClosed)
	}
	me.closed = true
	me.readDeadline.stop()
	me.writeDeadline.stop()
	c.pipe.send(1-c.side, nil, endClosed)
	c.pipe.wake()
	return c.pipe.sides[1-c.side].closed, nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, readSide, writeSide) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, readSide) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, writeSide) }

func readSide(s *side) *deadline { return &s.readDeadline }

func writeSide(s *side) *deadline { return &s.writeDeadline }

func (c *conn) setDeadlines(t time.Time, which ...func(*side) *deadline) error {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	me := &c.pipe.sides[c.side]
	if me.closed {
		return c.failed("set", net.ErrClosed)
	}
	for _, choose := range which {
		choose(me).set(t, c.wake)
	}
	c.pipe.wake()
	return nil
}

func (c *conn) wake() {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	c.pipe.wake()
}

func (c *conn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "memory", Source: c.local, Addr: c.remote, Err: err}
}
