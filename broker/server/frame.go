package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/firnlog/firn/broker/wire"
)

const (
	// uncountedFrame is the largest frame that is not counted against the memory limits: such frames are bounded by the
	// number of connections.
	uncountedFrame = 4 << 10
	// directFrame is the largest frame whose memory is taken on the client's word.
	directFrame = 64 << 10
	// firstStep is how much of a larger frame must have come before more is taken.
	firstStep = 4 << 10
	// growth is how many times more memory is taken than has been filled.
	growth = 32
	// minBytesPerSecond is how fast a frame must come on the whole, beyond FrameTimeout, so that it cannot be drawn out
	// for ever a byte at a time.
	minBytesPerSecond = 4 << 10
)

var (
	errIdle         = errors.New("idle for too long")
	errFrameTimeout = errors.New("the rest of a request did not come in time")
)

// frameSizeError says that a length prefix is out of bounds.
type frameSizeError struct {
	size  int32
	limit int32
}

func (e *frameSizeError) Error() string {
	text := fmt.Sprintf("a request of %d bytes; %d to %d are accepted", e.size, wire.MinRequestSize, e.limit)
	switch uint32(e.size) >> 8 {
	case 'G'<<16 | 'E'<<8 | 'T', 'P'<<16 | 'O'<<8 | 'S', 'H'<<16 | 'E'<<8 | 'A', 'P'<<16 | 'U'<<8 | 'T':
		return text + " (is this an HTTP client?)"
	case 0x160301, 0x160303:
		return text + " (is this a TLS client? the listener is plaintext)"
	}
	return text
}

// frame is one request's bytes, without the length prefix.
type frame struct {
	*wire.Buffer
	size    int           // of the frame; the buffer may have more
	counted int64         // bytes taken from Server.requests
	waited  time.Duration // how long that took
}

// Bytes are those of the frame.
func (f frame) Bytes() []byte { return f.Buffer.Bytes()[:f.size] }

// frameReader reads frames from a connection. What it reserves is bound to what the client has really sent.
type frameReader struct {
	connection *connection
	prefix     [lengthPrefixSize + wire.PrefixSize]byte
	carried    int       // bytes of the next frame's prefix that came with the last frame
	lastRead   time.Time // when bytes came last
	deadline   time.Time // as set on the connection; the zero time means none
	frameBegan time.Time // zero between two frames
	frameSize  int32
	holding    bool // the frame's memory has been taken
	ready      readyReader
}

// next reads one frame. Length, API key and version are checked before any memory is taken for the rest.
func (r *frameReader) next() (frame, error) {
	n, err := r.begin()
	if err != nil {
		return frame{}, err
	}
	limit := r.connection.server.config.MaxRequestBytes
	r.frameSize = int32(binary.BigEndian.Uint32(r.prefix[:]))
	if r.frameSize < wire.MinRequestSize || r.frameSize > limit {
		return frame{}, &frameSizeError{r.frameSize, limit}
	}
	if n < len(r.prefix) {
		if _, err := r.fill(r.prefix[n:], len(r.prefix)-n); err != nil {
			return frame{}, err
		}
	}
	if err := wire.CheckPrefix(r.prefix[lengthPrefixSize:], r.frameSize); err != nil {
		return frame{}, err
	}
	return r.body(int(r.frameSize))
}

// begin reads at least the length of the next frame into prefix.
func (r *frameReader) begin() (filled int, err error) {
	r.frameBegan, r.frameSize = time.Time{}, 0
	if r.carried > 0 {
		if err := r.connection.awaitUnmuted(); err != nil {
			return 0, err
		}
		r.lastRead = time.Now() // the client is not to blame for the time in which the last frame was handled
		r.frameBegan = r.lastRead
		filled, r.carried = r.carried, 0
	}
	if filled < lengthPrefixSize {
		n, err := r.fill(r.prefix[filled:], lengthPrefixSize-filled)
		return filled + n, err
	}
	return filled, nil
}

// nextIsSmall tells whether a frame follows whose size is known already and whose memory is taken on the client's word.
func (r *frameReader) nextIsSmall() bool {
	return r.carried == len(r.prefix) && binary.BigEndian.Uint32(r.prefix[:]) <= directFrame
}

// body reads a frame whose prefix has been read and accepted.
func (r *frameReader) body(size int) (frame, error) {
	f := frame{size: size}
	step := size
	if size > directFrame {
		step = firstStep
	} else if err := r.count(&f, size); err != nil {
		return frame{}, err
	}
	f.Buffer = r.buffer(step, size)
	filled := copy(f.Buffer.Bytes(), r.prefix[lengthPrefixSize:])
	for {
		n, err := r.fill(f.Buffer.Bytes()[filled:], step-filled)
		if err != nil {
			r.release(f)
			return frame{}, err
		}
		if filled += n; step == size {
			r.carried = copy(r.prefix[:], f.Buffer.Bytes()[size:filled])
			return f, nil
		}
		if err := r.count(&f, size); err != nil {
			r.release(f)
			return frame{}, err
		}
		step = min(size, filled*growth)
		larger := r.buffer(step, size)
		copy(larger.Bytes(), f.Buffer.Bytes())
		f.Release()
		f.Buffer = larger
	}
}

// buffer takes memory for the first step bytes of a frame. If that is all of it, there is room for the prefix of the
// next frame as well, which saves a system call where a client does not wait for an answer before it sends more.
func (r *frameReader) buffer(step, size int) *wire.Buffer {
	if step == size {
		step += len(r.prefix)
	}
	return r.connection.server.pool.Get(step)
}

// count takes the frame's memory from what all connections may have in flight, once, and waits for it if need be. The
// whole size is taken at once: two half-read frames can then never wait for each other.
func (r *frameReader) count(f *frame, size int) error {
	if f.counted > 0 || size <= uncountedFrame {
		return nil
	}
	requests := r.connection.server.requests
	if requests.tryTake(int64(size)) {
		f.counted, r.holding = int64(size), true
		return nil
	}
	if err := r.connection.sendUnsent(); err != nil {
		return err
	}
	began := r.connection.clock()
	if err := requests.take(r.connection.info.Context, int64(size), nil); err != nil {
		return err
	}
	f.counted, f.waited = int64(size), r.connection.clock()-began
	r.holding = true
	// The client is not to blame for this time.
	r.frameBegan, r.lastRead = r.frameBegan.Add(f.waited), r.lastRead.Add(f.waited)
	return nil
}

// release gives a frame's memory back.
func (r *frameReader) release(f frame) {
	f.Release()
	r.holding = false
	if f.counted > 0 {
		r.connection.server.requests.adjust(-f.counted)
	}
}

// fill reads at least atLeast bytes into p. io.EOF is the end between two frames.
func (r *frameReader) fill(p []byte, atLeast int) (int, error) {
	filled := 0
	for filled < atLeast {
		if r.frameBegan.IsZero() {
			if err := r.connection.awaitUnmuted(); err != nil {
				return filled, err
			}
		}
		if err := r.arm(); err != nil {
			return filled, err
		}
		n, err := r.read(p[filled:])
		if n > 0 {
			r.lastRead = time.Now()
			if r.frameBegan.IsZero() {
				r.frameBegan = r.lastRead
			}
			filled += n
			continue
		}
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			r.deadline = time.Time{} // it has passed; arm decides what that means
		case err == io.EOF && !r.frameBegan.IsZero():
			return filled, io.ErrUnexpectedEOF
		case err != nil:
			return filled, err
		}
	}
	return filled, nil
}

// read reads what there is. It waits if there is nothing, but not while the client is owed an answer that is there.
func (r *frameReader) read(p []byte) (int, error) {
	c := r.connection
	if len(c.unsent) > 0 {
		if n := r.ready.read(c.sender.raw, p); n > 0 {
			return n, nil
		}
		if err := c.sendUnsent(); err != nil {
			return 0, err
		}
	}
	return c.conn.Read(p)
}

// arm sees that the connection has a read deadline that is not too late, and decides what it means that the last one
// has passed. A deadline that is early is left as it is: setting one for each read would cost more than the read.
func (r *frameReader) arm() error {
	select {
	case <-r.connection.server.draining:
		return errDraining
	default:
	}
	now := time.Now()
	due, reason := r.due(now)
	if !due.After(now) {
		return reason
	}
	if !r.deadline.IsZero() && !r.deadline.After(due) {
		return nil
	}
	r.deadline = due
	if err := r.connection.conn.SetReadDeadline(due); err != nil {
		return err
	}
	// A stop may have begun since, and its deadline been overwritten.
	select {
	case <-r.connection.server.draining:
		return errDraining
	default:
		return nil
	}
}

// due is when waiting for the client must end if nothing comes, and why.
func (r *frameReader) due(now time.Time) (time.Time, error) {
	config := r.connection.server.config
	if r.frameBegan.IsZero() {
		active := r.lastRead
		if sent := r.connection.sender.lastSent(); sent.After(active) {
			active = sent
		}
		if unmuted := r.connection.unmutedAt(); unmuted.After(active) {
			active = unmuted
		}
		if r.connection.owed.Load() > 0 {
			active = now // the client waits for us
		}
		return active.Add(config.IdleTimeout), errIdle
	}
	paused := r.lastRead.Add(config.FrameTimeout)
	whole := r.frameBegan.Add(config.FrameTimeout)
	if !r.holding || !r.connection.server.requests.contended() { // nobody waits for what the frame holds
		whole = whole.Add(time.Duration(r.frameSize) * time.Second / minBytesPerSecond)
	}
	if whole.Before(paused) {
		paused = whole
	}
	return paused, errFrameTimeout
}
