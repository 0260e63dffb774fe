//go:build linux

package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/latency"
)

// EndToEnd sends at a fixed rate and reads at the same time. The topic is new: what a consumer gets at an offset is
// then the request with that number. A consumer for each partition asks for as much as there is.
func (p Produce) EndToEnd(ctx context.Context, maxBytes int32) (Produced, *latency.Histogram, error) {
	if p.PerSecond <= 0 || p.Partitions%p.Connections != 0 {
		return Produced{}, nil, errors.New("end to end takes a rate, and connections that each have partitions of their own")
	}
	group, ctx := errgroup.WithContext(ctx)
	consumers := make([]*consumer, p.Partitions)
	for i := range consumers {
		c, release, err := newConsumer(ctx, p.Address, p.Topic, int32(i), maxBytes)
		if err != nil {
			return Produced{}, nil, err
		}
		defer release()
		c.batch, c.latency = p.Batch, latency.NewHistogram()
		consumers[i] = c
	}
	const lead = 50 * time.Millisecond // until everybody has begun
	schedule := latency.NewSchedule(time.Now().Add(lead), p.PerSecond)
	for _, c := range consumers {
		group.Go(func() error { return c.follow(p, schedule) })
	}
	var produced Produced
	group.Go(func() (err error) {
		produced, err = p.run(ctx, schedule)
		return err
	})
	if err := group.Wait(); err != nil {
		return Produced{}, nil, err
	}
	arrived := latency.NewHistogram()
	for _, c := range consumers {
		arrived.Add(c.latency)
	}
	return produced, arrived, nil
}

// follow reads until it has got every request of its partition.
func (c *consumer) follow(p Produce, schedule latency.Schedule) error {
	partitions := int64(p.Partitions)
	count := (p.Requests - int64(c.partition) + partitions - 1) / partitions
	for got := int64(0); got < count; {
		size, err := c.fetch(got * c.batch.Records)
		if err != nil {
			return fmt.Errorf("follow %s-%d: %w", p.Topic, c.partition, err)
		}
		now := time.Now()
		for range size / len(c.batch.Data) {
			c.latency.Record(now.Sub(schedule.At(int64(c.partition) + got*partitions)))
			got++
		}
	}
	return nil
}
