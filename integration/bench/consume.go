//go:build linux

package main

import (
	"context"
	"time"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
)

// hotBytes is what is read again and again: it stays in the page cache.
const hotBytes = 1 << 30

// largeShape is what most rows send that are not about its size.
func largeShape() replay.Shape { return replay.Shape{RecordBytes: 1 << 10, RequestBytes: 128 << 10} }

// consumeRow reads what is in the page cache.
func (b *bench) consumeRow(ctx context.Context, consumers int) (result report.Result, err error) {
	batch, err := b.events.Encode(largeShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		return result, err
	}
	sides := map[brokerKind]*side{}
	for _, kind := range []brokerKind{apacheKafka, firnOS} {
		r, err := b.broker(ctx, kind)
		if err != nil {
			return result, err
		}
		topic, err := b.topic(ctx, r, consumers, nil)
		if err != nil {
			return result, err
		}
		batches := hotBytes / int64(consumers) / int64(len(batch.Data))
		if err := r.fill(ctx, topic, consumers, batch, batches); err != nil {
			return result, err
		}
		if err := r.sync(); err != nil {
			return result, err
		}
		sides[kind] = fetchSide(r, replay.Fetch{
			Address: r.Address, Topic: topic, Consumers: consumers, Batch: batch, Batches: batches, MaxBytes: 1 << 20,
		})
		defer func() {
			if err == nil {
				err = r.drop(ctx, topic)
			}
		}()
	}
	return b.compare(ctx, comparison{subject: *sides[firnOS], base: sides[apacheKafka], steady: report.Rate})
}

func fetchSide(r *running, fetch replay.Fetch) *side {
	return &side{broker: r, run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		fetch.Bytes = bytes / int64(fetch.Consumers)
		fetched, err := fetch.Run(ctx)
		if err != nil {
			return 0, nil, err
		}
		return fetched.Bytes, report.Values{
			report.Rate: float64(fetched.Bytes) / 1e6 / fetched.Elapsed.Seconds(),
			report.P50:  milliseconds(fetched.Latency.Quantile(0.5)),
			report.P99:  milliseconds(fetched.Latency.Quantile(0.99)),
		}, nil
	}}
}
