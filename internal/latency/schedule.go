package latency

import (
	"context"
	"time"
)

// Schedule is a fixed rate: operation i should begin i/rate seconds after the first.
type Schedule struct {
	start     time.Time
	perSecond float64
}

// NewSchedule begins at a time. The rate is positive.
func NewSchedule(start time.Time, perSecond float64) Schedule {
	return Schedule{start: start, perSecond: perSecond}
}

// At is the intended start of operation i, counted from 0.
func (s Schedule) At(i int64) time.Time {
	return s.start.Add(time.Duration(float64(i) / s.perSecond * float64(time.Second)))
}

// Operations is how many begin before an amount of time has passed.
func (s Schedule) Operations(within time.Duration) int64 {
	return int64(within.Seconds() * s.perSecond)
}

// Wait returns at the intended start of operation i, or at once when it has passed. Its error is that of the context.
func (s Schedule) Wait(ctx context.Context, i int64) error {
	left := time.Until(s.At(i))
	if left <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
