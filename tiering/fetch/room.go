package fetch

import (
	"context"
	"errors"
	"time"
)

// Who reads in order takes a chunk in several answers, and comes back for the next one a moment later. A chunk that
// went in between would be downloaded once for each of them, and that by all readers as soon as there are more than
// there is room for. So a chunk stays for a moment after each use, and whoever needs room waits for it instead: readers
// take turns, chunk by chunk. Those who read here and there
// wait only if the store gave them more than that in a moment.
const (
	// liveFor is how long a chunk stays after its last use.
	liveFor = 500 * time.Millisecond
	// aheadFor is how long one stays that was read ahead, and that its reader may still be on the way to.
	aheadFor = 2 * time.Second
)

var errNoRoom = errors.New("there is no memory for reading ahead")

// reserve makes room for a download that begins. What is only read ahead does not wait for it.
func (c *chunks) reserve(ctx context.Context, next *chunk) error {
	for {
		freed, until, err := c.tryReserve(next, time.Now())
		if freed == nil || err != nil {
			return err
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-freed:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// tryReserve tells what to wait for if there is no room, and until when at most.
func (c *chunks) tryReserve(next *chunk, now time.Time) (freed <-chan struct{}, until time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.used.Front(); at != nil && c.bytes+next.size > c.limit; {
		old, following := at.Value.(*chunk), at.Next()
		if !old.live.After(now) {
			c.evict(old)
		} else if until.IsZero() || old.live.Before(until) {
			until = old.live
		}
		at = following
	}
	switch {
	case c.bytes+next.size <= c.limit || c.used.Len() == 0: // in all there are no more requests than there is room for
		next.reserved = true
		c.bytes += next.size
		c.reader.metrics.cached.Set(float64(c.bytes))
		return nil, until, nil
	case next.ahead:
		c.forget(next) // at once: whoever asks for it from here on waits
		return nil, until, errNoRoom
	}
	if c.freed == nil {
		c.freed = make(chan struct{})
	}
	return c.freed, until, nil
}

// pass says that a reader has all of a chunk: it is the first to go.
func (c *chunks) pass(done *chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done.passed = true
	c.retire(done)
}

// retire lets a chunk leave memory before all others; it needs mu.
func (c *chunks) retire(done *chunk) {
	done.live = time.Time{}
	if done.place != nil {
		c.used.MoveToFront(done.place)
		c.notify()
	}
}

// notify has those who wait for room look again; it needs mu.
func (c *chunks) notify() {
	if c.freed != nil {
		close(c.freed)
		c.freed = nil
	}
}
