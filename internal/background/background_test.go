package background

import (
	"runtime"
	"testing"
)

func TestEachComputationHasAProcessorMore(t *testing.T) {
	for _, ordinary := range []int{1, fewest, fewest + 2} {
		before := runtime.GOMAXPROCS(ordinary)
		defer runtime.GOMAXPROCS(before)
		var one, two, left int
		Run(func() {
			one = runtime.GOMAXPROCS(0)
			Run(func() { two = runtime.GOMAXPROCS(0) })
			left = runtime.GOMAXPROCS(0)
		})
		others := max(ordinary, fewest)
		if one != others+1 || two != others+2 || left != others+1 {
			t.Errorf("%d processors with one computation, %d with two, then %d; the others have %d", one, two, left, others)
		}
		if after := runtime.GOMAXPROCS(0); after != ordinary {
			t.Errorf("%d processors afterwards instead of %d", after, ordinary)
		}
	}
}

func TestTheDefaultComesBack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.SetDefaultGOMAXPROCS()
	before := runtime.GOMAXPROCS(0)
	Run(func() {})
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
