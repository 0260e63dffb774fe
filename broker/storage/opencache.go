package storage

import (
	"io"
	"sync"
)

// openCache bounds how many resources (descriptors, maps) of one kind are open. What is in use stays open whatever
// the bound, since a reader must not wait for another; the rest is closed least recently used first.
type openCache[T io.Closer] struct {
	capacity int

	mu   sync.Mutex // guards the fields below and those of all resources of the cache
	open int
	idle resource[T] // head of the ring of open resources that nobody uses; its next is the least recently used
}

// resource is something that is opened when it is first needed. The zero value is closed.
type resource[T io.Closer] struct {
	value      T
	isOpen     bool
	removed    bool // must not be opened again
	references int
	prev, next *resource[T] // in the ring of idle ones; nil when in use or closed
}

// opener opens a resource. It is an interface rather than a func so that a look-up which finds the resource open
// makes no garbage.
type opener[T io.Closer] interface {
	open() (T, error)
}

func newOpenCache[T io.Closer](capacity int) *openCache[T] {
	c := &openCache[T]{capacity: capacity}
	c.idle.prev, c.idle.next = &c.idle, &c.idle
	return c
}

// acquire takes a reference, opening the resource if need be. errSegmentRemoved means that remove came first.
func (c *openCache[T]) acquire(r *resource[T], from opener[T]) (T, error) {
	value, found, err := c.tryAcquire(r)
	if found || err != nil {
		return value, err
	}
	value, err = from.open() // may read the disk, so without the lock; two readers may both do it
	if err != nil {
		return value, err
	}
	return c.install(r, value)
}

// tryAcquire takes a reference if the resource is open.
func (c *openCache[T]) tryAcquire(r *resource[T]) (value T, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.removed {
		return value, false, errSegmentRemoved
	}
	if !r.isOpen {
		return value, false, nil
	}
	c.reference(r)
	return r.value, true, nil
}

// install makes an opened value the resource's, unless somebody else was faster, and takes a reference.
func (c *openCache[T]) install(r *resource[T], value T) (T, error) {
	current, found, err := c.tryInstall(r, value)
	if found || err != nil {
		_ = value.Close() // ours was not needed; it holds no data that could be lost
	}
	return current, err
}

func (c *openCache[T]) tryInstall(r *resource[T], value T) (current T, found bool, err error) {
	c.mu.Lock()
	if r.removed {
		c.mu.Unlock()
		return current, false, errSegmentRemoved
	}
	if r.isOpen {
		c.reference(r)
		c.mu.Unlock()
		return r.value, true, nil
	}
	r.value, r.isOpen, r.references = value, true, 1
	c.open++
	victim, evicted := c.evict()
	c.mu.Unlock()
	if evicted {
		_ = victim.Close() // nobody used it, and it holds no data that could be lost
	}
	return value, false, nil
}

// release gives a reference back. The last one makes the resource a candidate for closing.
func (c *openCache[T]) release(r *resource[T]) {
	c.mu.Lock()
	r.references--
	var victim T
	closing := false
	if r.references == 0 {
		if r.removed {
			victim, closing = c.take(r), true
		} else {
			c.pushIdle(r)
			victim, closing = c.evict()
		}
	}
	c.mu.Unlock()
	if closing {
		_ = victim.Close() // nobody used it, and it holds no data that could be lost
	}
}

// remove keeps the resource from being opened again and closes it as soon as nobody uses it.
func (c *openCache[T]) remove(r *resource[T]) {
	c.mu.Lock()
	r.removed = true
	var victim T
	closing := r.isOpen && r.references == 0
	if closing {
		victim = c.take(r)
	}
	c.mu.Unlock()
	if closing {
		_ = victim.Close() // nobody used it, and it holds no data that could be lost
	}
}

// The helpers below need mu.

func (c *openCache[T]) reference(r *resource[T]) {
	r.references++
	c.unlink(r)
}

// evict takes the least recently used idle resource if more are open than should be.
func (c *openCache[T]) evict() (victim T, found bool) {
	if c.open <= c.capacity || c.idle.next == &c.idle {
		return victim, false
	}
	return c.take(c.idle.next), true
}

// take makes the resource closed and returns what the caller must close, without the lock.
func (c *openCache[T]) take(r *resource[T]) T {
	value := r.value
	var none T
	c.unlink(r)
	r.value, r.isOpen = none, false
	c.open--
	return value
}

func (c *openCache[T]) pushIdle(r *resource[T]) {
	r.prev, r.next = c.idle.prev, &c.idle
	r.prev.next, c.idle.prev = r, r
}

func (c *openCache[T]) unlink(r *resource[T]) {
	if r.next != nil {
		r.prev.next, r.next.prev = r.next, r.prev
		r.prev, r.next = nil, nil
	}
}
