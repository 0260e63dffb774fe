package compaction

import (
	"context"
	"math"
	"sync"
	"time"
)

// throttle is the budget of bytes a second that all workers share (log.cleaner.io.max.bytes.per.second). Who takes from
// it waits until what was taken before has been earned, so that no worker can starve another.
type throttle struct {
	mu        sync.Mutex // guards the fields below
	perSecond float64
	earned    time.Time     // when everything that was taken so far will have been earned
	changed   chan struct{} // closed when the budget is another one; nil until somebody waits
}

// unlimited is the budget from which on nobody waits: Kafka's default is the largest double.
const unlimited = math.MaxInt64

// set changes the budget. Who waits goes by the new one at once: by the old one it might wait for days.
func (t *throttle) set(perSecond float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.perSecond, t.earned = perSecond, time.Time{}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// take waits until so many bytes more may be read or written, or until ctx ends.
func (t *throttle) take(ctx context.Context, bytes int) error {
	for {
		wait, changed := t.reserve(bytes)
		if wait <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-changed:
			timer.Stop()
		}
	}
}

// reserve takes bytes out of the budget and tells how long to wait for them, unless it changes before.
func (t *throttle) reserve(bytes int) (wait time.Duration, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.perSecond >= unlimited || t.perSecond <= 0 {
		return 0, nil
	}
	now := time.Now()
	if t.earned.Before(now) {
		t.earned = now
	}
	t.earned = t.earned.Add(time.Duration(float64(bytes) / t.perSecond * float64(time.Second)))
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.earned.Sub(now), t.changed
}
