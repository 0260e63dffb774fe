package upload

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// budget keeps uploads to so many bytes a second on average (remote.log.manager.copy.max.bytes.per.second, KIP-956): a
// segment may go once those before it are paid for, and goes at full speed then. It is paid for whether or not the
// store takes it, since it is the network and the disk that are spared.
type budget struct {
	throttled prometheus.Counter // seconds waited
	turn      chan struct{}      // holds one while somebody waits for the bytes: the first to come goes first

	mu      sync.Mutex // guards the fields below
	rate    int64      // bytes a second; 0 is no limit
	debt    float64    // bytes not paid for, as of at
	at      time.Time
	changed chan struct{} // closed when the rate has changed
}

// newBudget makes one without a limit.
func newBudget(throttled prometheus.Counter) *budget {
	return &budget{throttled: throttled, turn: make(chan struct{}, 1), changed: make(chan struct{})}
}

func (b *budget) setRate(rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rate == b.rate {
		return
	}
	b.pay(time.Now())
	b.rate = rate
	close(b.changed)
	b.changed = make(chan struct{})
}

// pay takes off what the time that has passed is worth. It needs mu.
func (b *budget) pay(now time.Time) {
	b.debt = max(0, b.debt-float64(b.rate)*now.Sub(b.at).Seconds())
	b.at = now
}

// try takes the bytes, or tells how long to wait if nothing changes before.
func (b *budget) try(now time.Time, bytes int64) (wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate <= 0 {
		b.debt = 0
		return 0, nil
	}
	b.pay(now)
	if b.debt == 0 {
		b.debt = float64(bytes)
		return 0, nil
	}
	return max(time.Duration(b.debt/float64(b.rate)*float64(time.Second)), time.Millisecond), b.changed
}

// spend waits until so many bytes may go; segments of a log that overtake each other are of no use, since they are
// committed in order. Its error is that of ctx.
func (b *budget) spend(ctx context.Context, bytes int64) error {
	began := time.Now()
	defer func() { b.throttled.Add(time.Since(began).Seconds()) }()
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		wait, changed := b.try(time.Now(), bytes)
		if wait == 0 {
			return nil
		}
		if !sleep(ctx, wait, changed) {
			return ctx.Err()
		}
	}
}
