// Package budget keeps work in the background to so many bytes a second on average: uploads, compaction, verification.
// It spares a network, a disk and a bill; it never gives anybody a share of his own.
package budget

import (
	"context"
	"math"
	"sync"
	"time"
)

// Bytes is a budget of bytes. Who spends may do so once all that was spent before is paid for, and then at full speed;
// the first to come goes first. Its methods may be called from any goroutine.
type Bytes struct {
	turn chan struct{} // holds one while somebody waits

	mu      sync.Mutex // guards the fields below
	rate    float64    // bytes a second; 0 is no limit
	debt    float64    // bytes not paid for, as of at; negative is credit
	at      time.Time
	changed chan struct{} // closed when the rate has changed
}

const (
	// credit is how long somebody may be late without losing what he was late by: timers are, and who spends little at a
	// time would never get to the rate. What is not used for longer is not saved up.
	credit = 5 * time.Millisecond
	// shortest is the shortest wait: a shorter one costs more than it says.
	shortest = time.Millisecond
)

// New makes a budget of so many bytes a second; see SetRate.
func New(perSecond float64) *Bytes {
	b := &Bytes{turn: make(chan struct{}, 1), changed: make(chan struct{})}
	b.SetRate(perSecond)
	return b
}

// SetRate changes the budget. Who waits goes by the new one at once. 0 and less, or what no integer can be, is no
// limit: the largest numbers are how Kafka's settings say so.
func (b *Bytes) SetRate(perSecond float64) {
	if perSecond < 0 || perSecond >= math.MaxInt64 {
		perSecond = 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if perSecond == b.rate {
		return
	}
	b.pay(time.Now())
	b.rate = perSecond
	close(b.changed)
	b.changed = make(chan struct{})
}

// Spend waits until so many bytes may be read, written or sent, and tells for how long it did. They count from then on,
// whatever becomes of them. Its error is that of ctx.
func (b *Bytes) Spend(ctx context.Context, bytes int64) (waited time.Duration, err error) {
	began := time.Now()
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return time.Since(began), ctx.Err()
	}
	for {
		wait, changed := b.try(bytes)
		if wait == 0 {
			return time.Since(began), nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return time.Since(began), ctx.Err()
		case <-timer.C:
		case <-changed:
			timer.Stop()
		}
	}
}

// try takes the bytes, or tells how long to wait if nothing changes before.
func (b *Bytes) try(bytes int64) (wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate == 0 {
		b.debt = 0
		return 0, nil
	}
	b.pay(time.Now())
	if b.debt <= 0 {
		b.debt += float64(bytes)
		return 0, nil
	}
	return max(time.Duration(b.debt/b.rate*float64(time.Second)), shortest), b.changed
}

// pay takes off what the time that has passed is worth. It needs mu.
func (b *Bytes) pay(now time.Time) {
	b.debt = max(-b.rate*credit.Seconds(), b.debt-b.rate*now.Sub(b.at).Seconds())
	b.at = now
}
