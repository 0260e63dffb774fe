package sampler

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAProcessorTimeIsFoundBehindAnyName(t *testing.T) {
	own, children, err := parseStat([]byte("7 (a) R b) S 1 7 7 0 -1 4194560 1 2 3 4 150 25 30 5 20 0 1 0 5 6 7"))
	if err != nil || own != 1750*time.Millisecond || children != 350*time.Millisecond {
		t.Errorf("%v, %v, %v", own, children, err)
	}
	for _, wrong := range []string{"", "7 (a) S 1 7", "7 (a) S 1 7 7 0 -1 4194560 1 2 3 4 x 25 0 0"} {
		if got, _, err := parseStat([]byte(wrong)); err == nil {
			t.Errorf("%q is read as %v", wrong, got)
		}
	}
}

func TestNumbersOfAProcess(t *testing.T) {
	got := parseNumbers("Name:\tfirn 5\nVmHWM:\t  2048 kB\nThreads:\t9\nempty:\nnonvoluntary_ctxt_switches:\t42\n")
	want := map[string]int64{"VmHWM": 2048, "Threads": 9, "nonvoluntary_ctxt_switches": 42}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatOthersDoIsAShareOfTheMachine(t *testing.T) {
	before, err := parseMachine("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4\n")
	if err != nil {
		t.Fatal(err)
	}
	after, err := parseMachine("cpu  150 10 90 850 60 10 20 10 7 7\n")
	if err != nil {
		t.Fatal(err)
	}
	// 200 ticks went by: 60 idle, 140 busy, of which 100 were our own.
	if got := after.Foreign(before, time.Second); got != 0.2 {
		t.Errorf("others have used %v", got)
	}
	if got := after.Foreign(before, 2*time.Second); got != 0 {
		t.Errorf("others have used %v when we have used all", got)
	}
	if _, err := parseMachine("intr 5\n"); err == nil {
		t.Error("anything is read as the sum of all processors")
	}
}

func TestReadsThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	grown := make([]byte, 64<<20)
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
		for i := range grown {
			grown[i]++
		}
	}
	after, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	used := after.Since(before)
	if used.CPU < 20*time.Millisecond || used.CPU > 5*time.Second {
		t.Errorf("%v of processor time", used.CPU)
	}
	if used.Resident < 64<<20 || used.Peak < used.Resident || used.Threads < 1 || used.Reads < 1 {
		t.Errorf("%+v", used)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if most := Watch(ctx, os.Getpid(), time.Second); most < 64<<20 {
		t.Errorf("%d bytes are resident", most)
	}
	runtime.KeepAlive(grown)
	machine, err := OfMachine()
	if err != nil || machine.Busy <= 0 || machine.Total < machine.Busy {
		t.Errorf("%+v, %v", machine, err)
	}
}
