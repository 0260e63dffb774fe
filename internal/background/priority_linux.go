package background

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// niceness is low enough for requests to go first, and not so low that a thread that holds a lock hardly ever comes to
	// its turn: with SCHED_IDLE requests were seen to wait for half a second.
	niceness = 10
	// slice is for how long the thread is let run before one of higher priority that wakes up takes over: since Linux 6.12
	// a running thread has its slice first, 3 ms unless it asks for less. Older systems pass over it.
	slice = 100 * time.Microsecond
)

// lowerPriority lowers the priority of this thread. Where a sandbox forbids the call, or the process has a lower one
// already, the thread is like all others.
func lowerPriority() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: niceness, Runtime: uint64(slice),
	}, 0)
}
