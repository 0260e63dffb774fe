package background

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// nicenessHere is that of this goroutine's thread, which it keeps.
func nicenessHere(t *testing.T) int {
	t.Helper()
	runtime.LockOSThread()
	answer, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Error(err)
	}
	return 20 - answer // the system call's answer is never negative
}

func nicenessOfAnother(t *testing.T) int {
	t.Helper()
	found := make(chan int)
	go func() { found <- nicenessHere(t) }()
	return <-found
}

func TestOnlyTheWorkHasLowPriority(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a thread that is free is the next one's
	ordinary := nicenessOfAnother(t)
	for range 100 {
		var within, started int
		Run(func() {
			within = nicenessHere(t)
			started = nicenessOfAnother(t)
		})
		after := nicenessOfAnother(t)
		if within != max(ordinary, niceness) || started != ordinary || after != ordinary {
			t.Fatalf("niceness %d within, %d of what it starts, %d afterwards; ordinary is %d", within, started, after, ordinary)
		}
	}
}
