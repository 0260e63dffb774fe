package latency

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What a histogram tells apart: three digits between a microsecond and ten minutes, in some 180 KiB.
const (
	lowest  = time.Microsecond
	highest = 10 * time.Minute
	digits  = 3
)

// Histogram counts durations. Each goroutine has its own; Add joins them.
type Histogram struct{ counts *hdrhistogram.Histogram }

// NewHistogram is empty.
func NewHistogram() *Histogram {
	return &Histogram{counts: hdrhistogram.New(lowest.Nanoseconds(), highest.Nanoseconds(), digits)}
}

// Record counts a duration; one beyond the histogram's bounds counts as the bound.
func (h *Histogram) Record(d time.Duration) {
	// The value lies within the bounds, so there is no error.
	_ = h.counts.RecordValue(min(max(d, lowest), highest).Nanoseconds())
}

// Add counts all that another histogram has counted.
func (h *Histogram) Add(other *Histogram) { h.counts.Merge(other.counts) }

// Count is how many durations were counted.
func (h *Histogram) Count() int64 { return h.counts.TotalCount() }

// Quantile is the duration that a share of all, from 0 to 1, did not exceed; 0 if nothing was counted.
func (h *Histogram) Quantile(share float64) time.Duration {
	return time.Duration(h.counts.ValueAtQuantile(100 * share))
}

// Mean is the average.
func (h *Histogram) Mean() time.Duration { return time.Duration(h.counts.Mean()) }

// Max is the longest.
func (h *Histogram) Max() time.Duration { return time.Duration(h.counts.Max()) }
