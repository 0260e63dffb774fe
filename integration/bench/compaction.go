//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
)

func compactionRows() []entry {
	const section = "Compaction"
	return []entry{
		{
			Row: report.Row{
				Name: "compaction", Section: section, Class: "–", Seconds: 300, ByName: true,
				What: "The log cleaner, one thread and 128 MiB for keys, on a partition of 10 GB: 20 M records of 500 B with " +
					"10 M keys at random, in batches of 128 KiB and segments of 64 MiB; the size of the log over the time until " +
					"all but the active segment is clean",
				Subject: "firn", Base: "Kafka",
				Metrics: []report.Metric{report.RateOfCore, report.Rate, report.Busy, report.Resident},
				Goals:   []report.Goal{{Metric: report.RateOfCore, Value: 1.5}},
			},
			run: func(ctx context.Context, b *bench) (report.Result, error) {
				return b.eachAlone(ctx, 1, cleanAlone(b))
			},
		},
		{
			Row: report.Row{
				Name: "produce-while-cleaning", Section: section, Class: "A", Seconds: 300, ByName: true,
				What: "Requests of 16 KiB at 10 MB/s, while the log cleaner works on another partition, of 3 GB, as fast as it " +
					"can",
				Subject: "while cleaning", Base: "without", Metrics: latencyMetrics(),
				Goals: []report.Goal{{Metric: report.P99, AtMost: true, Value: 1.2}},
			},
			run: func(ctx context.Context, b *bench) (report.Result, error) { return b.produceWhileCleaningRow(ctx) },
		},
	}
}

const (
	compactedRecordBytes = 500 // of key and value
	recordsOfKey         = 2   // on average
	compactedSegment     = 64 << 20
)

// dirtyLog is a partition that has not been cleaned yet.
type dirtyLog struct {
	topic string
	bytes int64
	// activeOffset is where the active segment begins, which no cleaner touches.
	activeOffset int64
}

// soil fills a topic of one partition with about so many bytes. It is not to be compacted yet, so that the cleaner
// begins when it is told to.
func (b *bench) soil(ctx context.Context, r *running, bytes int64) (dirtyLog, error) {
	topic, err := b.topic(ctx, r, 1, map[string]string{
		"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": strconv.Itoa(compactedSegment),
		"min.cleanable.dirty.ratio": "0.01",
	})
	if err != nil {
		return dirtyLog{}, err
	}
	topics, err := r.admin.ListTopics(ctx, topic)
	if err != nil {
		return dirtyLog{}, err
	}
	d := dirtyLog{topic: topic}
	batches := newKeyedBatches(b.events, int(bytes/compactedRecordBytes/recordsOfKey))
	for d.bytes < bytes {
		batch := batches.next()
		if err := r.produceBatch(ctx, topics[topic], batch); err != nil {
			return dirtyLog{}, err
		}
		d.bytes += int64(len(batch))
	}
	if d.activeOffset, err = r.lastBase(topic); err != nil {
		return dirtyLog{}, err
	}
	return d, r.sync()
}

// keyedBatches makes the same batches each time: all brokers get the same.
type keyedBatches struct {
	random  *rand.Rand
	values  [][]byte
	keys    int
	builder *record.Builder
	made    int
}

const keyBytes = 16

func newKeyedBatches(events replay.Events, keys int) *keyedBatches {
	const differentValues, seed = 4096, 7
	random := rand.New(rand.NewPCG(seed, uint64(keys)))
	k := &keyedBatches{random: random, keys: keys, builder: record.NewBuilder(record.PlainProducer())}
	k.values = events.Values(random, differentValues, compactedRecordBytes-keyBytes)
	return k
}

// next is valid until the next call.
func (k *keyedBatches) next() []byte {
	k.builder.Reset(0)
	now := time.Now().UnixMilli()
	for k.builder.Size() < largeShape().RequestBytes-compactedRecordBytes {
		k.made++
		k.builder.Append(now, fmt.Appendf(nil, "%0*d", keyBytes, k.random.IntN(k.keys)), k.values[k.made%len(k.values)])
	}
	return k.builder.Build()
}

// produceBatch appends a batch to the only partition of a topic.
func (r *running) produceBatch(ctx context.Context, topic kadm.TopicDetail, batch []byte) error {
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = 1, 30_000
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batch
	request.Topics = []kmsg.ProduceRequestTopic{{
		Topic: topic.Topic, TopicID: topic.ID, Partitions: []kmsg.ProduceRequestTopicPartition{partition},
	}}
	answer, err := r.client.Broker(int(topic.Partitions[0].Leader)).Request(ctx, request)
	if err != nil {
		return fmt.Errorf("produce to %s on %s: %w", topic.Topic, r.Name, err)
	}
	for _, topic := range answer.(*kmsg.ProduceResponse).Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("produce to %s on %s: %w", topic.Topic, r.Name, err)
			}
		}
	}
	return nil
}

// lastBase is the base offset of the active segment of a topic's first partition.
func (r *running) lastBase(topic string) (int64, error) {
	files, err := filepath.Glob(filepath.Join(r.logDir(), topic+"-0", "*.log"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("%s has no segments: %w", topic, errors.Join(err, os.ErrNotExist))
	}
	slices.Sort(files)
	return strconv.ParseInt(strings.TrimSuffix(filepath.Base(files[len(files)-1]), ".log"), 10, 64)
}

// soon makes the cleaner look for work all the time: how long it rests between two looks is not what is measured.
func (r *running) soon(ctx context.Context) error {
	value := "50"
	answers, err := r.admin.AlterBrokerConfigs(ctx,
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.cleaner.backoff.ms", Value: &value}})
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return fmt.Errorf("log.cleaner.backoff.ms of %s: %w", r.Name, answer.Err)
		}
	}
	return nil
}

// clean tells the cleaner to begin, and waits until all but the active segment is clean.
func (r *running) clean(ctx context.Context, d dirtyLog) error {
	err := r.alter(ctx, d.topic, kadm.SetConfig, map[string]string{"cleanup.policy": "compact"})
	if err != nil {
		return err
	}
	const most = 20 * time.Minute
	return eventually(ctx, most, func(ctx context.Context) error {
		cleaned, err := r.cleanedOffset(ctx, d.topic)
		if err == nil && cleaned < d.activeOffset {
			err = fmt.Errorf("%s has cleaned %s below offset %d of %d", r.Name, d.topic, cleaned, d.activeOffset)
		}
		return err
	})
}

// cleanedOffset is how far the cleaner has come in a topic's first partition: firn tells it, Kafka notes it in a file.
func (r *running) cleanedOffset(ctx context.Context, topic string) (int64, error) {
	if r.kind != apacheKafka {
		return r.compactedBelow(ctx, topic)
	}
	const name = "cleaner-offset-checkpoint"
	text, err := os.ReadFile(filepath.Join(r.logDir(), name))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == topic && fields[1] == "0" {
			return strconv.ParseInt(fields[2], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s does not know %s yet", name, topic)
}

// compactedBelow is the end of the last pass that has come to its end.
func (r *running) compactedBelow(ctx context.Context, topic string) (int64, error) {
	address := fmt.Sprintf("http://%s%s/%s", r.HTTP, view.PathCompaction, topic)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var status view.TopicCompaction
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return 0, fmt.Errorf("%s answers with %s: %w", address, response.Status, err)
	}
	for _, partition := range status.Partitions {
		if !partition.Running && partition.SetAside == "" {
			return partition.EndOffset, nil
		}
	}
	return 0, fmt.Errorf("no pass over %s has come to its end: %+v", topic, status.Partitions)
}

func cleanAlone(b *bench) alone {
	return func(ctx context.Context, r *running) (report.Values, error) {
		if err := r.soon(ctx); err != nil {
			return nil, err
		}
		d, err := b.soil(ctx, r, int64(10e9*b.options.effort.scale))
		if err != nil {
			return nil, err
		}
		b.say("%s has %.1f GB to clean", r.kind, float64(d.bytes)/1e9)
		result := sample{bytes: d.bytes, values: report.Values{}}
		err = r.watch(ctx, &result, func() error {
			began := time.Now()
			err := r.clean(ctx, d)
			result.elapsed = time.Since(began)
			return err
		})
		if err != nil {
			return nil, err
		}
		result.values[report.Rate] = float64(d.bytes) / 1e6 / result.elapsed.Seconds()
		result.values[report.RateOfCore] = 1000 / result.values[report.CPUPerGB]
		return result.values, nil
	}
}

func (b *bench) produceWhileCleaningRow(ctx context.Context) (report.Result, error) {
	r, err := b.broker(ctx, firnOS)
	if err != nil {
		return report.Result{}, err
	}
	if err := r.soon(ctx); err != nil {
		return report.Result{}, err
	}
	var d dirtyLog
	return b.disturbedRow(ctx, r, disturber{
		before: func(ctx context.Context) (err error) {
			d, err = b.soil(ctx, r, int64(3e9*max(b.options.effort.scale, 1./3)))
			return err
		},
		run: func(ctx context.Context) error {
			err := r.clean(ctx, d)
			if err == nil && ctx.Err() == nil {
				return fmt.Errorf("%d MB are cleaned before the run is over", d.bytes/1e6)
			}
			if ctx.Err() != nil {
				return nil // it is told to end when the run does
			}
			return err
		},
		after: func(ctx context.Context) error { return r.drop(ctx, d.topic) },
	})
}
