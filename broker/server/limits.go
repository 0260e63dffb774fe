package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/firnlog/firn/internal/gate"
)

// connectionSlots counts connections, in all and by address.
type connectionSlots struct {
	all *gate.Gate

	mu        sync.Mutex // guards the fields below
	limits    ConnectionLimits
	byAddress map[string]int
}

func newConnectionSlots(limits ConnectionLimits) *connectionSlots {
	return &connectionSlots{all: gate.New(limits.MaxConnections), limits: limits, byAddress: make(map[string]int)}
}

// change takes over other limits.
func (s *connectionSlots) change(limits ConnectionLimits) {
	s.mu.Lock()
	s.limits = limits
	s.mu.Unlock()
	s.all.SetWidth(limits.MaxConnections)
}

// errAddressFull says that an address has as many connections as it may have.
var errAddressFull = errors.New("the address has as many connections as it may have")

// take counts a connection of the address, and waits while there are too many in all. It fails with errAddressFull or
// because ctx has ended.
func (s *connectionSlots) take(ctx context.Context, address string) error {
	s.mu.Lock()
	limit, ok := s.limits.MaxConnectionsPerIPOverrides[address]
	if !ok {
		limit = s.limits.MaxConnectionsPerIP
	}
	full := s.byAddress[address] >= limit
	if !full {
		s.byAddress[address]++
	}
	s.mu.Unlock()
	if full {
		return errAddressFull
	}
	if err := s.all.Enter(ctx); err != nil {
		s.forget(address)
		return err
	}
	return nil
}

// giveBack returns what take took.
func (s *connectionSlots) giveBack(address string) {
	s.all.Leave()
	s.forget(address)
}

func (s *connectionSlots) forget(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byAddress[address]--; s.byAddress[address] <= 0 {
		delete(s.byAddress, address)
	}
}

// maxLinesPerSecond bounds the log lines that misbehaving clients cause.
const maxLinesPerSecond = 10

// logLimiter lets a few lines per second through and counts the others.
type logLimiter struct {
	mu         sync.Mutex // guards the fields below
	second     time.Time  // begin of the current second
	lines      int
	suppressed int
}

// allow reports whether a line may be logged, and how many were not since the last one that was.
func (l *logLimiter) allow(now time.Time) (allowed bool, suppressed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.second) >= time.Second {
		l.second, l.lines = now, 0
	}
	if l.lines >= maxLinesPerSecond {
		l.suppressed++
		return false, 0
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return true, suppressed
}

// pacer bounds how often something is done a second, on an average over one second.
type pacer struct {
	mu   sync.Mutex // guards the fields below
	rate int
	next time.Time // when it may be done if nothing was saved up
}

func newPacer(rate int) *pacer { return &pacer{rate: rate} }

// change takes over another rate.
func (p *pacer) change(rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// recheck is how long a wait may be before the rate is looked at again, since it may have changed.
const recheck = time.Second

// wait waits until it may be done once, or ctx ends.
func (p *pacer) wait(ctx context.Context) error {
	for {
		wait := p.due(time.Now())
		if wait <= 0 {
			return nil
		}
		if !sleep(ctx, min(wait, recheck)) {
			return ctx.Err()
		}
	}
}

// due takes one turn, or tells how long to wait before asking again. A rate of 0 never has one.
func (p *pacer) due(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate <= 0 {
		return recheck
	}
	if saved := now.Add(-time.Second); p.next.Before(saved) {
		p.next = saved
	}
	interval := time.Second / time.Duration(p.rate)
	if wait := p.next.Add(interval).Sub(now); wait > 0 {
		return wait
	}
	p.next = p.next.Add(interval)
	return 0
}
