package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/firnlog/firn/broker/wire"
)

// connection serves one client. Its reader takes frames and runs handlers; answers that are ready while none is owed
// are sent by the reader itself, two at a time where the client sends on without waiting, all others go through a
// bounded queue to a writer, which is started with the first of them. Reader and writer never send at the same time:
// the reader only does while owed is zero, and only the reader makes it grow.
type connection struct {
	server *Server
	conn   net.Conn
	// address is what the connection is counted under.
	address string
	info    *wire.Conn
	cancel  context.CancelFunc
	frames  frameReader
	sender  sender

	metrics  *listenerMetrics
	clientID string // of the last request
	queue    chan pendingReply
	owed     atomic.Int64   // replies in the queue or being sent by the writer
	unsent   []pendingReply // ready answers that the reader has not sent yet, see mayWait; empty while any are owed
	writer   chan struct{}  // closed when the writer has ended; nil before it was started
	holds    chan struct{}  // tells the writer, while it waits for memory, that the connection holds some; as writer
	// answers counts bytes of answers that wait in the queue, held those of all that are not yet sent.
	answers *semaphore.Weighted
	held    atomic.Int64
	// mutedUntil is when requests are read again, in nanoseconds since the connection was opened.
	mutedUntil atomic.Int64
}

// pendingReply is a reply on its way to the client.
type pendingReply struct {
	wire.Reply
	api    *apiMetrics
	times  times
	bytes  int64 // charged to Server.answers and counted in connection.held
	queued int64 // counted in connection.answers
}

// times are when a request reached its stages, since its connection was opened.
type times struct {
	waited   time.Duration // how long it waited for memory before it was read, or handled
	received time.Duration // it had been read
	started  time.Duration // its handler was called
	handled  time.Duration // its handler returned
	ready    time.Duration // its answer was there
}

func newConnection(ctx context.Context, s *Server, listenerName string, conn net.Conn) *connection {
	c := &connection{server: s, conn: conn}
	ctx, c.cancel = context.WithCancel(ctx)
	c.info = &wire.Conn{
		ID:       s.lastID.Add(1),
		Listener: listenerName,
		Local:    conn.LocalAddr(),
		Remote:   conn.RemoteAddr(),
		Context:  ctx,
		Draining: s.draining,
	}
	c.queue = make(chan pendingReply, s.config.MaxInFlightReplies-1) // the writer holds one more
	c.answers = semaphore.NewWeighted(s.config.MaxInFlightBytesPerConnection)
	c.metrics = s.metrics.listener(listenerName)
	c.frames = frameReader{connection: c, lastRead: time.Now()}
	c.sender.init(conn, s.pool, c.metrics, s.answers.contended)
	c.tune()
	return c
}

// tune sets the socket's options. That one of them fails is no reason to refuse a client.
func (c *connection) tune() {
	tcp, ok := c.conn.(*net.TCPConn)
	if !ok {
		return
	}
	// Clients that vanish without a word are found after about two minutes.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4})
	if size := c.server.config.SendBuffer; size > 0 {
		_ = tcp.SetWriteBuffer(size)
	}
	if size := c.server.config.ReceiveBuffer; size > 0 {
		_ = tcp.SetReadBuffer(size)
	}
}

// serve runs the connection until it closes. Nothing of it is left when serve returns.
func (c *connection) serve() {
	// Whatever ends the connection from outside must also end reads and writes that are under way.
	stopWatching := context.AfterFunc(c.info.Context, func() { _ = c.conn.Close() })
	err := c.readRequests()
	_ = c.sendUnsent() // whether that fails or not, the connection ends for the first reason
	c.logEnd(err)
	close(c.queue)
	if c.writer != nil {
		<-c.writer
	}
	if c.info.Context.Err() == nil && c.sender.sentAny {
		c.linger()
	}
	stopWatching()
	c.cancel()
	_ = c.conn.Close() // everything that was owed has been sent, or cannot be
}

// lingerMax is how long a closing connection waits for the client to close its side. Closing at once while requests of
// the client lie unread in the socket would reset the connection, and the client might lose answers it was sent.
const lingerMax = 500 * time.Millisecond

func (c *connection) linger() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.conn.SetReadDeadline(time.Now().Add(lingerMax)) == nil {
		_, _ = io.Copy(io.Discard, c.conn) // until the client closes or the time is over
	}
}

// stopReading makes the reader end before its next request.
func (c *connection) stopReading() {
	// A moment in the past: the reader finds out why when it wakes up.
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
}

// mute makes the reader leave further requests where they are, for as long as the client has been told to wait. A
// request that has begun to come is still read and handled: the client had not heard of it.
func (c *connection) mute(wait time.Duration) {
	c.mutedUntil.Store(max(c.mutedUntil.Load(), int64(c.clock()+wait)))
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // the reader finds out why when it wakes up
}

// awaitUnmuted blocks while the connection is muted.
func (c *connection) awaitUnmuted() error {
	for {
		left := time.Duration(c.mutedUntil.Load()) - c.clock()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-c.server.draining:
			timer.Stop()
			return errDraining
		case <-c.info.Context.Done():
			timer.Stop()
			return c.info.Context.Err()
		}
	}
}

// unmutedAt is when the connection was muted no longer, or will be.
func (c *connection) unmutedAt() time.Time {
	return c.sender.opened.Add(time.Duration(c.mutedUntil.Load()))
}

// clock is the time since the connection was opened.
func (c *connection) clock() time.Duration { return time.Since(c.sender.opened) }

var errDraining = errors.New("the server is stopping")

// readRequests handles requests one after the other. It returns why it ended.
func (c *connection) readRequests() error {
	for {
		frame, err := c.frames.next()
		if err != nil {
			return err
		}
		c.metrics.received.Add(float64(len(frame.Bytes()) + lengthPrefixSize))
		if err := c.handle(frame); err != nil {
			return err
		}
	}
}

const lengthPrefixSize = 4

// handle runs one request and sees that its answer is sent, now or later.
func (c *connection) handle(frame frame) error {
	req := &wire.Request{Conn: c.info, Frame: frame.Buffer, ReceivedAt: c.frames.lastRead}
	if err := wire.ParseHeaderInto(req, frame.Bytes(), c.clientID); err != nil {
		c.frames.release(frame)
		return err
	}
	c.clientID = req.ClientID
	waited, taken, err := c.awaitRoom(req.Key, frame)
	if err != nil {
		c.frames.release(frame)
		return err
	}
	pending := pendingReply{api: c.server.metrics.byAPI[req.Key]}
	pending.api.received(req, len(frame.Bytes()))
	pending.times = times{waited: waited, received: req.ReceivedAt.Sub(c.sender.opened), started: c.clock()}
	pending.Reply, err = c.run(req)
	// The frame goes back before the answer is sent, so that a client that reads slowly does not hold it.
	req.Body, req.Frame = nil, nil
	c.frames.release(frame)
	if err != nil {
		c.server.answers.adjust(-taken)
		return err
	}
	pending.times.handled = c.clock()
	pending.times.ready = pending.times.handled
	c.charge(&pending, taken)
	return c.answer(pending)
}

// awaitRoom takes memory for an answer, and waits while there is none; answers to Produce are small. waited is how long
// the request has waited for memory in all.
func (c *connection) awaitRoom(key int16, frame frame) (waited time.Duration, taken int64, err error) {
	if key == wire.KeyProduce {
		return frame.waited, 0, nil
	}
	if c.server.answers.tryTake(expectedAnswer) {
		return frame.waited, expectedAnswer, nil
	}
	if err := c.sendUnsent(); err != nil {
		return 0, 0, err
	}
	began := c.clock()
	if err := c.server.answers.take(c.info.Context, expectedAnswer, nil); err != nil {
		return 0, 0, err
	}
	return frame.waited + c.clock() - began, expectedAnswer, nil
}

// countedFrom is the size from which an answer in memory counts against the limits. Smaller ones are bounded by the
// number of replies in flight.
const countedFrom = 4 << 10

// charge counts the memory of an answer that is there, in place of what was taken for it.
func (c *connection) charge(reply *pendingReply, taken int64) {
	if size := reply.Response.BytesInMemory(); size >= countedFrom {
		reply.bytes = size
		c.held.Add(size)
		select {
		case c.holds <- struct{}{}:
		default: // the writer was told, or there is none
		}
	}
	c.server.answers.adjust(reply.bytes - taken)
}

// run calls the handler. A panic in it costs this connection and no other.
func (c *connection) run(req *wire.Request) (reply wire.Reply, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = c.panicked(recovered, "api_key", req.Key, "api_version", req.Version)
		}
	}()
	return c.server.dispatch(c.info.Context, req), nil
}

// panicError is what a handler's panic becomes.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("a handler panicked: %v", e.value) }

func (c *connection) panicked(value any, attributes ...any) error {
	c.server.metrics.panics.Inc()
	attributes = append(attributes, "panic", fmt.Sprint(value), "remote", c.info.Remote.String(),
		"stack", string(debug.Stack()))
	c.server.logger.Error("a request's handler panicked; its connection is closed", attributes...)
	return &panicError{value}
}

// answer sends a reply now, if it is ready and nothing is owed before it, or queues it.
func (c *connection) answer(reply pendingReply) error {
	switch {
	case reply.None:
		now := c.clock()
		reply.api.answered(&reply, now, now)
		c.settle(reply)
	case reply.Close != nil && reply.Response == nil && reply.Finish == nil: // nothing to send
	case reply.Wait == nil && reply.Finish == nil && c.owed.Load() == 0:
		c.unsent = append(c.unsent, reply)
		if c.mayWait(&reply) {
			return nil
		}
		if err := c.sendUnsent(); err != nil {
			return err
		}
	default:
		if err := errors.Join(c.sendUnsent(), c.enqueue(reply)); err != nil {
			return err
		}
	}
	return reply.Close
}

const (
	// maxUnsent is how many answers the reader sends at once. Half of what a client has in flight would be best, since it
	// then makes new requests while we handle the other half; most have five.
	maxUnsent = 2
	// maxUnsentWait is how long after the first of them was begun another one may still be waited for.
	maxUnsentWait = time.Millisecond
)

// mayWait tells whether an answer that could be sent may wait for that of the next request, so that one system call
// sends both: waking a client costs more than handling a small request does. The next request has begun to come and is
// small; the reader sends what waits before it waits itself, for whatever.
func (c *connection) mayWait(reply *pendingReply) bool {
	return c.sender.raw != nil && c.frames.nextIsSmall() && len(c.unsent) < maxUnsent &&
		reply.Close == nil && reply.Response != nil && reply.Response.Throttle() == 0 &&
		reply.Response.Size() < countedFrom &&
		reply.times.handled-c.unsent[0].times.started < maxUnsentWait
}

// sendUnsent sends the answers that wait for others.
func (c *connection) sendUnsent() error {
	if len(c.unsent) == 0 {
		return nil
	}
	err := c.send(c.unsent)
	clear(c.unsent)
	c.unsent = c.unsent[:0]
	return err
}

// enqueue hands a reply to the writer. It blocks while too many replies, or too many bytes of them, are in flight:
// then the client is not read from.
func (c *connection) enqueue(reply pendingReply) error {
	ctx := c.info.Context
	if queued := min(reply.bytes, c.server.config.MaxInFlightBytesPerConnection); queued > 0 {
		if c.answers.Acquire(ctx, queued) != nil {
			c.settle(reply)
			return ctx.Err()
		}
		reply.queued = queued
	}
	if c.writer == nil {
		c.writer, c.holds = make(chan struct{}), make(chan struct{}, 1)
		go c.writeReplies()
	}
	c.owed.Add(1)
	select {
	case c.queue <- reply:
		return nil
	case <-ctx.Done():
		c.owed.Add(-1)
		c.settle(reply)
		return ctx.Err()
	}
}

// settle gives back everything that a reply holds which has been sent, or will not be.
func (c *connection) settle(reply pendingReply) {
	reply.Response.Release()
	if reply.Cancel != nil {
		reply.Cancel()
	}
	if reply.bytes > 0 {
		c.held.Add(-reply.bytes)
		c.server.answers.adjust(-reply.bytes)
	}
	if reply.queued > 0 {
		c.answers.Release(reply.queued)
	}
}

// logEnd says why a connection ended, as loudly as the reason deserves.
func (c *connection) logEnd(err error) {
	m := c.server.metrics
	attributes := []any{"remote", c.info.Remote.String(), "listener", c.info.Listener, "reason", err}
	var (
		malformed   *wire.MalformedError
		unsupported *wire.UnsupportedVersionError
		size        *frameSizeError
	)
	switch {
	case errors.As(err, &malformed):
		m.malformed.Inc()
		c.server.warn("connection closed", append(attributes, "api_key", malformed.Key, "api_version", malformed.Version)...)
	case errors.As(err, &unsupported):
		m.unsupportedVersion.Inc()
		c.server.warn("connection closed", append(attributes, "client_id", c.clientID)...)
	case errors.As(err, &size):
		m.frameSize.Inc()
		c.server.warn("connection closed", attributes...)
	case errors.Is(err, errFrameTimeout), errors.Is(err, errIdle), errors.Is(err, errNotTaken):
		m.timeout.Inc()
		c.server.logger.Debug("connection closed", attributes...)
	default: // the client's end, a stop, or a panic that has been logged
		c.server.logger.Debug("connection closed", attributes...)
	}
}
