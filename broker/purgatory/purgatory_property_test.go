package purgatory

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Every operation completes exactly once, whatever watchers, checkers, deadlines and the close do at the same time. One
// whose condition came true in time, before any close, has completed rather than expired: no wake-up is lost.
func TestEachOperationCompletesOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		workers := rapid.IntRange(1, 8).Draw(rt, "workers")
		keys := rapid.IntRange(1, 6).Draw(rt, "keys")
		closes := rapid.Bool().Draw(rt, "closes while they work")
		synctest.Test(t, func(t *testing.T) {
			s := &scenario{purgatory: New[int](), counters: make([]atomic.Int64, keys)}
			s.run(t, seed, workers, closes)
		})
	})
}

// scenario: operations wait for a counter of one of their keys to reach a number; workers increment and check.
type scenario struct {
	purgatory *Purgatory[int]
	counters  []atomic.Int64
	mu        sync.Mutex // guards the field below
	waiters   []*waiter
	reachable []*waiter // their condition comes true in time
}

func (s *scenario) run(t *testing.T, seed uint64, workers int, closes bool) {
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() { s.work(rand.New(rand.NewPCG(seed, uint64(worker)))) })
	}
	if closes {
		time.Sleep(20 * time.Millisecond)
		s.purgatory.Close()
	}
	group.Wait()
	for key := range s.counters {
		s.counters[key].Add(1000)
		s.purgatory.Check(key)
	}
	if !closes {
		for _, w := range s.reachable {
			w.want(t, 1, 0)
		}
	}
	time.Sleep(time.Hour) // the deadlines of the others
	synctest.Wait()
	for _, w := range s.waiters {
		if w.completed.Load()+w.expired.Load() != 1 || w.broken.Load() {
			t.Fatalf("completed %d times, expired %d times, misused: %v",
				w.completed.Load(), w.expired.Load(), w.broken.Load())
		}
	}
	wantEmpty(t, s.purgatory)
}

func (s *scenario) work(rng *rand.Rand) {
	for range 50 {
		switch rng.IntN(4) {
		case 0:
			s.watch(rng)
		case 1:
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		default:
			key := rng.IntN(len(s.counters))
			s.counters[key].Add(1)
			s.purgatory.Check(key)
		}
	}
}

func (s *scenario) watch(rng *rand.Rand) {
	keys := make([]int, rng.IntN(len(s.counters))+1)
	for i := range keys {
		keys[i] = rng.IntN(len(s.counters))
	}
	key, goal := keys[0], s.counters[keys[0]].Load()+int64(rng.IntN(5))
	w := &waiter{condition: func() bool { return s.counters[key].Load() >= goal }}
	timeout := time.Duration(rng.IntN(3000)) * time.Microsecond
	patient := rng.IntN(2) == 0
	if patient {
		timeout = 30 * time.Minute
	}
	s.mu.Lock()
	s.waiters = append(s.waiters, w)
	if patient {
		s.reachable = append(s.reachable, w)
	}
	s.mu.Unlock()
	s.purgatory.Watch(w, timeout, keys...)
}

// The same race in real time and on real processors: one operation at a time, completed by a checker just as it begins
// to wait. A lost wake-up would leave it to its deadline.
func TestNoWakeUpIsLost(t *testing.T) {
	p := New[int]()
	var condition atomic.Int64
	turns := make(chan int64)
	var checker sync.WaitGroup
	checker.Go(func() {
		for turn := range turns {
			for range turn % 50 {
				runtime.Gosched()
			}
			condition.Store(turn)
			p.Check(int(turn % 3))
		}
	})
	for turn := int64(1); turn < 20000; turn++ {
		over := make(chan struct{})
		w := &closer{condition: func() bool { return condition.Load() >= turn }, over: over}
		turns <- turn
		p.Watch(w, time.Minute, int(turn%3))
		<-over
		if w.expired {
			t.Fatalf("turn %d expired", turn)
		}
	}
	close(turns)
	checker.Wait()
	p.Close()
	wantEmpty(t, p)
}

type closer struct {
	condition func() bool
	over      chan struct{}
	expired   bool
}

func (c *closer) TryComplete() bool {
	if !c.condition() {
		return false
	}
	close(c.over)
	return true
}

func (c *closer) Expire() {
	c.expired = true
	close(c.over)
}
