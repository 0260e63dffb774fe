package budget

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slack is what credit and the shortest wait make of a time.
const slack = 10 * time.Millisecond

func TestBytesKeepToTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := New(100), time.Now()
		var waited time.Duration
		spend := func(bytes int64, want time.Duration) {
			t.Helper()
			wait, err := b.Spend(t.Context(), bytes)
			if err != nil {
				t.Error(err)
			}
			waited += wait
			if took := time.Since(began); took < want-slack || took > want+slack {
				t.Errorf("%d bytes may go after %v, want %v", bytes, took, want)
			}
		}
		spend(1000, 0) // at full speed
		spend(500, 10*time.Second)
		spend(1, 15*time.Second)
		time.Sleep(time.Minute) // what was not used is not saved up
		spend(200, 75*time.Second)
		spend(1000, 77*time.Second)
		if waited < 17*time.Second-slack || waited > 17*time.Second+slack {
			t.Errorf("%v were waited", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if wait, err := b.Spend(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || wait != time.Second {
			t.Errorf("%v after %v", err, wait)
		}
		go func() {
			time.Sleep(time.Second)
			b.SetRate(800) // of 1000 bytes 200 are paid for
		}()
		spend(1, 80*time.Second)
		b.SetRate(0)
		spend(1<<60, 80*time.Second)
		for _, unlimited := range []float64{0, -1, math.MaxInt64, math.MaxFloat64, math.Inf(1)} {
			b.SetRate(1)
			spend(1<<60, 80*time.Second)
			b.SetRate(unlimited)
			spend(1<<60, 80*time.Second)
			spend(1<<60, 80*time.Second)
		}
	})
}

// Many who spend little at a time get to the rate together, and not beyond, at any rate.
func TestManyShareOneBudget(t *testing.T) {
	for _, rate := range []float64{1e6, 1e8, 1e11} {
		synctest.Test(t, func(t *testing.T) {
			b, start := New(rate), time.Now()
			const seconds, pieces, spenders = 2, 20_000, 4
			var all sync.WaitGroup
			for range spenders {
				all.Go(func() {
					for range pieces / spenders {
						if _, err := b.Spend(t.Context(), int64(rate*seconds/pieces)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if took := time.Since(start); took < seconds*time.Second-2*slack || took > seconds*time.Second+slack {
				t.Errorf("what %v a second lets through in %d s took %v", rate, seconds, took)
			}
		})
	}
}

func TestTheFirstToComeGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		var mu sync.Mutex // guards order
		var order []int64
		var all sync.WaitGroup
		for bytes := range int64(6) {
			all.Go(func() {
				if _, err := b.Spend(t.Context(), 10+bytes); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, bytes)
			})
			synctest.Wait()
		}
		all.Wait()
		if want := []int64{0, 1, 2, 3, 4, 5}; !slices.Equal(order, want) {
			t.Errorf("the order is %v", order)
		}
	})
}
