package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestAWiderGateLetsThoseInWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, in := New(2), make(chan int, 10)
		for i := range 5 {
			go func() {
				if err := g.Enter(t.Context()); err != nil {
					t.Error(err)
				}
				in <- i
			}()
		}
		expect := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if len(in) != want {
				t.Fatalf("%d are in %s, want %d", len(in), when, want)
			}
		}
		expect(2, "at first")
		g.SetWidth(3)
		expect(3, "when it is wider")
		g.SetWidth(1)
		g.Leave()
		g.Leave()
		expect(3, "while one is left of one")
		g.Leave()
		expect(4, "when the last has left")
		g.SetWidth(9)
		expect(5, "when there is room for all")
	})
}

func TestWhoGivesUpTakesNoPlace(t *testing.T) {
	g := New(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Enter(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a closed gate: %v", err)
	}
	g.SetWidth(1)
	if err := g.Enter(t.Context()); err != nil {
		t.Error(err)
	}
}
