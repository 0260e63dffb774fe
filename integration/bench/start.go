//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/bench/sampler"
)

// beginning is a start that is measured.
type beginning struct {
	partitions int
	killed     bool  // before, instead of stopped
	bytes      int64 // in the log
	everywhere bool  // until all partitions take a record, not only one
}

func startRows() []entry {
	var entries []entry
	for _, c := range []struct {
		name, what string
		beginning
		ratio   float64
		byName  bool
		seconds int
	}{
		{"start-empty", "an empty folder, which for Kafka has been formatted", beginning{}, 0.02, false, 40},
		{"start-1000", "1 000 partitions after a clean stop", beginning{partitions: 1000}, 0, true, 120},
		{"start-1000-killed", "1 000 partitions after kill −9", beginning{partitions: 1000, killed: true}, 0, true, 150},
		{"start-10000", "10 000 partitions after a clean stop", beginning{partitions: 10_000}, 0.06, false, 190},
		{
			"start-10000-killed", "10 000 partitions after kill −9",
			beginning{partitions: 10_000, killed: true}, 0.06, false, 280,
		},
		{
			"restart-10GB", "1 000 partitions with 10 GB after kill −9, until each takes a record",
			beginning{partitions: 1000, killed: true, bytes: 10e9, everywhere: true}, 0, false, 150,
		},
	} {
		row := report.Row{
			Name: c.name, Section: "Start", Class: "A", What: "From the start of the process on " + c.what, Subject: "firn",
			Base: "Kafka", Metrics: []report.Metric{report.StartTime, report.StartCPU, report.Resident},
			ByName: c.byName, Seconds: c.seconds,
		}
		if c.ratio > 0 {
			row.Goals = []report.Goal{{Metric: report.StartTime, AtMost: true, Value: c.ratio}}
		}
		entries = append(entries, entry{Row: row, run: func(ctx context.Context, b *bench) (report.Result, error) {
			return b.startRow(ctx, c.beginning)
		}})
	}
	return entries
}

// partitionsOfTopic is how many a topic has where there are thousands.
const partitionsOfTopic = 1000

func (b *bench) startRow(ctx context.Context, c beginning) (report.Result, error) {
	b.stopAll()
	var result report.Result
	repeats := b.options.effort.startRepeats
	if c.partitions > 1000 {
		repeats = min(repeats, 2) // they take minutes
	}
	c.partitions = int(float64(c.partitions) * b.options.effort.scale)
	c.bytes = int64(float64(c.bytes) * b.options.effort.scale)
	runs := map[brokerKind][]report.Values{}
	for _, kind := range []brokerKind{apacheKafka, firnOS} {
		for left := repeats; left > 0; {
			values, err := b.startsOf(ctx, kind, c, left)
			if err != nil {
				return result, fmt.Errorf("%s: %w", kind, err)
			}
			runs[kind] = append(runs[kind], values...)
			left -= len(values)
		}
	}
	for i := range repeats {
		result.Blocks = append(result.Blocks, report.Block{
			Base: runs[apacheKafka][i : i+1], Subject: runs[firnOS][i : i+1],
		})
	}
	return result, nil
}

// startsOf makes the data and starts a broker on it so many times; on an empty folder once.
func (b *bench) startsOf(
	ctx context.Context, kind brokerKind, c beginning, times int,
) (all []report.Values, err error) {
	dir, err := b.folder(string(kind))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if c.partitions == 0 {
		if kind == apacheKafka {
			if err := b.kafka(dir).Format(ctx); err != nil {
				return nil, err
			}
		}
		values, err := b.oneStart(ctx, kind, dir, c, nil)
		return []report.Values{values}, err
	}
	topics, err := b.prepare(ctx, kind, dir, c)
	if err != nil {
		return nil, err
	}
	for range times {
		values, err := b.oneStart(ctx, kind, dir, c, topics)
		if err != nil {
			return nil, err
		}
		all = append(all, values)
	}
	return all, nil
}

// end stops or kills a broker as the row wants it.
func (c beginning) end(r *running) error {
	if c.killed {
		r.kill()
		return nil
	}
	return r.stop()
}

// prepare makes topics with what is to be in them, and ends the broker.
func (b *bench) prepare(ctx context.Context, kind brokerKind, dir string, c beginning) ([]string, error) {
	r, err := b.start(ctx, kind, dir)
	if err != nil {
		return nil, err
	}
	defer r.kill()
	batch, err := b.events.Encode(largeShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		return nil, err
	}
	one, err := b.oneRecord()
	if err != nil {
		return nil, err
	}
	var topics []string
	for left := c.partitions; left > 0; left -= partitionsOfTopic {
		topic := "start-" + strconv.Itoa(len(topics))
		count := min(left, partitionsOfTopic)
		if err := r.createTopic(ctx, topic, count, nil); err != nil {
			return nil, err
		}
		if err := replay.ProduceAll(ctx, r.Address, []string{topic}, count, one.Data); err != nil {
			return nil, err
		}
		if batches := c.bytes / int64(c.partitions) / int64(len(batch.Data)); batches > 0 {
			if err := r.fill(ctx, topic, count, batch, batches); err != nil {
				return nil, err
			}
		}
		topics = append(topics, topic)
	}
	return topics, c.end(r)
}

func (b *bench) oneRecord() (replay.Batch, error) {
	return b.events.Encode(replay.Shape{RecordBytes: 100, RequestBytes: 200}, time.Now().UnixMilli(), 1)
}

// oneStart starts a broker and ends it again.
func (b *bench) oneStart(
	ctx context.Context, kind brokerKind, dir string, c beginning, topics []string,
) (report.Values, error) {
	one, err := b.oneRecord()
	if err != nil {
		return nil, err
	}
	machine, err := sampler.OfMachine()
	if err != nil {
		return nil, err
	}
	own, err := b.used()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	r, err := b.start(ctx, kind, dir)
	if err != nil {
		return nil, err
	}
	defer r.kill()
	partitions := min(c.partitions, partitionsOfTopic)
	if len(topics) == 0 {
		topics, partitions = []string{"first"}, 1
		if err := r.createTopic(ctx, topics[0], partitions, nil); err != nil {
			return nil, err
		}
	}
	asked := topics
	if !c.everywhere {
		asked, partitions = topics[len(topics)-1:], 1
	}
	err = eventually(ctx, 10*time.Minute, func(ctx context.Context) error {
		return replay.ProduceAll(ctx, r.Address, asked, partitions, one.Data)
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	used, err := sampler.Of(r.PID)
	if err != nil {
		return nil, err
	}
	values := report.Values{
		report.StartTime: milliseconds(took), report.StartCPU: used.CPU.Seconds(),
		report.Resident: float64(used.Resident) / 1e6,
	}
	values.Round()
	// This broker is not among the shared ones; what it has used is not foreign all the same.
	return values, errors.Join(b.disturbance(machine, own-used.CPU), c.end(r))
}
