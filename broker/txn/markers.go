package txn

import (
	"context"
	"sync"
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/gate"
	"github.com/firnlog/firn/internal/kafka"
)

const (
	// maxEnding is how many transactions have their markers written at a time: each waits for a flush, which the markers
	// of the others share.
	maxEnding = 256
	// Markers that could not be written are written again, at first soon.
	retryMarkersAfter = 20 * time.Millisecond
	retryMarkersMax   = time.Second
)

// job is a transaction whose outcome is committed and whose partitions are to be told.
type job struct {
	shard       *coordinator.Shard
	id          string
	transaction Transaction
}

// jobs are the transactions whose markers nobody writes yet. There is at most one for each transactional id.
type jobs struct {
	mu     sync.Mutex // guards the fields below; a leaf
	queued []job
	ready  chan struct{} // a token when there is something in queued
}

func (q *jobs) add(j job) {
	q.mu.Lock()
	q.queued = append(q.queued, j)
	q.mu.Unlock()
	signal(q.ready)
}

func (q *jobs) take() []job {
	q.mu.Lock()
	defer q.mu.Unlock()
	queued := q.queued
	q.queued = nil
	return queued
}

// signal leaves a token where there is none.
func signal(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

// writeMarkers ends transactions until ctx ends. What is left then goes on after the next start.
func (c *Coordinator) writeMarkers(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	places := gate.New(maxEnding)
	for {
		for _, j := range c.jobs.take() {
			if places.Enter(ctx) != nil {
				return
			}
			running.Go(func() {
				defer places.Leave()
				c.end(ctx, j)
			})
		}
		select {
		case <-c.jobs.ready:
		case <-ctx.Done():
			return
		}
	}
}

// end writes the markers of a transaction until each partition has its own, or another coordinator goes on.
func (c *Coordinator) end(ctx context.Context, j job) {
	left := j.transaction.Partitions
	for pause := retryMarkersAfter; ; pause = min(2*pause, retryMarkersMax) {
		var errs []error
		if len(left) > 0 {
			errs = c.options.Markers.Write(ctx, j.markers(left))
		}
		var done, missing []kafka.TopicPartition
		for i, tp := range left {
			switch fate(errs[i]) {
			case markerDone:
				done = append(done, tp)
			case markerRetried:
				missing = append(missing, tp)
			case markerFenced:
				c.options.Logger.Info("another coordinator ends a transaction", "transactional_id", j.id, "err", errs[i])
				return
			}
		}
		goesOn := false
		if whileServing(j.shard, func(r *registry) { goesOn = r.marked(j, done) }) != nil || !goesOn {
			return
		}
		left = missing
		if pause >= retryMarkersMax && len(left) > 0 {
			c.options.Logger.Warn("a transaction does not end: markers are written again", "transactional_id", j.id,
				"partitions", len(left), "partition", left[0].String())
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// sleep waits; false if ctx ends first.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (j job) markers(partitions []kafka.TopicPartition) []Marker {
	kind := record.Abort
	if j.transaction.State == PrepareCommit {
		kind = record.Commit
	}
	markers := make([]Marker, len(partitions))
	for i, tp := range partitions {
		markers[i] = Marker{
			Partition: tp, Producer: j.transaction.Producer, Type: kind,
			CoordinatorEpoch: j.shard.Epoch(), Version: j.transaction.Version,
		}
	}
	return markers
}

// What becomes of a marker.
type markerFate int

const (
	markerDone    markerFate = iota
	markerRetried            // the partition cannot take it now
	markerFenced             // the partition has heard from a later coordinator
)

// fate tells what becomes of a marker. A partition that is no more needs none. Neither does one that has a later epoch
// of the producer, which no client gets before the transaction has ended there.
func fate(err error) markerFate {
	switch kafka.CodeOf(err) {
	case kafka.None, kafka.UnknownTopicOrPartition, kafka.InvalidProducerEpoch:
		return markerDone
	case kafka.TransactionCoordinatorFenced:
		return markerFenced
	}
	return markerRetried
}
