// Package background runs long computations beside requests so that these do not wait for them. The log cleaner uses
// it.
//
// A goroutine that computes, or waits in a system call such as fdatasync, holds one of the processors that Go's
// scheduler shares out (GOMAXPROCS), and for up to 10 ms nobody takes it away. On a machine with few of them requests
// wait that long, although the system would have let them run. So there is one more for each computation, and a few for
// all others together; it is the system that decides who runs: whoever wakes up goes before a thread of low priority.
package background

import (
	"runtime"
	"sync"
)

// Run runs work and returns when it has ended, in a goroutine and on a thread of its own, of low priority where the
// system has such (Linux). What work starts with go, and waits for, runs at ordinary priority.
func Run(work func()) {
	extra.add()
	defer extra.remove()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread could not have its priority back, and ends with the goroutine
		lowerPriority()
		work()
	}()
	<-done
}

// fewest is how many of Go's processors there are at least besides those of computations. Flushes and removals of
// files take one, too, and must not take all that are left.
const fewest = 3

// extra counts the computations that run, each with a processor of Go's.
var extra extraProcessors

type extraProcessors struct {
	mu        sync.Mutex // guards the fields below, and GOMAXPROCS
	running   int
	ordinary  int // GOMAXPROCS without them
	automatic bool
}

func (e *extraProcessors) add() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == 0 {
		e.ordinary = runtime.GOMAXPROCS(0)
		runtime.SetDefaultGOMAXPROCS()
		e.automatic = runtime.GOMAXPROCS(0) == e.ordinary // nobody has set another
	}
	e.running++
	e.set()
}

func (e *extraProcessors) set() { runtime.GOMAXPROCS(max(e.ordinary, fewest) + e.running) }

func (e *extraProcessors) remove() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	switch {
	case e.running > 0:
		e.set()
	case e.automatic:
		runtime.SetDefaultGOMAXPROCS() // it follows the limits of a container again
	default:
		runtime.GOMAXPROCS(e.ordinary)
	}
}
