//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/integration/bench/report"
)

// A run is so many bytes in all other rows; here it is so many of these.
const (
	bytesOfCommit      = 1 << 10
	bytesOfTransaction = 16 << 10
)

const (
	committers     = 16 // each with a connection, a group, and one request under way
	transactioners = 8
)

func coordinatorRows() []entry {
	const section = "Coordinators"
	var rows []entry
	for _, class := range []string{"A", "B"} {
		suffix := map[string]string{"A": "", "B": "-fsync"}[class]
		row := func(name, what string, metric report.Metric, load coordinatorLoad) {
			rows = append(rows, entry{
				Row: report.Row{
					Name: name + suffix, Section: section, Class: class, What: what, Subject: "firn", Base: "Kafka",
					Metrics: []report.Metric{metric, report.P50, report.P99, report.Busy},
					Goals:   []report.Goal{{Metric: metric, Value: 1.5}}, Seconds: 200, ByName: true,
				},
				run: func(ctx context.Context, b *bench) (report.Result, error) {
					return b.coordinatorRow(ctx, class, metric, load)
				},
			})
		}
		row("commits", fmt.Sprintf("%d clients commit the offset of one partition each, one request at a time, outside of "+
			"a generation", committers), report.Commits, commitLoad())
		row("transactions", fmt.Sprintf("%d franz-go producers, each of which begins a transaction, produces a record of "+
			"1 KiB with acks=all, and commits", transactioners), report.Transactions, transactionLoad())
	}
	return rows
}

// coordinatorLoad is what clients do again and again.
type coordinatorLoad struct {
	journal string // the internal topic that their coordinator writes
	bytes   int64  // that one of it counts as
	clients int
	// client makes the client with a number, and what it does once.
	client func(r *running, number int, topic kadm.TopicDetail) (*kgo.Client, func(context.Context) error, error)
}

func commitLoad() coordinatorLoad {
	return coordinatorLoad{
		journal: "__consumer_offsets", bytes: bytesOfCommit, clients: committers,
		client: func(r *running, number int, topic kadm.TopicDetail) (*kgo.Client, func(context.Context) error, error) {
			client, err := kgo.NewClient(kgo.SeedBrokers(r.Address))
			offset := int64(0)
			return client, func(ctx context.Context) error {
				offset++
				return commitOnce(ctx, client, "bench-"+strconv.Itoa(number), topic, offset)
			}, err
		},
	}
}

func commitOnce(ctx context.Context, client *kgo.Client, group string, topic kadm.TopicDetail, offset int64) error {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = group, -1
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	request.Topics = []kmsg.OffsetCommitRequestTopic{{
		Topic: topic.Topic, TopicID: topic.ID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{partition},
	}}
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func transactionLoad() coordinatorLoad {
	return coordinatorLoad{
		journal: "__transaction_state", bytes: bytesOfTransaction, clients: transactioners,
		client: func(r *running, number int, topic kadm.TopicDetail) (*kgo.Client, func(context.Context) error, error) {
			client, err := kgo.NewClient(kgo.SeedBrokers(r.Address), kgo.TransactionalID("bench-"+strconv.Itoa(number)),
				kgo.DefaultProduceTopic(topic.Topic), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			value := make([]byte, 1<<10)
			return client, func(ctx context.Context) error {
				if err := client.BeginTransaction(); err != nil {
					return err
				}
				record := &kgo.Record{Value: value, Partition: int32(number)}
				if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
					return errors.Join(err, client.EndTransaction(ctx, kgo.TryAbort)) // or none could be begun again
				}
				return client.EndTransaction(ctx, kgo.TryCommit)
			}, err
		},
	}
}

// coordinatorRow compares firn with Kafka in one durability class.
func (b *bench) coordinatorRow(
	ctx context.Context, class string, metric report.Metric, load coordinatorLoad,
) (result report.Result, err error) {
	kind := firnOS
	if class == "B" {
		kind = firnAuto
	}
	var sides [2]side
	for i, kind := range []brokerKind{apacheKafka, kind} {
		s, end, err := b.coordinatorSide(ctx, kind, class, metric, load)
		if err != nil {
			return report.Result{}, err
		}
		defer func() { err = errors.Join(err, end()) }()
		sides[i] = s
	}
	return b.compare(ctx, comparison{subject: sides[1], base: &sides[0], steady: metric})
}

// coordinatorSide has a topic and clients that outlive a run.
func (b *bench) coordinatorSide(ctx context.Context, kind brokerKind, class string, metric report.Metric,
	load coordinatorLoad,
) (s side, end func() error, err error) {
	r, err := b.broker(ctx, kind)
	if err != nil {
		return side{}, nil, err
	}
	settings := topicSettings(kind, class)
	topic, err := b.topic(ctx, r, load.clients, settings)
	if err != nil {
		return side{}, nil, err
	}
	topics, err := r.admin.ListTopics(ctx, topic)
	if err != nil {
		return side{}, nil, err
	}
	clients := make([]*kgo.Client, load.clients)
	steps := make([]func(context.Context) error, load.clients)
	for i := range clients {
		clients[i], steps[i], err = load.client(r, i, topics[topic])
		if err == nil { // the first of them makes the journal
			err = eventually(ctx, time.Minute, steps[i])
		}
		if err != nil {
			return side{}, nil, err
		}
	}
	if err := r.alter(ctx, load.journal, kadm.SetConfig, settings); err != nil {
		return side{}, nil, err
	}
	end = func() error {
		for _, client := range clients {
			client.Close()
		}
		return errors.Join(r.alter(ctx, load.journal, kadm.DeleteConfig, settings), r.drop(ctx, topic))
	}
	return side{broker: r, run: func(ctx context.Context, bytes int64) (int64, report.Values, error) {
		return repeat(ctx, steps, max(bytes/load.bytes, int64(load.clients)), metric, load.bytes)
	}}, end, nil
}

// alter sets or deletes settings of a topic.
func (r *running) alter(ctx context.Context, topic string, op kadm.IncrementalOp, settings map[string]string) error {
	var changes []kadm.AlterConfig
	for name, value := range settings {
		changes = append(changes, kadm.AlterConfig{Op: op, Name: name, Value: &value})
	}
	if len(changes) == 0 {
		return nil
	}
	answers, err := r.admin.AlterTopicConfigs(ctx, changes, topic)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return fmt.Errorf("settings of %s on %s: %w", topic, r.Name, answer.Err)
		}
	}
	return nil
}

// repeat shares out count steps among those who can do them, and tells how many a second there were and how long one
// took.
func repeat(ctx context.Context, steps []func(context.Context) error, count int64, metric report.Metric,
	bytesOfStep int64,
) (int64, report.Values, error) {
	var begun atomic.Int64
	took := make([][]time.Duration, len(steps))
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i, step := range steps {
		group.Go(func() error {
			for begun.Add(1) <= count {
				stepBegan := time.Now()
				if err := step(ctx); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(stepBegan))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, nil, err
	}
	elapsed := time.Since(began)
	all := slices.Concat(took...)
	slices.Sort(all)
	return count * bytesOfStep, report.Values{
		metric:     float64(count) / elapsed.Seconds(),
		report.P50: milliseconds(all[len(all)/2]),
		report.P99: milliseconds(all[len(all)*99/100]),
	}, nil
}
