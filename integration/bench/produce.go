//go:build linux

package main

import (
	"context"
	"time"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
)

// produceRow compares firn with Kafka, and with its own default.
func (b *bench) produceRow(ctx context.Context, load produceLoad) (report.Result, error) {
	batch, err := b.events.Encode(load.shape, time.Now().UnixMilli(), 1)
	if err != nil {
		return report.Result{}, err
	}
	c := comparison{steady: report.Rate}
	c.base, err = b.produceSide(ctx, apacheKafka, load, batch)
	if err != nil {
		return report.Result{}, err
	}
	kind := firnOS
	if load.class == "B" {
		kind = firnAuto
	} else if c.beside, err = b.produceSide(ctx, firnAuto, load, batch); err != nil {
		return report.Result{}, err
	}
	subject, err := b.produceSide(ctx, kind, load, batch)
	if err != nil {
		return report.Result{}, err
	}
	c.subject = *subject
	return b.compare(ctx, c)
}

// topicSettings are those of a durability class. Firn's class is its broker's.
func topicSettings(kind brokerKind, class string) map[string]string {
	if kind == apacheKafka && class == "B" {
		return map[string]string{"flush.messages": "1"}
	}
	return nil
}

// produceSide produces to a topic of its own in each run.
func (b *bench) produceSide(ctx context.Context, kind brokerKind, load produceLoad, batch replay.Batch) (*side, error) {
	r, err := b.broker(ctx, kind)
	if err != nil {
		return nil, err
	}
	produce := replay.Produce{
		Address: r.Address, Partitions: load.partitions, Acks: load.acks, Batch: batch, Connections: load.connections,
		InFlight: load.inFlight,
	}
	return &side{
		broker: r,
		before: func(ctx context.Context) (err error) {
			produce.Topic, err = b.topic(ctx, r, load.partitions, topicSettings(kind, load.class))
			return err
		},
		run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
			produce.Requests = max(bytes/int64(len(batch.Data)), int64(load.connections*load.inFlight))
			produced, err := produce.Run(ctx)
			if err != nil {
				return 0, nil, err
			}
			done := produced.Bytes(batch)
			return done, report.Values{
				report.Rate: float64(done) / 1e6 / produced.Elapsed.Seconds(),
				report.P50:  milliseconds(produced.Latency.Quantile(0.5)),
				report.P99:  milliseconds(produced.Latency.Quantile(0.99)),
			}, nil
		},
		after: func(ctx context.Context) error { return r.drop(ctx, produce.Topic) },
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fill produces so many batches to each partition of a topic, as fast as the broker takes them.
func (r *running) fill(ctx context.Context, topic string, partitions int, batch replay.Batch, batches int64) error {
	_, err := replay.Produce{
		Address: r.Address, Topic: topic, Partitions: partitions, Acks: replay.AcksLeader, Batch: batch,
		Connections: 1, InFlight: 4, Requests: batches * int64(partitions),
	}.Run(ctx)
	return err
}
