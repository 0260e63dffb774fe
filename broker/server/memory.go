package server

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
)

// memory counts bytes of all connections and makes those wait that would need more than there may be. Requests that are
// being read or handled have one, answers that are not yet sent another: clients that take no answers cannot keep
// others from sending records.
//
// How large a request becomes is known before it is read: its memory is taken first. How large an answer becomes is
// known when it is made: what most need is taken before, so that handlers that run at the same moment know of each
// other, and put right then, whatever the bound. A writer whose connection holds answers never waits, so that they can
// be sent and their memory come back.
type memory struct {
	limit int64
	used  atomic.Int64 // written under mu

	mu    sync.Mutex // guards the field below
	queue list.List  // of *memoryWait, the first to come first
}

type memoryWait struct {
	bytes   int64
	granted chan struct{}
}

func newMemory(limit int64) *memory { return &memory{limit: limit} }

// expectedAnswer is what is taken for an answer before it is known.
const expectedAnswer = 1 << 20

// tryTake takes n bytes if nobody has to wait for that.
func (m *memory) tryTake(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue.Len() > 0 || !m.fits(n) {
		return false
	}
	m.used.Add(n)
	return true
}

// take waits until n bytes may be used, or ctx ends. More than there may ever be is what there may be. What comes
// through bypass, which may be nil, ends the wait, and the bytes are taken whatever the bound.
func (m *memory) take(ctx context.Context, n int64, bypass <-chan struct{}) error {
	if m.tryTake(n) {
		return nil
	}
	m.mu.Lock()
	wait := &memoryWait{n, make(chan struct{})}
	place := m.queue.PushBack(wait)
	m.grant() // something may have come back meanwhile
	m.mu.Unlock()
	select {
	case <-wait.granted:
		return nil
	case <-bypass:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-wait.granted:
	default:
		m.queue.Remove(place)
		m.used.Add(n)
	}
	err := ctx.Err()
	if err != nil {
		m.used.Add(-n)
	}
	m.grant()
	return err
}

// fits needs mu. What is larger than the limit fits when there is nothing else.
func (m *memory) fits(n int64) bool {
	used := m.used.Load()
	return used <= 0 || used <= m.limit-n
}

// adjust counts n bytes more that are there already, or gives back what is no longer.
func (m *memory) adjust(n int64) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Add(n)
	m.grant()
}

// grant needs mu.
func (m *memory) grant() {
	for first := m.queue.Front(); first != nil; first = m.queue.Front() {
		wait := first.Value.(*memoryWait)
		if !m.fits(wait.bytes) {
			return
		}
		m.queue.Remove(first)
		m.used.Add(wait.bytes)
		close(wait.granted)
	}
}

// contended tells whether somebody waits.
func (m *memory) contended() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.Len() > 0
}
