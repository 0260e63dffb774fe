package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/broker/wire"
)

// Dispatch handles one request. It is called from the connection's reader, one request at a time and in order; what may
// take long is returned as a Reply that waits. The request's Body is valid until Dispatch returns. The context is the
// connection's.
type Dispatch func(ctx context.Context, req *wire.Request) wire.Reply

// Network is where the server listens: TCP, or the memory network of tests.
type Network interface {
	Listen(ctx context.Context, address string) (net.Listener, error)
}

// Server accepts connections and serves them until its context ends.
type Server struct {
	logger   *slog.Logger
	logLimit *logLimiter
	network  Network
	config   Config
	dispatch Dispatch
	metrics  *metrics
	pool     *wire.Pool
	slots    *connectionSlots
	pacer    *pacer
	requests *memory       // frames of all connections that are being read or handled
	answers  *memory       // answers of all connections that are not yet sent
	draining chan struct{} // closed when the stop begins
	lastID   atomic.Uint64

	mu          sync.Mutex // guards the fields below
	listeners   []listener
	connections map[*connection]struct{}
	started     bool // Run has taken over the listeners
	closed      bool
}

type listener struct {
	net.Listener
	name string
}

// New makes a server that does nothing yet: Listen and Run do.
func New(
	logger *slog.Logger, registry prometheus.Registerer, network Network, config Config, dispatch Dispatch,
) *Server {
	s := &Server{
		logger:      logger,
		logLimit:    &logLimiter{},
		network:     network,
		config:      config,
		dispatch:    dispatch,
		pool:        wire.NewPool(config.MaxPooledBytes),
		slots:       newConnectionSlots(config.ConnectionLimits),
		pacer:       newPacer(config.MaxConnectionCreationRate),
		requests:    newMemory(config.MaxInFlightBytes),
		answers:     newMemory(config.MaxInFlightBytes),
		draining:    make(chan struct{}),
		connections: make(map[*connection]struct{}),
	}
	s.metrics = newMetrics(registry, s)
	return s
}

// Listen opens a listener under a name and returns its address. It is called before Run; until then, connections wait
// in the kernel.
func (s *Server) Listen(ctx context.Context, name, address string) (net.Addr, error) {
	opened, err := s.network.Listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %s: %w", name, address, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.started {
		return nil, errors.Join(errors.New("the server has been started or closed already"), opened.Close())
	}
	s.listeners = append(s.listeners, listener{opened, name})
	return opened.Addr(), nil
}

// SetConnectionLimits changes the bounds on connections. Those that are there stay, even if they are too many now.
func (s *Server) SetConnectionLimits(limits ConnectionLimits) {
	s.slots.change(limits)
	s.pacer.change(limits.MaxConnectionCreationRate)
}

// Close closes the listeners of a server that is not going to run. Run does it itself.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var failures []error
	for _, l := range s.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// Run serves all listeners until ctx ends, and then stops gracefully: it accepts nothing more, lets requests in flight
// finish, sends what is owed, and closes. It returns when no connection and no goroutine is left.
func (s *Server) Run(ctx context.Context) error {
	// What is in flight when ctx ends shall be finished, so connections live on a context of their own.
	connections, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var serving sync.WaitGroup
	accepting, acceptContext := errgroup.WithContext(ctx)
	for _, l := range s.start() {
		accepting.Go(func() error { return s.accept(acceptContext, connections, l, &serving) })
	}
	<-acceptContext.Done()
	s.drain()
	err := accepting.Wait()
	grace := time.AfterFunc(s.config.GracePeriod, cut)
	defer grace.Stop()
	serving.Wait()
	return err
}

// start takes over the listeners: from now on there are no others.
func (s *Server) start() []listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	return s.listeners
}

// drain closes the listeners and tells every connection to read no further request.
func (s *Server) drain() {
	if err := s.Close(); err != nil {
		s.logger.Warn("a listener did not close", "error", err)
	}
	close(s.draining)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		c.stopReading()
	}
}

const (
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second // a lack of file descriptors does not pass quickly
)

// accept takes connections of one listener until ctx ends. Errors such as a lack of file descriptors are waited out:
// they are no reason to stop a broker.
func (s *Server) accept(ctx, connections context.Context, l listener, serving *sync.WaitGroup) error {
	backoff := acceptBackoffMin
	for {
		accepted, err := l.Accept()
		switch {
		case err == nil:
			backoff = acceptBackoffMin
			if c := s.admit(ctx, connections, l, accepted); c != nil {
				serving.Go(func() { s.serve(c) })
			}
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.name, err)
		}
		s.metrics.acceptErrors.Inc()
		s.warn("a connection could not be accepted", "listener", l.name, "error", err, "retry_after", backoff)
		if !sleep(ctx, backoff) {
			return nil
		}
		backoff = min(2*backoff, acceptBackoffMax)
	}
}

// admit makes a connection of what was accepted, once there is room for it. It returns nil if the address has too many
// already, or if ctx has ended.
func (s *Server) admit(ctx, connections context.Context, l listener, accepted net.Conn) *connection {
	address := hostOf(accepted.RemoteAddr())
	err := s.pacer.wait(ctx)
	if err == nil {
		err = s.slots.take(ctx, address)
	}
	if err != nil {
		if errors.Is(err, errAddressFull) {
			s.metrics.refused.Inc()
			s.warn("connection refused", "remote", accepted.RemoteAddr().String(), "reason", err)
		}
		_ = accepted.Close() // nothing is owed on it
		return nil
	}
	c := newConnection(connections, s, l.name, accepted)
	c.address = address
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections[c] = struct{}{}
	return c
}

// serve runs one connection to its end and gives back its place.
func (s *Server) serve(c *connection) {
	c.metrics.opened.Inc()
	c.metrics.open.Inc()
	defer func() {
		c.metrics.open.Dec()
		c.metrics.closed.Inc()
		s.slots.giveBack(c.address)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.connections, c)
	}()
	c.serve()
}

// warn logs something that clients can provoke at will, at a bounded rate.
func (s *Server) warn(message string, attributes ...any) {
	if allowed, suppressed := s.logLimit.allow(time.Now()); allowed {
		if suppressed > 0 {
			attributes = append(attributes, "similar_suppressed", suppressed)
		}
		s.logger.Warn(message, attributes...)
	}
}

// sleep waits and reports whether ctx was still alive all the time.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// hostOf is the part of an address that connections are counted by.
func hostOf(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return host
}
