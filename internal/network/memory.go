package network

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	defaultHost = "localhost"
	// firstEphemeralPort is where the ports that nobody asked for by number begin (RFC 6335).
	firstEphemeralPort = 49152
	lastPort           = 65535
)

// Memory is a network inside the process. Hosts are names that exist by being used; Host gives each its own view, and
// Memory itself is the view of the host "localhost". To use it in a synctest bubble, make it in that bubble.
type Memory struct {
	mu        sync.Mutex // guards the fields below; taken before pipe.mu
	listeners map[endpoint]*listener
	links     map[link]linkState
	pipes     map[*pipe]struct{}
	nextPort  int
	changed   chan struct{} // closed and replaced when a link changes: whoever waits to dial looks again
}

var _ Network = (*Memory)(nil)

// NewMemory returns a network without hosts, cuts or delays.
func NewMemory() *Memory {
	return &Memory{
		listeners: map[endpoint]*listener{},
		links:     map[link]linkState{},
		pipes:     map[*pipe]struct{}{},
		nextPort:  firstEphemeralPort,
		changed:   make(chan struct{}),
	}
}

// Host is the network as one host sees it: its listeners are reached under its name, its connections come from it, and
// the loopback and wildcard addresses mean the host itself.
func (m *Memory) Host(name string) Network { return &host{memory: m, name: name} }

// Listen listens as the host "localhost".
func (m *Memory) Listen(ctx context.Context, address string) (net.Listener, error) {
	return m.Host(defaultHost).Listen(ctx, address)
}

// Dial connects from the host "localhost".
func (m *Memory) Dial(ctx context.Context, address string) (net.Conn, error) {
	return m.Host(defaultHost).Dial(ctx, address)
}

// Partition loses every packet between two hosts until Heal. Connections stay open and see nothing of each other, not
// even a close: what is written waits, as TCP would send it again. New connections wait until they are healed or given
// up.
func (m *Memory) Partition(hostA, hostB string) {
	m.change(hostA, hostB, func(state *linkState) { state.cut = true })
}

// Heal ends a partition of two hosts.
func (m *Memory) Heal(hostA, hostB string) {
	m.change(hostA, hostB, func(state *linkState) { state.cut = false })
}

// Delay makes everything between two hosts take so long one way, in order. It holds for what is sent from now on.
func (m *Memory) Delay(hostA, hostB string, oneWay time.Duration) {
	m.change(hostA, hostB, func(state *linkState) { state.delay = oneWay })
}

// Disconnect resets the connections between two hosts at once, and both ends notice.
func (m *Memory) Disconnect(hostA, hostB string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.pipes {
		if p.link == linkOf(hostA, hostB) {
			p.reset()
		}
	}
}

func (m *Memory) change(hostA, hostB string, edit func(state *linkState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	between := linkOf(hostA, hostB)
	state := m.links[between]
	edit(&state)
	m.links[between] = state
	for p := range m.pipes {
		if p.link == between {
			p.setLink(state)
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// link is a pair of hosts, in order.
type link [2]string

func linkOf(hostA, hostB string) link { return link{min(hostA, hostB), max(hostA, hostB)} }

type linkState struct {
	cut   bool
	delay time.Duration
}

// endpoint is one side of a connection, or where a listener listens.
type endpoint struct {
	host string
	port int
}

func (e endpoint) Network() string { return "memory" }

func (e endpoint) String() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

type host struct {
	memory *Memory
	name   string
}

// resolve reads an address as this host means it.
func (h *host) resolve(address string) (endpoint, error) {
	name, portText, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint{}, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > lastPort {
		return endpoint{}, &net.AddrError{Err: "invalid port", Addr: address}
	}
	switch name {
	case "", "0.0.0.0", "::", "127.0.0.1", "::1", "localhost":
		name = h.name
	}
	return endpoint{host: name, port: port}, nil
}

// Listen implements Network. A listener's address is its host's name, whatever it was asked for by, so that it can be
// dialled from everywhere.
func (h *host) Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := h.listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

func (h *host) listen(ctx context.Context, address string) (*listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, err := h.resolve(address)
	if err != nil {
		return nil, err
	}
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case at.host != h.name:
		return nil, os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)
	case at.port == 0:
		at.port = m.freePort(at.host)
	case m.listeners[at] != nil:
		return nil, os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	l := newListener(m, at)
	m.listeners[at] = l
	return l, nil
}

// freePort picks a port on which a host does not listen. Called with mu held.
func (m *Memory) freePort(host string) int {
	for {
		port := m.nextPort
		if m.nextPort++; m.nextPort > lastPort {
			m.nextPort = firstEphemeralPort
		}
		if m.listeners[endpoint{host, port}] == nil {
			return port
		}
	}
}

// Dial implements Network.
func (h *host) Dial(ctx context.Context, address string) (net.Conn, error) {
	to, err := h.resolve(address)
	if err == nil {
		err = h.memory.reach(ctx, linkOf(h.name, to.host))
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: to, Err: err}
	}
	conn, err := h.memory.connect(h.name, to)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: to, Err: err}
	}
	return conn, nil
}

// reach waits until a packet has gone over the link and back.
func (m *Memory) reach(ctx context.Context, over link) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.mu.Lock()
		state, changed := m.links[over], m.changed
		m.mu.Unlock()
		if !state.cut && state.delay == 0 {
			return nil
		}
		var arrived <-chan time.Time
		if !state.cut {
			arrived = time.After(2 * state.delay)
		}
		select {
		case <-arrived:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *Memory) connect(from string, to endpoint) (*conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.listeners[to]
	if l == nil {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	between := linkOf(from, to.host)
	p := newPipe(m, between, m.links[between])
	local := endpoint{host: from, port: m.freePort(from)}
	near := &conn{pipe: p, side: 0, local: local, remote: to}
	far := &conn{pipe: p, side: 1, local: to, remote: local}
	if !l.offer(far) {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	m.pipes[p] = struct{}{}
	return near, nil
}

func (m *Memory) forget(p *pipe) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pipes, p)
}

func (m *Memory) removeListener(l *listener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.listeners, l.at)
}
