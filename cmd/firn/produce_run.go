package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// defaultBatchBytes is Kafka's default max.message.bytes without the overhead of a batch.
	defaultBatchBytes = 1_000_012
	// The bounds that kgo puts on a batch: the lower one for its overhead, the upper one for a request.
	minBatchBytes = 512
	maxBatchBytes = 96 << 20
)

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

// produceSummary is what was sent.
type produceSummary struct {
	Topic   string  `json:"topic"`
	Records int64   `json:"records"` // acknowledged
	Bytes   int64   `json:"bytes"`   // of their keys and values
	Failed  int64   `json:"failed"`
	Seconds float64 `json:"seconds"`
}

func (s *produceSummary) writeText(w io.Writer) error {
	text := fmt.Sprintf("produced %s (%s) to %s in %.2f s",
		counted(int(s.Records), "record"), byteSize(s.Bytes), s.Topic, s.Seconds)
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func (p *produceRequest) run(cmd *cobra.Command, brokers *brokerFlag) error {
	options, err := p.producerOptions()
	if err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	defaults, err := p.defaults()
	if err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	input, err := p.input(cmd.InOrStdin())
	if err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	// The limit is known only after connecting; kgo asks for it with each batch.
	var limit atomic.Int32
	limit.Store(defaultBatchBytes)
	options = append(options, kgo.DefaultProduceTopic(p.topic), kgo.RecordPartitioner(namedPartitioner{}),
		kgo.ProducerBatchMaxBytesFn(func(string) int32 { return limit.Load() }))
	client, err := brokers.connect(cmd.Context(), options...)
	if err != nil {
		return err
	}
	defer client.Close()
	partitions, maxBytes, err := topicLimits(client, p.topic)
	if err != nil {
		return err
	}
	defaults.partitions = partitions
	if p.maxBytes > 0 {
		maxBytes = min(max(p.maxBytes, minBatchBytes), maxBatchBytes)
	}
	limit.Store(maxBytes)

	delivery := newDelivery(client, p.topic, p.timeout)
	began := time.Now()
	err = delivery.send(input, &defaults)
	summary := delivery.summaryAfter(time.Since(began))
	if p.format == formatJSON || p.format == formatJSONLines {
		return errors.Join(err, writeJSON(cmd.ErrOrStderr(), &summary))
	}
	return errors.Join(err, summary.writeText(cmd.ErrOrStderr()))
}

func (p *produceRequest) input(in io.Reader) (recordInput, error) {
	var separator []byte
	if p.separator != "" {
		var err error
		if separator, err = unescape(p.separator); err != nil {
			return nil, err
		}
	}
	return newRecordInput(in, p.format, separator)
}

// delivery counts what the cluster has acknowledged and keeps the first failure.
type delivery struct {
	client  *session
	timeout time.Duration
	stop    chan struct{} // closed at the first failure

	mu          sync.Mutex // guards the fields below
	summary     produceSummary
	failure     error
	outstanding int
	stalled     *time.Timer // runs while anything is outstanding; each acknowledgement starts it anew
}

func newDelivery(client *session, topic string, timeout time.Duration) *delivery {
	d := &delivery{client: client, timeout: timeout, stop: make(chan struct{}), summary: produceSummary{Topic: topic}}
	d.stalled = time.AfterFunc(timeout, func() {
		client.cancel(fmt.Errorf("the cluster has acknowledged nothing for %v; see its log, or raise --timeout", timeout))
	})
	d.stalled.Stop()
	return d
}

// readAhead is how many records may wait between the reading of the input and kgo's buffer.
const readAhead = 256

// send passes the input to the client until it ends or a record fails, and waits for the acknowledgements.
func (d *delivery) send(input recordInput, defaults *recordDefaults) error {
	defer d.stalled.Stop()
	client := d.client
	records := make(chan *kgo.Record, readAhead)
	inputErr := make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	// Reading standard input cannot be interrupted. So it has a goroutine of its own, which after an interrupt is
	// left behind in its read until the process ends, a moment later.
	go func() { inputErr <- readRecords(input, defaults, records, done) }()

	number := int64(0)
	for open := true; open; {
		select {
		case record, more := <-records:
			if open = more; !more {
				break
			}
			number++
			d.produce(record, number)
		case <-d.stop:
			open = false
		case <-client.ctx.Done():
			return context.Cause(client.ctx)
		}
	}
	if err := client.Flush(client.ctx); err != nil {
		return context.Cause(client.ctx)
	}
	if err := d.firstFailure(); err != nil {
		return err
	}
	return <-inputErr
}

// readRecords sends the records of an input to the channel and closes it.
func readRecords(input recordInput, defaults *recordDefaults, records chan<- *kgo.Record, done <-chan struct{}) error {
	defer close(records)
	for number := int64(1); ; number++ {
		record, err := input.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := defaults.apply(record); err != nil {
			return fmt.Errorf("record %d: %w", number, err)
		}
		select {
		case records <- record:
		case <-done:
			return nil
		}
	}
}

func (d *delivery) produce(record *kgo.Record, number int64) {
	d.mu.Lock()
	if d.outstanding++; d.outstanding == 1 {
		d.stalled.Reset(d.timeout)
	}
	d.mu.Unlock()
	d.client.Produce(d.client.ctx, record, func(record *kgo.Record, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.outstanding--; d.outstanding == 0 {
			d.stalled.Stop()
		} else {
			d.stalled.Reset(d.timeout)
		}
		if err == nil {
			d.summary.Records++
			d.summary.Bytes += int64(len(record.Key) + len(record.Value))
			return
		}
		d.summary.Failed++
		if d.failure == nil {
			d.failure = fmt.Errorf("record %d: %w", number, err)
			close(d.stop)
		}
	})
}

func (d *delivery) firstFailure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure
}

func (d *delivery) summaryAfter(elapsed time.Duration) produceSummary {
	d.mu.Lock()
	defer d.mu.Unlock()
	summary := d.summary
	summary.Seconds = elapsed.Seconds()
	return summary
}
