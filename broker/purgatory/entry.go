package purgatory

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// The bits of an entry's state. Whoever sets running owns the entry until it clears it; the others leave a note (again,
// expire) that the owner sees before it lets go. So nobody ever waits for an operation that is being tried, which would
// be a deadlock where trying one operation checks the key of another.
const (
	running uint32 = 1 << iota
	again          // try to complete
	expire         // try to complete, else expire
	done           // completed; nothing may happen any more
)

// entry is one waiting operation.
type entry[K comparable] struct {
	purgatory *Purgatory[K]
	op        Operation
	state     atomic.Uint32
	timer     *time.Timer // owned by whoever runs the entry, as are watches
	watches   []watch[K]
	listed    watch[K] // in purgatory.all
}

// register makes the entry known to Check under all keys. The filter comes first: a Check that finds it zero has made
// its change before, and the attempt that follows registering sees that change.
func (e *entry[K]) register(keys []K) {
	e.watches = make([]watch[K], len(keys))
	for i, key := range keys {
		hash := maphash.Comparable(e.purgatory.seed, key)
		e.watches[i] = watch[K]{entry: e, key: key, hash: hash}
		e.purgatory.filter[hash%filterSlots].Add(1)
		s := e.purgatory.shardOf(hash)
		s.mu.Lock()
		l := s.keys[key]
		if l == nil {
			l = &list[K]{}
			s.keys[key] = l
		}
		l.add(&e.watches[i])
		s.mu.Unlock()
	}
}

// wake leaves a note and, unless somebody else runs the entry, works on it. It tells whether this call has completed
// the operation.
func (e *entry[K]) wake(note uint32) bool {
	for {
		old := e.state.Load()
		if old&done != 0 {
			return false
		}
		if e.state.CompareAndSwap(old, old|note|running) {
			return old&running == 0 && e.work()
		}
	}
}

// work does what the notes ask for until there is none. The caller owns the entry and loses it here.
func (e *entry[K]) work() bool {
	for {
		notes := e.state.And(^(again | expire))
		if notes&(again|expire) != 0 && e.op.TryComplete() {
			e.finish()
			return true
		}
		if notes&expire != 0 {
			e.op.Expire()
			e.finish()
			return true
		}
		if e.state.CompareAndSwap(running, 0) {
			return false
		}
	}
}

// finish forgets the operation: none of its keys lists it any longer.
func (e *entry[K]) finish() {
	e.state.Store(done)
	e.timer.Stop()
	p := e.purgatory
	for i := range e.watches {
		w := &e.watches[i]
		s := p.shardOf(w.hash)
		s.mu.Lock()
		l := s.keys[w.key]
		l.remove(w)
		if l.first == nil {
			delete(s.keys, w.key)
		}
		s.mu.Unlock()
		p.filter[w.hash%filterSlots].Add(-1)
	}
	p.mu.Lock()
	p.all.remove(&e.listed)
	p.mu.Unlock()
	p.waiting.Add(-1)
	p.entries.Done()
}

// watch is an entry's place in the list of one key.
type watch[K comparable] struct {
	entry          *entry[K]
	key            K
	hash           uint64
	previous, next *watch[K]
}

// list links watches, oldest first, so that any of them can be taken out at once.
type list[K comparable] struct{ first, last *watch[K] }

func (l *list[K]) add(w *watch[K]) {
	w.previous = l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

func (l *list[K]) remove(w *watch[K]) {
	if w.previous == nil {
		l.first = w.next
	} else {
		w.previous.next = w.next
	}
	if w.next == nil {
		l.last = w.previous
	} else {
		w.next.previous = w.previous
	}
	w.previous, w.next = nil, nil
}

func (l *list[K]) len() int {
	n := 0
	for w := l.first; w != nil; w = w.next {
		n++
	}
	return n
}
