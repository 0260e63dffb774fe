package background

import (
	"runtime"
	"testing"
)

func TestEachComputationHasAProcessorMore(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var one, two, left int
	Run(func() {
		one = runtime.GOMAXPROCS(0)
		Run(func() { two = runtime.GOMAXPROCS(0) })
		left = runtime.GOMAXPROCS(0)
	})
	if after := runtime.GOMAXPROCS(0); one != 2 || two != 3 || left != 2 || after != 1 {
		t.Errorf("%d processors with one computation, %d with two, then %d and %d; want 2, 3, 2, 1", one, two, left, after)
	}
}

func TestTheDefaultComesBack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.SetDefaultGOMAXPROCS()
	before := runtime.GOMAXPROCS(0)
	Run(func() {
		if got := runtime.GOMAXPROCS(0); got != before+1 {
			t.Errorf("%d processors instead of %d", got, before+1)
		}
	})
	if after := runtime.GOMAXPROCS(0); after != before || !extra.automatic {
		t.Errorf("%d processors afterwards instead of %d, automatic: %v", after, before, extra.automatic)
	}
}

func TestRunWaitsForItsWork(t *testing.T) {
	done := false
	Run(func() {
		runtime.Gosched()
		done = true
	})
	if !done {
		t.Error("the work has not ended")
	}
}
