//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore/state"
)

func localLogRows() []entry {
	const section = "Local log"
	return []entry{
		{
			Row: report.Row{
				Name: "segments-10000", Section: section, Class: "A", Seconds: 150,
				What: "Append with requests of 16 KiB, then 16 KiB from random offsets, in a log of 10 000 segments and in " +
					"one of 10 of the same size",
				Subject: "10 000 segments", Base: "10 segments",
				Metrics: []report.Metric{report.Rate, report.P50, report.P99},
				Goals: []report.Goal{
					{Metric: report.Rate, Value: 0.95}, {Metric: report.P99, AtMost: true, Value: 1.1},
				},
			},
			run: func(ctx context.Context, b *bench) (report.Result, error) { return b.segmentsRow(ctx) },
		},
		{
			Row: report.Row{
				Name: "catchup-8", Section: section, Class: "A", Seconds: 200,
				What: "Requests of 16 KiB at 10 MB/s, while eight consumers read 8 GB that are kept out of the page cache, " +
					"as fast as they can",
				Subject: "with catch-up readers", Base: "without", Metrics: latencyMetrics(),
				Goals: []report.Goal{{Metric: report.P99, AtMost: true, Value: 1.2}},
			},
			run: func(ctx context.Context, b *bench) (report.Result, error) { return b.catchUpRow(ctx) },
		},
		{
			Row: report.Row{
				Name: "append-raw", Section: section, Class: "A", Seconds: 50,
				What:    "Batches of 1 MiB appended to a log, without a broker around it, and the same bytes written to a file",
				Subject: "append to a log", Base: "sequential write", Metrics: []report.Metric{report.Rate},
				Goals: []report.Goal{{Metric: report.Rate, Value: 0.8}},
			},
			run: func(ctx context.Context, b *bench) (report.Result, error) { return b.appendRow(ctx) },
		},
	}
}

func (b *bench) segmentsRow(ctx context.Context) (report.Result, error) {
	batch, err := b.events.Encode(smallShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		return report.Result{}, err
	}
	r, err := b.broker(ctx, firnOS)
	if err != nil {
		return report.Result{}, err
	}
	many := int(10_000 * b.options.effort.scale)
	const few, batchesOfSegment = 10, 4 // of the many
	var sides []side
	var topics []string
	for _, segments := range []int{many, few} {
		segmentBytes := many / segments * batchesOfSegment * len(batch.Data)
		topic, err := b.topic(ctx, r, 1, map[string]string{"internal.segment.bytes": strconv.Itoa(segmentBytes)})
		if err != nil {
			return report.Result{}, err
		}
		topics = append(topics, topic)
		batches := int64(many * batchesOfSegment)
		if err := r.fill(ctx, topic, 1, batch, batches); err != nil {
			return report.Result{}, err
		}
		// From here on both append to segments of the same size.
		changes := []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "internal.segment.bytes"}}
		if _, err := r.admin.AlterTopicConfigs(ctx, changes, topic); err != nil {
			return report.Result{}, err
		}
		b.say("a log of %d segments is made", segments)
		sides = append(sides, b.segmentsSide(r, topic, batch, batches))
	}
	if err := r.sync(); err != nil {
		return report.Result{}, err
	}
	result, err := b.compare(ctx, comparison{subject: sides[0], base: &sides[1], steady: report.Rate})
	for _, topic := range topics {
		err = errors.Join(err, r.drop(ctx, topic))
	}
	return result, err
}

// segmentsSide appends, and reads from what was there at the begin.
func (b *bench) segmentsSide(r *running, topic string, batch replay.Batch, batches int64) side {
	random := rand.New(rand.NewPCG(1, uint64(batches)))
	return side{broker: r, run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		produced, err := replay.Produce{
			Address: r.Address, Topic: topic, Partitions: 1, Acks: replay.AcksLeader, Batch: batch, Connections: 1, InFlight: 4,
			Requests: max(min(bytes, 512<<20)/int64(len(batch.Data)), 100),
		}.Run(ctx)
		if err != nil {
			return 0, nil, err
		}
		const fetches = 5000
		fetched, err := replay.Fetch{
			Address: r.Address, Topic: topic, Consumers: 1, Batch: batch, Batches: batches, MaxBytes: 16 << 10,
			Bytes: int64(fetches * b.options.effort.scale * float64(len(batch.Data))), Random: random,
		}.Run(ctx)
		if err != nil {
			return 0, nil, err
		}
		done := produced.Bytes(batch)
		return done, report.Values{
			report.Rate: float64(done) / 1e6 / produced.Elapsed.Seconds(),
			report.P50:  milliseconds(fetched.Latency.Quantile(0.5)),
			report.P99:  milliseconds(fetched.Latency.Quantile(0.99)),
		}, nil
	}}
}

func (b *bench) catchUpRow(ctx context.Context) (report.Result, error) {
	const readers = 8
	r, err := b.broker(ctx, firnOS)
	if err != nil {
		return report.Result{}, err
	}
	old, err := b.events.Encode(largeShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		return report.Result{}, err
	}
	topic, err := b.topic(ctx, r, readers, nil)
	if err != nil {
		return report.Result{}, err
	}
	batches := int64(8e9*b.options.effort.scale) / readers / int64(len(old.Data))
	if err := r.fill(ctx, topic, readers, old, batches); err != nil {
		return report.Result{}, err
	}
	if err := r.sync(); err != nil {
		return report.Result{}, err
	}
	fetch := replay.Fetch{
		Address: r.Address, Topic: topic, Consumers: readers, Batch: old, Batches: batches, MaxBytes: 1 << 20,
	}
	result, err := b.disturbedRow(ctx, r, disturber{run: func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		forgetting := make(chan error, 1)
		go func() { forgetting <- r.forget(ctx, topic) }()
		err := fetchBeside(ctx, fetch)
		cancel()
		return errors.Join(err, <-forgetting)
	}})
	return result, errors.Join(err, r.drop(ctx, topic))
}

// disturber is what goes on beside a workload: it runs until its context ends. before and after, which may be nil, are
// what each run needs and what it leaves.
type disturber struct {
	before, run, after func(ctx context.Context) error
}

// disturbedRow compares requests at a fixed rate with and without something beside them.
func (b *bench) disturbedRow(ctx context.Context, r *running, disturb disturber) (report.Result, error) {
	batch, err := b.events.Encode(smallShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		return report.Result{}, err
	}
	load := openLoad{
		produceLoad: produceLoad{smallShape(), 4, replay.AcksLeader, "A", 4, 5}, megabytesPerSecond: 10,
	}
	without, err := b.openSide(ctx, r.kind, load, batch)
	if err != nil {
		return report.Result{}, err
	}
	with := *without
	with.before = inTurn(disturb.before, without.before)
	with.after = inTurn(without.after, disturb.after)
	with.run = func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		beside, stop := context.WithCancel(ctx)
		defer stop()
		disturbed := make(chan error, 1)
		go func() { disturbed <- disturb.run(beside) }()
		done, values, err := without.run(ctx, bytes)
		stop()
		return done, values, errors.Join(err, <-disturbed)
	}
	return b.compare(ctx, comparison{subject: with, base: without, steady: report.P50, open: true})
}

// inTurn does all steps that are not nil, until one fails.
func inTurn(steps ...func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for _, step := range steps {
			if step == nil {
				continue
			}
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// forget takes a topic's files out of the page cache, again and again until the context ends.
func (r *running) forget(ctx context.Context, topic string) error {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		files, err := filepath.Glob(filepath.Join(r.logDir(), topic+"-*", "*.log"))
		if err != nil {
			return err
		}
		for _, name := range files {
			if err := forgetFile(name); err != nil {
				return err
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func forgetFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

func (b *bench) appendRow(ctx context.Context) (report.Result, error) {
	shape := replay.Shape{RecordBytes: 1 << 10, RequestBytes: 1 << 20}
	batch, err := b.events.Encode(shape, time.Now().UnixMilli(), 1)
	if err != nil {
		return report.Result{}, err
	}
	side := func(write func(dir string, batch replay.Batch, count int64) (time.Duration, error)) side {
		return side{run: func(_ context.Context, bytes int64) (int64, report.Values, error) {
			dir, err := b.folder("append")
			if err != nil {
				return 0, nil, err
			}
			count := max(bytes/int64(len(batch.Data)), 1)
			took, err := write(dir, batch, count)
			if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
				return 0, nil, err
			}
			done := count * int64(len(batch.Data))
			return done, report.Values{report.Rate: float64(done) / 1e6 / took.Seconds()}, nil
		}}
	}
	raw := side(writeFile)
	return b.compare(ctx, comparison{subject: side(appendToLog), base: &raw, steady: report.Rate})
}

func writeFile(dir string, batch replay.Batch, count int64) (time.Duration, error) {
	file, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	began := time.Now()
	for range count {
		if _, err := file.Write(batch.Data); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func appendToLog(dir string, batch replay.Batch, count int64) (took time.Duration, err error) {
	db, err := state.Open(state.Options{
		FS: pebblevfs.Default, Dir: filepath.Join(dir, "state"), Logger: slog.New(slog.DiscardHandler),
		OnFatal: func(error) {}, // the append fails, too
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	manager, err := storage.NewManager(storage.ManagerOptions{
		FS: vfs.OS(), Dirs: []storage.Directory{{Path: filepath.Join(dir, "log")}}, Store: db.Space(state.SpaceStorage),
		SyncStore: db.Flush, Policy: storage.FlushOS,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, manager.Close()) }()
	log, err := manager.Create(kafka.TopicPartition{Topic: "raw"}, kafka.TopicID{1},
		storage.Config{IndexIntervalBytes: 4096}, kafka.UUID{})
	if err != nil {
		return 0, fmt.Errorf("create a log: %w", err)
	}
	sent := record.Batch(batch.Data)
	sent.SetBaseOffset(0) // as a producer sends it; an append leaves where it is
	_, summary, err := record.NewValidator().Validate(sent, record.AnyOptions())
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range count {
		sent.SetBaseOffset(0)
		options := storage.AppendOptions{LeaderEpoch: 1, AppendedAt: began.UnixMilli()}
		if _, err := log.Append(sent, summary, options); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
