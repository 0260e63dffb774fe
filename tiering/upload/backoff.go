package upload

import (
	"math/rand/v2"
	"time"
)

// The first and the longest wait before something is tried again, as remote.log.manager.task.retry.backoff.* in Kafka.
const (
	retryMin = 500 * time.Millisecond
	retryMax = 30 * time.Second
)

// backoff spreads retries: each wait is drawn from twice the range of the one before it (full jitter).
type backoff struct {
	random *rand.Rand
	limit  time.Duration
}

func newBackoff(random *rand.Rand) *backoff { return &backoff{random: random, limit: retryMin} }

func (b *backoff) next() time.Duration {
	wait := time.Duration(b.random.Int64N(int64(b.limit))) + 1
	b.limit = min(2*b.limit, retryMax)
	return wait
}

func (b *backoff) reset() { b.limit = retryMin }
