package latency

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestOperationsBeginAtTheirTimesHoweverLateTheOneBeforeWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schedule := NewSchedule(time.Now(), 4)
		began := time.Now()
		for i, milliseconds := range []int64{0, 250, 500, 1300, 1300, 1300, 1500} { // the fourth is held up
			if err := schedule.Wait(t.Context(), int64(i)); err != nil {
				t.Fatal(err)
			}
			if i == 3 {
				time.Sleep(550 * time.Millisecond)
			}
			if got := time.Since(began).Milliseconds(); got != milliseconds {
				t.Errorf("operation %d is at %d ms, want %d", i, got, milliseconds)
			}
		}
		if n := schedule.Operations(1500 * time.Millisecond); n != 6 {
			t.Errorf("%d operations begin within 1.5 s", n)
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schedule := NewSchedule(time.Now(), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := schedule.Wait(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting ended with %v", err)
		}
	})
}

func TestHistogramsAddUpAndKeepToTheirBounds(t *testing.T) {
	first, second := NewHistogram(), NewHistogram()
	for i := range 900 {
		first.Record(time.Duration(i+1) * time.Millisecond)
	}
	for range 100 {
		second.Record(time.Hour)
	}
	second.Record(-time.Second)
	first.Add(second)
	if first.Count() != 1001 {
		t.Errorf("%d were counted", first.Count())
	}
	for share, want := range map[float64]time.Duration{
		0.5: 500 * time.Millisecond, 0.899: 899 * time.Millisecond, 0.99: highest,
	} {
		if got := first.Quantile(share); got < want*99/100 || got > want*101/100 {
			t.Errorf("quantile %v is %v, want %v", share, got, want)
		}
	}
	if got := first.Quantile(0); got > lowest {
		t.Errorf("the shortest is %v", got)
	}
	if got := first.Max(); got < highest*99/100 {
		t.Errorf("the longest is %v", got)
	}
	if got := NewHistogram().Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}
