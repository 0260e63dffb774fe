package purgatory

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waiter is an operation that completes once its condition holds, and checks what is promised to operations.
type waiter struct {
	condition func() bool
	during    func() // called inside TryComplete, after the condition has been looked at
	inside    atomic.Bool
	tries     atomic.Int32
	completed atomic.Int32
	expired   atomic.Int32
	broken    atomic.Bool // two calls at once, or a call after the end
}

func (w *waiter) enter() {
	if !w.inside.CompareAndSwap(false, true) || w.over() {
		w.broken.Store(true)
	}
}

func (w *waiter) over() bool { return w.completed.Load()+w.expired.Load() > 0 }

func (w *waiter) TryComplete() bool {
	w.enter()
	defer w.inside.Store(false)
	w.tries.Add(1)
	holds := w.condition()
	if w.during != nil {
		w.during()
	}
	if holds {
		w.completed.Add(1)
	}
	return holds
}

func (w *waiter) Expire() {
	w.enter()
	defer w.inside.Store(false)
	w.expired.Add(1)
}

func (w *waiter) want(t testing.TB, completed, expired int32) {
	t.Helper()
	if w.completed.Load() != completed || w.expired.Load() != expired || w.broken.Load() {
		t.Fatalf("completed %d times, expired %d times, misused: %v; want %d and %d",
			w.completed.Load(), w.expired.Load(), w.broken.Load(), completed, expired)
	}
}

func wantEmpty[K comparable](t testing.TB, p *Purgatory[K]) {
	t.Helper()
	watches, keys := p.Watches()
	if p.Len() != 0 || watches != 0 || keys != 0 || p.all.first != nil || p.all.last != nil {
		t.Fatalf("%d operations, %d watches, %d keys left", p.Len(), watches, keys)
	}
	for i := range p.filter {
		if n := p.filter[i].Load(); n != 0 {
			t.Fatalf("filter slot %d holds %d", i, n)
		}
	}
}

func never() bool { return false }

func TestPurgatory(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, p *Purgatory[string]){
		"what is complete already does not wait": func(t *testing.T, p *Purgatory[string]) {
			w := &waiter{condition: func() bool { return true }}
			if !p.Watch(w, time.Minute, "a") {
				t.Error("it waits")
			}
			w.want(t, 1, 0)
		},
		"what may not wait expires at once": func(t *testing.T, p *Purgatory[string]) {
			w := &waiter{condition: never}
			if !p.Watch(w, 0, "a") {
				t.Error("it waits")
			}
			w.want(t, 0, 1)
		},
		"a check of one of its keys completes an operation, once its condition holds": checkCompletes,
		"a deadline expires an operation, and only that one":                          deadlineExpires,
		"an operation without keys waits for its deadline": func(t *testing.T, p *Purgatory[string]) {
			w := &waiter{condition: never}
			p.Watch(w, time.Minute)
			time.Sleep(time.Minute + 1)
			w.want(t, 0, 1)
		},
		"an operation whose condition holds at its deadline completes": func(t *testing.T, p *Purgatory[string]) {
			start := time.Now()
			w := &waiter{condition: func() bool { return time.Since(start) >= time.Minute }}
			p.Watch(w, time.Minute, "a")
			time.Sleep(time.Minute + 1)
			w.want(t, 1, 0)
		},
		"an operation on many keys is forgotten under all of them": manyKeys,
		"a key given twice is no harm": func(t *testing.T, p *Purgatory[string]) {
			holds := false
			w := &waiter{condition: func() bool { return holds }}
			p.Watch(w, time.Minute, "a", "a")
			holds = true
			if n := p.Check("a"); n != 1 {
				t.Errorf("%d completed", n)
			}
			w.want(t, 1, 0)
		},
		"a condition that comes true between the first try and the watch is seen": func(t *testing.T,
			p *Purgatory[string],
		) {
			holds := false
			w := &waiter{condition: func() bool { return holds }}
			w.during = func() { holds = true }
			if !p.Watch(w, time.Minute, "a") {
				t.Error("it waits")
			}
			w.want(t, 1, 0)
		},
		"a check while the operation is being tried has it tried again": checkDuringTry,
		"operations that check each other's keys do not block":          crossChecks,
		"more operations on one key than fit a batch all complete":      manyOperations,
		"closing expires everything, and nothing waits afterwards":      closing,
		"closing waits for an operation that is being tried":            closingWaits,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New[string]()
				run(t, p)
				wantEmpty(t, p)
			})
		})
	}
}

func checkCompletes(t *testing.T, p *Purgatory[string]) {
	holds := false
	w := &waiter{condition: func() bool { return holds }}
	if p.Watch(w, time.Minute, "a", "b") {
		t.Error("it does not wait")
	}
	if p.Len() != 1 || !p.Watched("a") || !p.Watched("b") || p.Watched("c") {
		t.Errorf("%d wait", p.Len())
	}
	if n := p.Check("b"); n != 0 {
		t.Errorf("%d completed too early", n)
	}
	holds = true
	if n := p.Check("c"); n != 0 {
		t.Errorf("%d completed by a key they do not watch", n)
	}
	w.want(t, 0, 0)
	if n := p.Check("b"); n != 1 {
		t.Errorf("%d completed", n)
	}
	w.want(t, 1, 0)
	if n := p.Check("a"); n != 0 || p.Watched("a") {
		t.Errorf("%d completed again", n)
	}
	time.Sleep(time.Hour)
	w.want(t, 1, 0)
}

func deadlineExpires(t *testing.T, p *Purgatory[string]) {
	short, long := &waiter{condition: never}, &waiter{condition: never}
	p.Watch(short, time.Minute, "a")
	p.Watch(long, time.Hour, "a")
	time.Sleep(time.Minute - 1)
	synctest.Wait()
	short.want(t, 0, 0)
	time.Sleep(1)
	synctest.Wait()
	short.want(t, 0, 1)
	long.want(t, 0, 0)
	p.Check("a")
	if tries := long.tries.Load(); tries != 3 {
		t.Errorf("tried %d times", tries)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	short.want(t, 0, 1)
	long.want(t, 0, 1)
}

func manyKeys(t *testing.T, p *Purgatory[string]) {
	keys := []string{}
	for i := range 100 {
		keys = append(keys, string(rune('a'+i)))
	}
	holds := false
	first, second := &waiter{condition: func() bool { return holds }}, &waiter{condition: never}
	p.Watch(first, time.Minute, keys...)
	p.Watch(second, time.Minute, keys[:50]...)
	if watches, watched := p.Watches(); watches != 150 || watched != 100 {
		t.Errorf("%d watches on %d keys", watches, watched)
	}
	holds = true
	p.Check(keys[70])
	if watches, watched := p.Watches(); watches != 50 || watched != 50 || p.Len() != 1 {
		t.Errorf("%d watches on %d keys, %d operations", watches, watched, p.Len())
	}
	time.Sleep(time.Minute + 1)
	first.want(t, 1, 0)
	second.want(t, 0, 1)
}

func checkDuringTry(t *testing.T, p *Purgatory[string]) {
	holds := false
	looked, resume := make(chan struct{}), make(chan struct{})
	w := &waiter{condition: func() bool { return holds }}
	p.Watch(w, time.Minute, "a")
	w.during = func() {
		looked <- struct{}{}
		<-resume
	}
	result := make(chan int)
	go func() { result <- p.Check("a") }()
	<-looked // and found it false
	w.during = nil
	holds = true
	if n := p.Check("a"); n != 0 {
		t.Errorf("%d completed by the second check, which must leave it to the first", n)
	}
	close(resume)
	if n := <-result; n != 1 {
		t.Errorf("%d completed", n)
	}
	w.want(t, 1, 0)
}

func crossChecks(t *testing.T, p *Purgatory[string]) {
	holds := false
	a, b := &waiter{condition: func() bool { return holds }}, &waiter{condition: func() bool { return holds }}
	p.Watch(a, time.Minute, "a")
	p.Watch(b, time.Minute, "b")
	rounds := 0
	a.during = func() {
		if rounds++; rounds < 3 { // each check has the other tried, which checks this one
			p.Check("b")
		}
	}
	b.during = func() { p.Check("a") }
	p.Check("a")
	holds = true
	p.Check("a")
	p.Check("b")
	a.want(t, 1, 0)
	b.want(t, 1, 0)
}

func manyOperations(t *testing.T, p *Purgatory[string]) {
	holds := false
	waiters := make([]waiter, 3*checkBatch)
	for i := range waiters {
		waiters[i].condition = func() bool { return holds }
		p.Watch(&waiters[i], time.Minute, "a")
	}
	holds = true
	if n := p.Check("a"); n != len(waiters) {
		t.Errorf("%d completed", n)
	}
	for i := range waiters {
		waiters[i].want(t, 1, 0)
	}
}

func closing(t *testing.T, p *Purgatory[string]) {
	a, b, late := &waiter{condition: never}, &waiter{condition: never}, &waiter{condition: never}
	p.Watch(a, time.Minute, "a")
	p.Watch(b, time.Minute, "a", "b")
	p.Close()
	a.want(t, 0, 1)
	b.want(t, 0, 1)
	if !p.Watch(late, time.Minute, "a") {
		t.Error("it waits after the end")
	}
	late.want(t, 0, 1)
	done := &waiter{condition: func() bool { return true }}
	p.Watch(done, time.Minute, "a")
	done.want(t, 1, 0)
	p.Close()
}

func closingWaits(t *testing.T, p *Purgatory[string]) {
	inside, resume := make(chan struct{}), make(chan struct{})
	w := &waiter{condition: never}
	p.Watch(w, time.Minute, "a")
	w.during = func() {
		w.during = nil
		close(inside)
		<-resume
	}
	go p.Check("a")
	<-inside
	var closed sync.WaitGroup
	over := atomic.Bool{}
	closed.Go(func() {
		p.Close()
		over.Store(true)
	})
	synctest.Wait()
	if over.Load() {
		t.Error("closed while an operation is being tried")
	}
	close(resume)
	closed.Wait()
	w.want(t, 0, 1)
}

type partitionKey struct {
	topic     string
	partition int32
}

func TestCheckDoesNotAllocate(t *testing.T) {
	byValue, byPointer := New[partitionKey](), New[*waiter]()
	key, pointer := partitionKey{"topic", 3}, &waiter{}
	waits := &waiter{condition: never}
	byValue.Watch(waits, time.Hour, partitionKey{"watched", 0})
	defer byValue.Close()
	for name, check := range map[string]func(){
		"of a key that nobody watches":     func() { byValue.Check(key) },
		"of a pointer that nobody watches": func() { byPointer.Check(pointer) },
		"of a watched key":                 func() { byValue.Check(partitionKey{"watched", 0}) },
		"whether a key is watched":         func() { byValue.Watched(partitionKey{"watched", 0}) },
	} {
		if allocs := testing.AllocsPerRun(100, check); allocs != 0 {
			t.Errorf("a check %s: %v allocations", name, allocs)
		}
	}
}

func BenchmarkCheckUnwatched(b *testing.B) {
	p := New[partitionKey]()
	for i := range 100 {
		p.Watch(&waiter{condition: never}, time.Hour, partitionKey{"watched", int32(i)})
	}
	defer p.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		key := partitionKey{"topic", 0}
		for pb.Next() {
			key.partition++
			p.Check(key)
		}
	})
}

func BenchmarkWatchAndComplete(b *testing.B) {
	p := New[partitionKey]()
	b.ReportAllocs()
	for range b.N {
		holds := false
		w := &waiter{condition: func() bool { return holds }}
		p.Watch(w, time.Hour, partitionKey{"topic", 0})
		holds = true
		p.Check(partitionKey{"topic", 0})
	}
}
