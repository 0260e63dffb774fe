//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/internal/latency"
)

// smallShape is what a client sends that does not wait for long.
func smallShape() replay.Shape { return replay.Shape{RecordBytes: 1 << 10, RequestBytes: 16 << 10} }

func latencyMetrics() []report.Metric {
	return []report.Metric{report.P50, report.P99, report.P999, report.Max, report.Rate, report.Busy}
}

// openLoad is produced at a fixed rate.
type openLoad struct {
	produceLoad
	megabytesPerSecond int
	// consumed says that the time counts until a consumer has it, instead of until it is acknowledged.
	consumed bool
}

func endToEndRows() []entry {
	var entries []entry
	for _, load := range []openLoad{
		{produceLoad{smallShape(), 4, replay.AcksLeader, "A", 4, 5}, 10, true},
		{produceLoad{smallShape(), 4, replay.AcksLeader, "A", 4, 5}, 50, true},
		{produceLoad{smallShape(), 4, replay.AcksAll, "B", 4, 5}, 10, true},
		{produceLoad{smallShape(), 16, replay.AcksAll, "B", 16, 5}, 10, false},
	} {
		row := report.Row{
			Name: fmt.Sprintf("endtoend-%dMBs", load.megabytesPerSecond), Section: "Latency at a fixed rate", Class: load.class,
			What: load.what() + fmt.Sprintf(", at %d MB/s whoever is late; from when a request was due until a consumer of its "+
				"partition had it", load.megabytesPerSecond),
			Subject: "firn", Base: "Kafka", Metrics: latencyMetrics(), Seconds: 275,
			Goals: []report.Goal{
				{Metric: report.P50, AtMost: true, Value: 0.5}, {Metric: report.P999, AtMost: true, Value: 0.3},
			},
		}
		switch {
		case !load.consumed:
			row.Name = fmt.Sprintf("groupcommit-%dMBs", load.megabytesPerSecond)
			row.What = load.what() + fmt.Sprintf(", at %d MB/s whoever is late; from when a request was due until it was "+
				"acknowledged", load.megabytesPerSecond)
			row.Goals = []report.Goal{{Metric: report.P99, Absolute: true, AtMost: true, Value: 10}}
		case load.class == "B":
			row.Name += "-fsync"
			row.ByName, row.Goals = true, nil
		}
		entries = append(entries, entry{Row: row, run: func(ctx context.Context, b *bench) (report.Result, error) {
			return b.openRow(ctx, load)
		}})
	}
	return entries
}

func (b *bench) openRow(ctx context.Context, load openLoad) (report.Result, error) {
	batch, err := b.events.Encode(load.shape, time.Now().UnixMilli(), 1)
	if err != nil {
		return report.Result{}, err
	}
	kind := firnOS
	if load.class == "B" {
		kind = firnAuto
	}
	base, err := b.openSide(ctx, apacheKafka, load, batch)
	if err != nil {
		return report.Result{}, err
	}
	subject, err := b.openSide(ctx, kind, load, batch)
	if err != nil {
		return report.Result{}, err
	}
	c := comparison{subject: *subject, base: base, steady: report.P50, open: true}
	if load.class == "A" {
		if c.beside, err = b.openSide(ctx, firnAuto, load, batch); err != nil {
			return report.Result{}, err
		}
	}
	return b.compare(ctx, c)
}

// openSide first warms the broker with as much of the same traffic as it takes: at a fixed rate it would take an hour.
func (b *bench) openSide(ctx context.Context, kind brokerKind, load openLoad, batch replay.Batch) (*side, error) {
	s, err := b.produceSide(ctx, kind, load.produceLoad, batch)
	if err != nil {
		return nil, err
	}
	if _, _, err := b.warmUp(ctx, s, comparison{steady: report.Rate}); err != nil {
		return nil, err
	}
	produce := replay.Produce{
		Address: s.broker.Address, Partitions: load.partitions, Acks: load.acks, Batch: batch,
		Connections: load.connections, InFlight: load.inFlight,
		PerSecond: float64(load.megabytesPerSecond) * 1e6 / float64(len(batch.Data)),
	}
	produce.Requests = int64(produce.PerSecond * b.options.effort.openSeconds)
	s.before = func(ctx context.Context) (err error) {
		produce.Topic, err = b.topic(ctx, s.broker, load.partitions, topicSettings(kind, load.class))
		return err
	}
	s.run = func(ctx context.Context, _ int64) (int64, report.Values, error) {
		var (
			produced  replay.Produced
			histogram *latency.Histogram
			err       error
		)
		if load.consumed {
			produced, histogram, err = produce.EndToEnd(ctx, 1<<20)
		} else {
			produced, err = produce.Run(ctx)
			histogram = produced.Latency
		}
		if err != nil {
			return 0, nil, err
		}
		done := produced.Bytes(batch)
		return done, report.Values{
			report.P50: milliseconds(histogram.Quantile(0.5)), report.P99: milliseconds(histogram.Quantile(0.99)),
			report.P999: milliseconds(histogram.Quantile(0.999)), report.Max: milliseconds(histogram.Max()),
			report.Rate: float64(done) / 1e6 / produced.Elapsed.Seconds(),
		}, nil
	}
	s.after = func(ctx context.Context) error { return s.broker.drop(ctx, produce.Topic) }
	return s, nil
}
