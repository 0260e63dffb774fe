//go:build linux

package replay

import "sync"

// window bounds the requests in flight on a connection: its writer takes places, its reader gives them back.
type window struct {
	mu     sync.Mutex // guards the fields below
	cond   sync.Cond
	free   int
	closed bool
}

func newWindow(size int) *window {
	w := &window{free: size}
	w.cond.L = &w.mu
	return w
}

// take waits for at least one place and takes at most so many. It returns 0 once the window is closed.
func (w *window) take(most int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free == 0 && !w.closed {
		w.cond.Wait()
	}
	if w.closed {
		return 0
	}
	taken := min(most, w.free)
	w.free -= taken
	return taken
}

func (w *window) give(places int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free += places
	w.cond.Signal()
}

// close lets a writer that waits go.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.cond.Broadcast()
}
