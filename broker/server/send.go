package server

import (
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/vfs"
)

const (
	// smallRegion is the largest region that is read and sent together with what surrounds it: one system call more for
	// the read, two fewer for the sending.
	smallRegion = 16 << 10
	// maxCopied bounds the memory of such regions for each connection. It does not count against the limits.
	maxCopied = 64 << 10
	// copyBuffer is how much is read at once of a region that cannot be sent without reading it.
	copyBuffer = 256 << 10
)

// contendedStall is how long a client may take nothing of an answer in memory while others wait for memory.
const contendedStall = 2 * time.Second

// errNotTaken says that a client does not take what it is owed.
var errNotTaken = errors.New("the client did not take its answer in time")

// sender puts responses on a connection: bytes with as few writes as possible, regions of files with sendfile where
// the connection is plain TCP. It is used by one goroutine at a time.
type sender struct {
	conn    net.Conn
	raw     syscall.RawConn // nil where sendfile is impossible
	pool    *wire.Pool
	metrics *listenerMetrics
	stall   time.Duration // how long the client may take nothing of what is being sent
	look    time.Duration // how often to look whether it does
	// contended tells whether others wait for memory that answers hold.
	contended func() bool

	vectors [][]byte    // bytes to be written next
	buffers net.Buffers // what of them is not yet written
	copies  []*wire.Buffer
	copied  int64 // bytes of copies
	file    fileSender

	deadline time.Time // as set on the connection; the zero time means none
	progress time.Time // when the client took something last
	opened   time.Time
	sentAt   atomic.Int64 // when an answer was sent last, in nanoseconds since opened; read by the reader
	sentAny  bool
}

func (s *sender) init(conn net.Conn, pool *wire.Pool, m *listenerMetrics, contended func() bool) {
	s.conn, s.pool, s.metrics, s.contended, s.opened = conn, pool, m, contended, time.Now()
	if tcp, ok := conn.(*net.TCPConn); ok && sendfileSupported {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
}

// lastSent is when the last answer was sent, or when the connection was opened.
func (s *sender) lastSent() time.Time { return s.opened.Add(time.Duration(s.sentAt.Load())) }

// add puts a response behind what was added before. It may send some of it. The response must not be released before
// flush has returned.
func (s *sender) add(response *wire.Response) error {
	if response.Size() > math.MaxInt32 {
		return fmt.Errorf("an answer of %d bytes does not fit the protocol", response.Size())
	}
	chunks := response.Chunks()
	for i := range chunks {
		if len(chunks[i].Bytes) > 0 {
			s.vectors = append(s.vectors, chunks[i].Bytes)
			continue
		}
		if err := s.addRegion(chunks[i].Region); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) addRegion(region vfs.Region) error {
	if region.Size() <= smallRegion {
		if s.copied >= maxCopied {
			if err := s.flush(); err != nil {
				return err
			}
			s.reset()
		}
		buffer := s.pool.Get(int(region.Size()))
		s.copies = append(s.copies, buffer)
		s.copied += region.Size()
		if _, err := region.ReadAt(buffer.Bytes(), 0); err != nil {
			return fmt.Errorf("read %d bytes to send: %w", region.Size(), err)
		}
		s.vectors = append(s.vectors, buffer.Bytes())
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	if file := region.File().OSFile(); s.raw != nil && file != nil {
		s.begin()
		sent, err := s.sendFile(file, region.Position(), region.Size())
		s.account(sent)
		s.metrics.bytesSendfile.Add(float64(sent))
		if !errors.Is(err, errSendfileUnsupported) {
			return err
		}
		region = region.Slice(sent, region.Size()-sent)
	}
	return s.copyRegion(region)
}

// copyRegion sends a region through memory, a piece at a time.
func (s *sender) copyRegion(region vfs.Region) error {
	buffer := s.pool.Get(int(min(region.Size(), copyBuffer)))
	defer buffer.Release()
	for position := int64(0); position < region.Size(); {
		piece := buffer.Bytes()[:min(region.Size()-position, copyBuffer)]
		if _, err := region.ReadAt(piece, position); err != nil {
			return fmt.Errorf("read %d bytes to send: %w", len(piece), err)
		}
		s.vectors = append(s.vectors, piece)
		if err := s.flush(); err != nil {
			return err
		}
		position += int64(len(piece))
	}
	return nil
}

// flush writes what was added and not yet sent.
func (s *sender) flush() error {
	if len(s.vectors) == 0 {
		return nil
	}
	s.begin()
	s.buffers = s.vectors
	for {
		n, err := s.buffers.WriteTo(s.conn)
		s.account(n)
		if err == nil {
			break
		}
		if err := s.retry(err, n); err != nil {
			return err
		}
	}
	clear(s.vectors)
	s.vectors = s.vectors[:0]
	return nil
}

// reset forgets what was added, after a flush or a failure.
func (s *sender) reset() {
	clear(s.vectors)
	s.vectors, s.buffers = s.vectors[:0], nil
	for i, buffer := range s.copies {
		buffer.Release()
		s.copies[i] = nil
	}
	s.copies, s.copied = s.copies[:0], 0
}

// begin starts the clock for the client to take something.
func (s *sender) begin() {
	s.progress = time.Now()
	if due := s.progress.Add(s.look); s.deadline.IsZero() || s.deadline.After(due) {
		s.deadline = due
		_ = s.conn.SetWriteDeadline(due) // fails only on a closed connection; so will the write
	}
}

// retry decides whether to go on after a failed write of which n bytes went out. A deadline that has passed proves
// nothing by itself: it is not set anew for each write, as that would cost more than the write. It is set anew here.
func (s *sender) retry(err error, n int64) error {
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		return err
	}
	now := time.Now()
	if n > 0 {
		s.progress = now
	}
	idle := now.Sub(s.progress)
	if idle >= s.stall || idle >= contendedStall && s.look < s.stall && s.contended() {
		return errNotTaken
	}
	s.deadline = now.Add(min(s.look, s.stall-idle))
	return s.conn.SetWriteDeadline(s.deadline)
}

func (s *sender) account(n int64) {
	if n > 0 {
		s.metrics.sent.Add(float64(n))
		s.sentAt.Store(int64(time.Since(s.opened)))
		s.sentAny = true
	}
}
