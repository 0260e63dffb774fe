package upload

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/storage"
)

func TestTheSegmentFurthestBehindGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{width: 1}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		must(q.enter(t.Context(), 0))
		var order []int64
		for _, since := range []int64{900, 300, 500, 100, 700, 200} {
			go func() {
				must(q.enter(t.Context(), since))
				order = append(order, since)
			}()
			synctest.Wait() // they come in this order
		}
		ctx, giveUp := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- q.enter(ctx, 0) }()
		synctest.Wait()
		giveUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %v", err)
		}
		for range 6 {
			q.leave()
			synctest.Wait()
		}
		// The fourth is the one that came first.
		if want := []int64{100, 200, 300, 900, 500, 700}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
		q.leave()
		if q.inside != 0 || len(q.waiting) != 0 {
			t.Errorf("%d inside, %d waiting", q.inside, len(q.waiting))
		}
	})
}

func TestAWiderQueueLetsMoreIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, in := &queue{}, make(chan error, 5)
		for range 5 {
			go func() { in <- q.enter(t.Context(), 1) }()
		}
		synctest.Wait()
		for width, want := range []int{0, 1, 2, 2} {
			q.setWidth(min(width, 2))
			if synctest.Wait(); len(in) != want {
				t.Errorf("%d are in with a width of %d", len(in), width)
			}
		}
		q.setWidth(9)
		synctest.Wait()
	})
}

func TestWhenASegmentIsSealedForItsAge(t *testing.T) {
	const now = 100_000
	segment := func(first, end int64) []storage.SegmentInfo {
		return []storage.SegmentInfo{
			{BaseOffset: 0, EndOffset: 10, Sealed: true, FirstAppendedAt: 1},
			{BaseOffset: 10, EndOffset: end, FirstAppendedAt: first},
		}
	}
	for _, test := range []struct {
		name     string
		segments []storage.SegmentInfo
		after    time.Duration
		left     time.Duration
		open     bool
	}{
		{"no log", nil, time.Minute, 0, false},
		{"an empty segment", segment(-1, 10), time.Minute, 0, false},
		{"in ten seconds", segment(now-50_000, 20), time.Minute, 10 * time.Second, true},
		{"now", segment(now-60_000, 20), time.Minute, 0, true},
		{"long ago", segment(1, 20), time.Minute, 0, true},
		{"a segment of before a restart", segment(-1, 20), time.Minute, 0, true},
	} {
		left, open := untilRoll(test.segments, test.after, now)
		if left != test.left || open != test.open {
			t.Errorf("%s: %v, %v", test.name, left, open)
		}
	}
	for _, test := range []struct {
		settings Settings
		want     bool
	}{
		{Settings{}, true},
		{Settings{Paused: true}, false},
		{Settings{Hold: Hold{LagMs: 5, LagBytes: unlimited}}, false},
		{Settings{Hold: Hold{LagMs: 0, LagBytes: unlimited}}, true},
	} {
		if got := test.settings.rolls(); got != test.want {
			t.Errorf("%+v: %v", test.settings, got)
		}
	}
}
