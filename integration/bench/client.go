//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/launch"
)

// clientRecordBytes is the size of a record of the rows with real clients.
const clientRecordBytes = 200

func clientRows() []entry {
	metrics := []report.Metric{report.Messages, report.Rate, report.CPUPerGB, report.Busy}
	row := func(name, what string, goals []report.Goal, run func(context.Context, *bench) (report.Result, error)) entry {
		return entry{Row: report.Row{
			Name: name, Section: "Real clients", Class: "A", What: what, Subject: "firn", Base: "Kafka", Metrics: metrics,
			Goals: goals, Seconds: 200,
		}, run: run}
	}
	return []entry{
		row("kgo-in", "franz-go produces records of 200 B to 1 partition, acks=1, its defaults",
			[]report.Goal{
				{Metric: report.Messages, Absolute: true, Value: 250_000}, {Metric: report.Messages, Value: 1},
			},
			func(ctx context.Context, b *bench) (report.Result, error) { return b.clientRow(ctx, kgoIn) }),
		row("kgo-out", "franz-go consumes records of 200 B from 1 partition, its defaults",
			[]report.Goal{
				{Metric: report.Messages, Absolute: true, Value: 550_000}, {Metric: report.Messages, Value: 1},
			},
			func(ctx context.Context, b *bench) (report.Result, error) { return b.clientRow(ctx, kgoOut) }),
		row("kafka-producer-perf",
			"Kafka's own ProducerPerformance: records of 1 KiB, acks=1, batch.size=131072, linger.ms=5",
			nil, func(ctx context.Context, b *bench) (report.Result, error) {
				return b.clientRow(ctx, producerPerformance)
			}),
		row("kafka-consumer-perf", "Kafka's own ConsumerPerformance in a group of one, records of 200 B",
			nil, func(ctx context.Context, b *bench) (report.Result, error) {
				return b.clientRow(ctx, consumerPerformance)
			}),
	}
}

// client is a real one: it does its work on a topic and returns how many records it moved and how fast.
type client struct {
	// reads says that the topic must be full before.
	reads       bool
	recordBytes int
	// least records make a run worth its start.
	least int64
	run   func(ctx context.Context, b *bench, r *running, topic string, count int64) (perSecond float64, err error)
}

// clientRow compares firn with Kafka as one client sees them.
func (b *bench) clientRow(ctx context.Context, made func(*bench) client) (report.Result, error) {
	kinds := []brokerKind{apacheKafka, firnOS}
	sides := map[brokerKind]*clientSide{}
	work := made(b)
	for _, kind := range kinds {
		r, err := b.broker(ctx, kind)
		if err != nil {
			return report.Result{}, err
		}
		if sides[kind], err = b.newClientSide(ctx, r, work); err != nil {
			return report.Result{}, err
		}
	}
	result, err := b.compare(ctx, comparison{
		subject: sides[firnOS].side, base: &sides[apacheKafka].side, steady: report.Messages,
	})
	for _, kind := range kinds {
		if work.reads && err == nil {
			err = sides[kind].drop(ctx)
		}
	}
	return result, err
}

// clientSide is a side with a topic that outlives a run.
type clientSide struct {
	side
	drop func(ctx context.Context) error
}

func (b *bench) newClientSide(ctx context.Context, r *running, work client) (*clientSide, error) {
	s := &clientSide{side: side{broker: r}}
	var topic string
	create := func(ctx context.Context) (err error) {
		topic, err = b.topic(ctx, r, 1, nil)
		return err
	}
	s.run = func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		count := max(bytes/int64(work.recordBytes), work.least)
		perSecond, err := work.run(ctx, b, r, topic, count)
		if err != nil {
			return 0, nil, err
		}
		return count * int64(work.recordBytes), report.Values{
			report.Messages: perSecond, report.Rate: perSecond * float64(work.recordBytes) / 1e6,
		}, nil
	}
	s.drop = func(ctx context.Context) error { return r.drop(ctx, topic) }
	if !work.reads {
		s.before, s.after = create, s.drop
		return s, nil
	}
	if err := create(ctx); err != nil {
		return nil, err
	}
	// Enough for the longest run: what a client reads is read once.
	shape := largeShape()
	shape.RecordBytes = work.recordBytes
	batch, err := b.events.Encode(shape, time.Now().UnixMilli(), 1)
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx, topic, 1, batch, b.options.effort.mostPerRun/int64(len(batch.Data))+1); err != nil {
		return nil, err
	}
	return s, r.sync()
}

func kgoIn(b *bench) client {
	values := b.events.Values(rand.New(rand.NewPCG(1, clientRecordBytes)), 10_000, clientRecordBytes)
	return client{recordBytes: clientRecordBytes, least: 1000, run: func(
		ctx context.Context, _ *bench, r *running, topic string, count int64,
	) (float64, error) {
		producer, err := kgo.NewClient(kgo.SeedBrokers(r.Address), kgo.DefaultProduceTopic(topic),
			kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err != nil {
			return 0, err
		}
		defer producer.Close()
		var mu sync.Mutex // guards the field below
		var failure error
		began := time.Now()
		for i := range count {
			record := &kgo.Record{Value: values[i%int64(len(values))]}
			producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failure = err
				}
			})
		}
		if err := producer.Flush(ctx); err != nil {
			return 0, err
		}
		mu.Lock()
		defer mu.Unlock()
		return float64(count) / time.Since(began).Seconds(), failure
	}}
}

func kgoOut(*bench) client {
	return client{reads: true, recordBytes: clientRecordBytes, least: 1000, run: func(
		ctx context.Context, _ *bench, r *running, topic string, count int64,
	) (float64, error) {
		consumer, err := kgo.NewClient(kgo.SeedBrokers(r.Address), kgo.ConsumePartitions(
			map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		if err != nil {
			return 0, err
		}
		defer consumer.Close()
		began := time.Now()
		for left := count; left > 0; {
			fetches := consumer.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return 0, err
			}
			left -= int64(fetches.NumRecords())
		}
		return float64(count) / time.Since(began).Seconds(), nil
	}}
}

func producerPerformance(*bench) client {
	const size = 1 << 10
	return client{recordBytes: size, least: 200_000, run: func(
		ctx context.Context, b *bench, r *running, topic string, count int64,
	) (float64, error) {
		output, err := b.tool(ctx, "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", r.Address,
			"--topic", topic, "--num-records", strconv.FormatInt(count, 10), "--record-size", strconv.Itoa(size),
			"--throughput", "-1", "--warmup-records", strconv.FormatInt(count/3, 10),
			"--command-property", "acks=1", "batch.size=131072", "linger.ms=5", "enable.idempotence=false")
		if err != nil {
			return 0, err
		}
		return lastNumber(output, `([\d.]+) records/sec`)
	}}
}

func consumerPerformance(*bench) client {
	return client{reads: true, recordBytes: clientRecordBytes, least: 200_000, run: func(
		ctx context.Context, b *bench, r *running, topic string, count int64,
	) (float64, error) {
		output, err := b.tool(ctx, "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", r.Address,
			"--topic", topic, "--num-records", strconv.FormatInt(count, 10), "--timeout", "10000")
		if err != nil {
			return 0, err
		}
		return column(output, "fetch.nMsg.sec")
	}}
}

// tool runs one of Kafka's tools on the client's processor. What it logs goes to stderr and is no part of the answer.
func (b *bench) tool(ctx context.Context, class string, args ...string) (string, error) {
	line := launch.Kafka{Lib: b.options.kafkaLib, Java: []string{"-Xmx512M", "-XX:+UseG1GC"}}.Tool(class, args...)
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	var logged strings.Builder
	command.Stderr = &logged
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", class, err, output, logged.String())
	}
	return string(output), nil
}

// lastNumber is what the last match of a pattern holds.
func lastNumber(text, pattern string) (float64, error) {
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return 0, fmt.Errorf("there is no %s in what was printed:\n%s", pattern, text)
	}
	return strconv.ParseFloat(found[len(found)-1][1], 64)
}

// column is a number of the last line of a table with commas.
func column(text, name string) (float64, error) {
	split := func(line string) []string {
		fields := strings.Split(line, ",")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		return fields
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if place := slices.Index(split(line), name); place >= 0 && i+1 < len(lines) {
			if cells := split(lines[len(lines)-1]); place < len(cells) {
				return strconv.ParseFloat(cells[place], 64)
			}
		}
	}
	return 0, errors.New("there is no table with " + name + " in what was printed:\n" + text)
}
