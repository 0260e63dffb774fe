package server

import (
	"math/bits"
	"sync/atomic"
)

const (
	// subBuckets is into how many buckets each power of two is divided: a quantile is off by an eighth at most.
	subBuckets     = 4
	subBucketBits  = 2
	largestOctave  = 32 // 2³² µs are more than an hour, and no request has 4 GiB
	bucketCount    = (largestOctave - subBucketBits + 2) * subBuckets
	firstHistogram = 6 // 2⁶ µs: the first bound of the exported histogram
	histogramStep  = 2 // its bounds are four times apart
	lastHistogram  = 24
)

// distribution counts values, microseconds or bytes, so that it costs two atomic additions to record one.
type distribution struct {
	buckets [bucketCount]atomic.Uint64
	sum     atomic.Uint64
}

// record takes in a value; a negative one, which a clock that is read in two places may give, is zero.
func (d *distribution) record(value int64) {
	v := uint64(max(value, 0))
	d.buckets[bucketOf(v)].Add(1)
	d.sum.Add(v)
}

// bucketOf finds the bucket of a value: one for each of the smallest values, then subBuckets for each power of two.
func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	octave := bits.Len64(v) - 1
	if octave > largestOctave {
		return bucketCount - 1
	}
	return (octave-subBucketBits+1)*subBuckets + int(v>>(octave-subBucketBits))&(subBuckets-1)
}

// lowerBound is the smallest value of a bucket.
func lowerBound(bucket int) float64 {
	if bucket < subBuckets {
		return float64(bucket)
	}
	octave := bucket/subBuckets + subBucketBits - 1
	return float64(uint64(subBuckets+bucket%subBuckets) << (octave - subBucketBits))
}

// sample is what a distribution held at some moment.
type sample struct {
	buckets [bucketCount]uint64
	count   uint64
	sum     uint64
}

func (d *distribution) sample() *sample {
	s := &sample{sum: d.sum.Load()}
	for i := range d.buckets {
		s.buckets[i] = d.buckets[i].Load()
		s.count += s.buckets[i]
	}
	return s
}

// quantile estimates below which value the part q of what was recorded since an earlier sample (or ever, if that is
// nil) lies. It is not known, false, if nothing was.
func (s *sample) quantile(q float64, since *sample) (value float64, known bool) {
	if since == nil {
		since = &sample{}
	}
	count := s.count - since.count
	if count == 0 {
		return 0, false
	}
	rank, below := q*float64(count), float64(0)
	for i := range s.buckets {
		here := float64(s.buckets[i] - since.buckets[i])
		if here > 0 && below+here >= rank {
			from, to := lowerBound(i), lowerBound(i+1)
			if i < subBuckets {
				to = from // such a bucket is one value
			}
			return from + (to-from)*(rank-below)/here, true
		}
		below += here
	}
	return lowerBound(bucketCount - 1), true
}

// histogram gives the cumulative counts below the bounds of the exported histogram, in seconds.
func (s *sample) histogram() map[float64]uint64 {
	counts := make(map[float64]uint64)
	bucket, below := 0, uint64(0)
	for octave := firstHistogram; octave <= lastHistogram; octave += histogramStep {
		bound := uint64(1) << octave
		for ; bucket < bucketOf(bound); bucket++ {
			below += s.buckets[bucket]
		}
		counts[float64(bound)/1e6] = below
	}
	return counts
}
