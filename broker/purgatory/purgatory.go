package purgatory

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Operation is something that waits. Its methods are never called by two goroutines at once, and none is called again
// once TryComplete has returned true or Expire has been called. They must not wait, and must not take a lock that
// whoever calls Watch or Check holds.
type Operation interface {
	// TryComplete completes the operation if its condition holds, and tells whether it did.
	TryComplete() bool
	// Expire completes the operation because its time is over, or because the purgatory closes.
	Expire()
}

const (
	shards = 64
	// filterSlots is how finely the filter tells keys apart. With a few hundred watched keys, one Check in ten or
	// twenty of a key that nobody watches takes a shard's lock for nothing; the filter costs 16 KiB.
	filterSlots = 4096
	// checkBatch is how many operations of one key are tried without an allocation.
	checkBatch = 32
)

// Purgatory holds operations that wait on keys of type K.
type Purgatory[K comparable] struct {
	seed    maphash.Seed
	waiting atomic.Int64 // operations
	// filter counts, per slot of the hash, the watches of all keys that fall there. It is what makes a Check of a key
	// that nobody watches one atomic load.
	filter [filterSlots]atomic.Int32
	shards [shards]shard[K]

	mu      sync.Mutex // guards the fields below
	closed  bool
	entries sync.WaitGroup // one for each waiting operation; added to under mu while not closed
	all     list[K]        // every waiting operation, for Close
}

type shard[K comparable] struct {
	mu   sync.Mutex     // guards the field below and all watches in it; no other lock is taken under it
	keys map[K]*list[K] // of keys with at least one watch
}

// New returns an empty purgatory.
func New[K comparable]() *Purgatory[K] {
	p := &Purgatory[K]{seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].keys = map[K]*list[K]{}
	}
	return p
}

// Watch lets an operation wait on keys until Check of one of them completes it, or until the timeout expires it. It is
// tried first, and again once it can be found by Check, so a condition that comes true meanwhile is not missed. An
// operation whose timeout is zero or less, or that comes after Close, does not wait: it completes or expires at once.
// Watch tells whether the operation was over when it returned.
func (p *Purgatory[K]) Watch(op Operation, timeout time.Duration, keys ...K) bool {
	if op.TryComplete() {
		return true
	}
	e := &entry[K]{purgatory: p, op: op}
	if timeout <= 0 || !p.admit(e) {
		op.Expire()
		return true
	}
	e.register(keys)
	// Both are safe before the last attempt: the entry counts as running, so that nobody else touches the operation.
	e.timer = time.AfterFunc(timeout, func() { e.wake(expire) })
	return e.work()
}

// Check tries all operations that wait on a key and tells how many it has completed. The caller has made its change
// visible before. An operation that is being tried elsewhere at the moment is tried once more there.
func (p *Purgatory[K]) Check(key K) int {
	hash := maphash.Comparable(p.seed, key)
	if p.filter[hash%filterSlots].Load() == 0 {
		return 0
	}
	var batch [checkBatch]*entry[K]
	completed := 0
	for _, e := range p.shardOf(hash).watching(key, batch[:0]) {
		if e.wake(again) {
			completed++
		}
	}
	return completed
}

// Watched tells whether any operation waits on a key.
func (p *Purgatory[K]) Watched(key K) bool {
	hash := maphash.Comparable(p.seed, key)
	if p.filter[hash%filterSlots].Load() == 0 {
		return false
	}
	s := p.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key] != nil
}

// Len is the number of operations that wait.
func (p *Purgatory[K]) Len() int { return int(p.waiting.Load()) }

// Watches is the number of pairs of a waiting operation and a key it waits on, and of the keys.
func (p *Purgatory[K]) Watches() (watches, keys int) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		keys += len(s.keys)
		for _, l := range s.keys {
			watches += l.len()
		}
		s.mu.Unlock()
	}
	return watches, keys
}

// Close expires every operation and returns once all have completed. Operations that come later do not wait.
func (p *Purgatory[K]) Close() {
	p.mu.Lock()
	p.closed = true
	left := make([]*entry[K], 0, p.Len())
	for w := p.all.first; w != nil; w = w.next {
		left = append(left, w.entry)
	}
	p.mu.Unlock()
	for _, e := range left {
		e.wake(expire)
	}
	p.entries.Wait()
}

// admit counts an operation in unless the purgatory is closed.
func (p *Purgatory[K]) admit(e *entry[K]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.entries.Add(1)
	p.waiting.Add(1)
	e.state.Store(running | again)
	e.listed.entry = e
	p.all.add(&e.listed)
	return true
}

func (p *Purgatory[K]) shardOf(hash uint64) *shard[K] {
	return &p.shards[hash/filterSlots%shards]
}

// watching copies the entries that wait on a key, because they are tried without the lock.
func (s *shard[K]) watching(key K, into []*entry[K]) []*entry[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.keys[key]
	if l == nil {
		return into
	}
	for w := l.first; w != nil; w = w.next {
		into = append(into, w.entry)
	}
	return into
}
