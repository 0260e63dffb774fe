package fetch

import "sync"

// slots bounds how many requests the bucket gets at a time. Who waits for an answer goes before reading ahead.
type slots struct {
	mu     sync.Mutex // guards the fields below, and the tickets' fields
	count  int
	free   int // of count; negative while more are under way than a smaller count allows
	urgent []*ticket
	ahead  []*ticket // may hold tickets that have become urgent
}

// ticket is a place in the queue.
type ticket struct {
	granted chan struct{} // closed when it is one's turn
	called  bool
	urgent  bool
}

func newSlots(count int) *slots { return &slots{count: count, free: count} }

// setCount changes how many requests there are at a time. Those under way go on.
func (s *slots) setCount(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += count - s.count
	s.count = count
	s.call()
}

// enter queues. Whose ticket is granted leaves.
func (s *slots) enter(urgent bool) *ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &ticket{granted: make(chan struct{}), urgent: urgent}
	if urgent {
		s.urgent = append(s.urgent, t)
	} else {
		s.ahead = append(s.ahead, t)
	}
	s.call()
	return t
}

// urge moves a ticket that waits to those that somebody waits for.
func (s *slots) urge(t *ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.called && !t.urgent {
		t.urgent = true
		s.urgent = append(s.urgent, t)
	}
}

// withdraw gives up a place in the queue, or the slot if it has been granted meanwhile.
func (s *slots) withdraw(t *ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.called {
		s.free++
	}
	t.called = true
	s.call()
}

func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.call()
}

// call needs mu.
func (s *slots) call() {
	for s.free > 0 {
		var next *ticket
		if len(s.urgent) > 0 {
			next, s.urgent = s.urgent[0], s.urgent[1:]
		} else if len(s.ahead) > 0 {
			next, s.ahead = s.ahead[0], s.ahead[1:]
		} else {
			return
		}
		if next.called { // it had become urgent and was called as such, or was withdrawn
			continue
		}
		next.called = true
		close(next.granted)
		s.free--
	}
}
