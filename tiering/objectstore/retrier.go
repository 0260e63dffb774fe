package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// RetryPolicy says how often and how patiently a request is tried.
type RetryPolicy struct {
	// Attempts is how often a request is tried in all. Default 8: with the waits below a store may be away for about
	// six seconds before the caller hears of it; callers that can wait longer have a loop of their own.
	Attempts int
	// AttemptTimeout is how long one attempt may take, besides the time for its bytes. Default 30 s.
	AttemptTimeout time.Duration
	// MinBytesPerSecond is the rate below which a request with data counts as hung. Default 1 MiB/s.
	MinBytesPerSecond int64
	// BackoffBase and BackoffMax bound the wait before attempt n+1: it is drawn from [0, min(max, base·2ⁿ)), so that
	// clients that failed together do not come back together. Defaults 100 ms and 20 s.
	BackoffBase time.Duration
	BackoffMax  time.Duration
}

// DefaultRetryPolicy is the policy of a node.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Attempts: 8, AttemptTimeout: 30 * time.Second, MinBytesPerSecond: 1 << 20,
		BackoffBase: 100 * time.Millisecond, BackoffMax: 20 * time.Second}
}

// Retrier tries requests until they succeed, fail for good, or have been tried often enough.
type Retrier struct {
	logger *slog.Logger
	policy RetryPolicy
	retry  func(Operation) // told before each attempt but the first

	mu  sync.Mutex // guards rng, which is not safe for concurrent use
	rng *rand.Rand
}

// NewRetrier makes a retrier that draws its waits from rng.
func NewRetrier(logger *slog.Logger, rng *rand.Rand, policy RetryPolicy) *Retrier {
	return &Retrier{logger: logger, rng: rng, policy: policy, retry: func(Operation) {}}
}

// attemptOf describes what is tried.
type attemptOf struct {
	operation Operation
	key       string
	bytes     int64 // that the request carries in either direction
	untimed   bool  // several requests, each with its own deadline below
}

// do runs attempt, which returns an *Error, until it succeeds or there is no use in trying again.
func (r *Retrier) do(ctx context.Context, what attemptOf, attempt func(ctx context.Context) error) error {
	for n := 1; ; n++ {
		err := r.try(ctx, what, attempt)
		var failure *Error
		if err == nil || !errors.As(err, &failure) {
			return err
		}
		if ctx.Err() != nil || failure.Kind != ErrUnavailable || failure.Attempts > 1 || n >= r.policy.Attempts {
			if failure.Attempts == 0 {
				counted := *failure
				counted.Attempts = n
				failure = &counted
			}
			return failure
		}
		wait := r.backoff(n)
		r.logger.Warn("object store request failed, trying again", "operation", failure.Operation, "bucket", failure.Bucket,
			"key", failure.Key, "status", failure.Status, "attempt", n, "wait", wait, "error", failure.Err)
		if !sleep(ctx, wait) {
			return &Error{Operation: failure.Operation, Bucket: failure.Bucket, Key: failure.Key, Status: "cancelled",
				Attempts: n, Err: fmt.Errorf("%w while waiting after: %s", ctx.Err(), failure.Error())}
		}
		r.retry(what.operation)
	}
}

// try makes one attempt. If its time is up, that is the store's fault, unless the caller's time is up too.
func (r *Retrier) try(ctx context.Context, what attemptOf, attempt func(ctx context.Context) error) error {
	if what.untimed {
		return attempt(ctx)
	}
	timeout := r.policy.AttemptTimeout + time.Duration(what.bytes/r.policy.MinBytesPerSecond)*time.Second
	attemptCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := attempt(attemptCtx)
	var failure *Error
	if attemptCtx.Err() == nil || ctx.Err() != nil || !errors.As(err, &failure) || failure.Kind != nil {
		return err
	}
	return &Error{Operation: failure.Operation, Bucket: failure.Bucket, Key: failure.Key, Status: "timeout",
		Kind: ErrUnavailable, Err: fmt.Errorf("not done within %s", timeout)}
}

// random draws a number for whoever needs one and shares the retrier.
func (r *Retrier) random() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.Uint64()
}

func (r *Retrier) backoff(attempt int) time.Duration {
	bound := r.policy.BackoffMax
	if attempt < 32 { // beyond that the shift would overflow; the bound is long reached
		bound = min(bound, r.policy.BackoffBase<<(attempt-1))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rng.Int64N(int64(bound) + 1))
}

// sleep waits and tells whether it could to the end.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func joinClose(err error, closer io.Closer) error { return errors.Join(err, closer.Close()) }
