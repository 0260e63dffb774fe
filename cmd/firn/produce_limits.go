package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// defaultBatchBytes is Kafka's default max.message.bytes without the overhead of a batch.
	defaultBatchBytes = 1_000_012
	// The bounds that kgo puts on a batch: the lower one for its overhead, the upper one for a request.
	minBatchBytes = 512
	maxBatchBytes = 96 << 20
)

// topicLimits is what topics demand of a producer. A topic is asked about when the first of its records is met.
type topicLimits struct {
	batchBytes int32 // of the command line; 0: the topics' own

	mu    sync.Mutex // guards the field below
	known map[string]topicLimit
}

type topicLimit struct {
	partitions int32
	maxBytes   int32 // max.message.bytes
}

func newTopicLimits(batchBytes int32) *topicLimits {
	return &topicLimits{batchBytes: batchBytes, known: make(map[string]topicLimit)}
}

// of returns a topic's limits. It is for one goroutine; forBatch may be called meanwhile.
func (l *topicLimits) of(client *session, topic string) (topicLimit, error) {
	l.mu.Lock()
	limit, ok := l.known[topic]
	l.mu.Unlock()
	if ok {
		return limit, nil
	}
	topics, err := findTopics(client.ctx, client.admin, []string{topic})
	if err != nil {
		return limit, err
	}
	limit = topicLimit{partitions: int32(len(topics[topic].Partitions)), maxBytes: defaultBatchBytes}
	configs, err := client.admin.DescribeTopicConfigs(client.ctx, topic)
	if ctxErr := context.Cause(client.ctx); ctxErr != nil {
		return limit, ctxErr
	}
	if err == nil { // else the right to read settings may be missing: the default is safe
		limit.maxBytes = maxMessageBytes(configs, topic)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[topic] = limit
	return limit, nil
}

// forBatch is the largest batch that kgo may make for a topic.
func (l *topicLimits) forBatch(topic string) int32 {
	if l.batchBytes != 0 {
		return l.batchBytes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit, ok := l.known[topic]; ok {
		return limit.maxBytes
	}
	return defaultBatchBytes
}

// maxMessageBytes finds the topic's largest batch in its settings.
func maxMessageBytes(configs kadm.ResourceConfigs, topic string) int32 {
	resource, err := configs.On(topic, nil)
	if err != nil || resource.Err != nil {
		return defaultBatchBytes
	}
	for _, config := range resource.Configs {
		if config.Key == "max.message.bytes" {
			if limit, err := strconv.ParseInt(config.MaybeValue(), 10, 32); err == nil {
				return int32(min(max(limit, minBatchBytes), maxBatchBytes))
			}
		}
	}
	return defaultBatchBytes
}

// explain tells which limit a record was too large for: of three, each is raised in another way.
func (s *sendingFlags) explain(limits *topicLimits, record *kgo.Record, err error) error {
	if !errors.Is(err, kerr.MessageTooLarge) {
		return err
	}
	size := recordBytes(record)
	limits.mu.Lock()
	topicBytes := limits.known[record.Topic].maxBytes
	limits.mu.Unlock()
	switch {
	case size > int64(s.bufferBytes):
		return fmt.Errorf("it has %d bytes, and --buffer-memory is %d: raise that", size, int64(s.bufferBytes))
	case s.batchBytes != 0 && size+batchOverhead > int64(s.batchBytes):
		return fmt.Errorf("it has %d bytes, and --batch-size is %d: raise that", size, int64(s.batchBytes))
	}
	subject := fmt.Sprintf("it has %d bytes", size)
	if size+batchOverhead <= int64(topicBytes) { // its own size is no reason: the cluster has refused its batch
		subject = "its batch is too large"
		if s.batchBytes != 0 {
			subject += fmt.Sprintf(" with this --batch-size of %d", int64(s.batchBytes))
		}
	}
	return brokerError{code: kerr.MessageTooLarge, message: fmt.Sprintf(
		"%s, and the topic takes batches of %d (max.message.bytes)", subject, topicBytes)}
}

// batchOverhead is what a batch of one record holds beside it, at least.
const batchOverhead = 61 + 6

// recordBytes is the size of a record's content.
func recordBytes(record *kgo.Record) int64 {
	size := len(record.Key) + len(record.Value)
	for _, header := range record.Headers {
		size += len(header.Key) + len(header.Value)
	}
	return int64(size)
}

// topics are those that were asked about.
func (l *topicLimits) topics() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, sortedKeys(l.known)...)
}
