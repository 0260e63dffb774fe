package gate

import (
	"context"
	"sync"
)

// Gate lets a number of holders in at a time. Its methods may be called concurrently.
type Gate struct {
	mu     sync.Mutex // guards the fields below
	width  int
	inside int
	opened chan struct{} // closed when those who wait should look again; nil while nobody waits
}

// New makes a gate for so many.
func New(width int) *Gate { return &Gate{width: width} }

// Enter waits for a place. Its error is that of ctx, which ended before there was one.
func (g *Gate) Enter(ctx context.Context) error {
	for {
		wait := g.try()
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try takes a place, or returns what to wait for.
func (g *Gate) try() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside < g.width {
		g.inside++
		return nil
	}
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	return g.opened
}

// Leave gives back a place.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.call()
}

// SetWidth changes how many may be inside. Who is in stays in, even if that is more than the new width.
func (g *Gate) SetWidth(width int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.width = width
	g.call()
}

// call has those who wait look again if one of them could enter. The caller holds mu.
func (g *Gate) call() {
	if g.opened != nil && g.inside < g.width {
		close(g.opened)
		g.opened = nil
	}
}
