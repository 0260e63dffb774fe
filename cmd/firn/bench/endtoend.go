package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/latency"
)

// EndToEnd is a load, at a fixed rate, whose records are received in the same process and counted one by one.
type EndToEnd struct {
	Load
	// Readers consume the topic's partitions between them, each from its end at the beginning.
	Readers []*kgo.Client
	// ID is in every record, to tell them from others in the topic; so is the number after it.
	ID uint64
}

// Received is what has arrived of what was produced.
type Received struct {
	Produced
	Received   int64
	Lost       int64 // acknowledged and not received
	Duplicates int64 // received once more
	Bytes      int64 // of keys and values received
	// Elapsed is from the beginning to the last receipt.
	Elapsed time.Duration
	// Latency is from when a record was due to its receipt; Produced has that of its acknowledgement.
	Latency *latency.Histogram
}

// Run is like that of Load, and waits until all that was acknowledged has been received, or nothing has arrived for as
// long as Timeout.
func (e *EndToEnd) Run(ctx, interrupt context.Context) (Received, error) {
	if e.WarmUp > 0 {
		if _, err := e.run(ctx, interrupt, e.warmUp(), e.ID+1); err != nil || interrupt.Err() != nil {
			return Received{Produced: newTally().Produced, Latency: latency.NewHistogram()}, err
		}
	}
	return e.run(ctx, interrupt, e.measured(), e.ID)
}

func (e *EndToEnd) run(ctx, interrupt context.Context, p phase, id uint64) (Received, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	book := newLedger(id, p)
	p.track = book
	reading, stopReading := context.WithCancel(ctx)
	var readers sync.WaitGroup
	for _, reader := range e.Readers {
		readers.Go(func() {
			if err := book.read(reading, reader); err != nil {
				giveUp(err)
			}
		})
	}
	produced, err := e.Load.run(ctx, interrupt, p)
	if err == nil {
		err = book.settle(ctx, e.Timeout)
	}
	stopReading()
	readers.Wait()

	received := Received{Produced: produced, Received: book.count, Lost: book.missing, Duplicates: book.duplicates,
		Bytes: book.bytes, Latency: book.latency}
	if !book.last.IsZero() {
		received.Elapsed = book.last.Sub(p.began)
	}
	return received, err
}

// read takes what a client receives until ctx ends.
func (l *ledger) read(ctx context.Context, client *kgo.Client) error {
	for {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("consume %s partition %d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		l.take(fetches, now)
	}
}

// settle waits for what was acknowledged and has not been received. What does not come in time is lost, which is no
// error here.
func (l *ledger) settle(ctx context.Context, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for !l.complete() {
		select {
		case <-l.arrived:
			timer.Reset(patience)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
