package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// batchBytes keeps batches to about a tenth of a day of events. A segment rolls between batches only, so that batches
// of a day or more would make segments of several days.
const batchBytes = 16 << 10

// settings of the topic: one segment a day by the time in the events; local copies go as soon as the bucket has them;
// the events are from 2013, so that total retention must not go by age.
func settings() map[string]*string {
	return map[string]*string{
		"remote.storage.enable": kadm.StringPtr("true"),
		"segment.ms":            kadm.StringPtr("86400000"),
		"retention.ms":          kadm.StringPtr("-1"),
		"local.retention.ms":    kadm.StringPtr("1"),
	}
}

// connect makes a client as any user would.
func connect(node Node, options ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(node.Addr()), kgo.ClientID("firn-demo"),
		kgo.MetadataMinAge(100 * time.Millisecond)}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}

func (s *show) createTopic(ctx context.Context, node Node) error {
	client, err := connect(node)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, settings(), topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

// fillAndSink produces the events while others watch them go down: local log, bucket, bucket only.
func (s *show) fillAndSink(ctx context.Context, node Node) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	shown := s.display.begin()
	produced := shown.bar("produced", len(s.events))
	sink := &sinking{node: node, total: int64(len(s.events)),
		remote: shown.bar("in the bucket", len(s.events)), dropped: shown.bar("only there", len(s.events))}

	began := time.Now()
	var group sync.WaitGroup
	group.Go(func() {
		if err := sink.watch(ctx); err != nil {
			cancel(err)
		}
	})
	produceErr := s.produce(ctx, node, produced)
	s.summary.ProduceSeconds = time.Since(began).Seconds()
	if produceErr != nil {
		cancel(produceErr)
	}
	group.Wait()
	shown.end()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.summary.TierSeconds = time.Since(began).Seconds()
	s.tellWhatSank(sink)
	return s.checkBorders(ctx, node)
}

// produce sends every event, in order, and waits until all are acknowledged by the in-sync replicas.
func (s *show) produce(ctx context.Context, node Node, progress *bar) error {
	client, err := connect(node, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer client.Close()
	var mu sync.Mutex // guards the two below
	var acknowledged int64
	var failure error
	for i, e := range s.events {
		record := &kgo.Record{Key: e.key, Value: e.value, Timestamp: time.UnixMilli(e.timestamp)}
		client.Produce(ctx, record, func(record *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && failure == nil:
				failure = fmt.Errorf("produce event %d: %w", i, err)
			case err == nil && record.Offset != int64(i) && failure == nil:
				failure = fmt.Errorf("event %d was acknowledged at offset %d", i, record.Offset)
			}
			if acknowledged++; acknowledged%drawnEvery == 0 || acknowledged == int64(len(s.events)) {
				progress.set(acknowledged)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	mu.Lock()
	defer mu.Unlock()
	return failure
}
