package network

import (
	"net"
	"sync"
)

// maxBacklog bounds the connections that nobody has accepted yet; it is the usual somaxconn of Linux. The next one is
// refused.
const maxBacklog = 4096

type listener struct {
	memory *Memory
	at     endpoint

	mu      sync.Mutex // guards the fields below; taken after Memory.mu, never together with pipe.mu
	changed sync.Cond
	backlog []*conn
	closed  bool
}

func newListener(m *Memory, at endpoint) *listener {
	l := &listener{memory: m, at: at}
	l.changed.L = &l.mu
	return l
}

// offer hands in a connection to be accepted.
func (l *listener) offer(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.backlog) == maxBacklog {
		return false
	}
	l.backlog = append(l.backlog, c)
	l.changed.Signal()
	return true
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && len(l.backlog) == 0 {
		l.changed.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "memory", Addr: l.at, Err: net.ErrClosed}
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	return c, nil
}

// Close implements net.Listener. Connections that were not accepted yet are reset.
func (l *listener) Close() error {
	l.mu.Lock()
	refused := l.backlog
	again := l.closed
	l.closed, l.backlog = true, nil
	l.changed.Broadcast()
	l.mu.Unlock()
	if again {
		return &net.OpError{Op: "close", Net: "memory", Addr: l.at, Err: net.ErrClosed}
	}
	l.memory.removeListener(l)
	for _, c := range refused {
		c.pipe.reset()
		_ = c.Close()
	}
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.at }
