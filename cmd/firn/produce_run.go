package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

func (p *produceRequest) run(cmd *cobra.Command, brokers *brokerFlag) error {
	options, err := p.producerOptions()
	if err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	if err := p.transaction.check(&p.sendingFlags, cmd.Flags().Changed); err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	options = append(options, p.transaction.options()...)
	defaults, err := p.defaults()
	if err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	input, err := p.input(cmd.InOrStdin())
	if err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	report, err := newReport(cmd.OutOrStdout(), p.reportFormat)
	if err != nil {
		return usageError{cmd.CommandPath(), err}
	}
	// What topics take is known only after connecting; kgo asks for it with each topic.
	limits := newTopicLimits(int32(p.batchBytes))
	options = append(options, kgo.ProducerBatchMaxBytesFn(limits.forBatch))
	client, release, err := brokers.connectBeyond(cmd.Context(), options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if p.topic != "" { // a topic that is not there fails before anything is read
		if _, err := limits.of(client, p.topic); err != nil {
			return err
		}
	}
	release()

	delivery := newDelivery(client, p, limits)
	delivery.report = report
	if !p.noProgress {
		delivery.progress = newProgress(cmd.ErrOrStderr(), time.Now())
	}
	began := time.Now()
	err = p.transaction.run(client, func() error { return delivery.send(cmd.Context(), input, &defaults) })
	summary := delivery.summaryAfter(time.Since(began))
	summary.Transaction = p.transaction.outcome
	if p.format == formatJSON || p.format == formatJSONLines {
		return errors.Join(err, writeJSON(cmd.ErrOrStderr(), &summary))
	}
	return errors.Join(err, summary.writeText(cmd.ErrOrStderr()))
}

// delivery counts what the cluster has acknowledged and keeps the first failure.
type delivery struct {
	client   *session
	request  *produceRequest
	limits   *topicLimits
	stop     chan struct{} // closed at the first failure
	number   int64         // of the record that was given to the client last
	report   *report       // guarded by mu once records are under way
	progress *progress     // the same

	mu          sync.Mutex // guards the fields below
	summary     produceSummary
	failure     error
	outstanding int64
	stalled     *time.Timer // runs while anything is outstanding; each acknowledgement starts it anew
}

func newDelivery(client *session, request *produceRequest, limits *topicLimits) *delivery {
	d := &delivery{client: client, request: request, limits: limits, stop: make(chan struct{})}
	d.stalled = time.AfterFunc(request.timeout, func() {
		client.cancel(fmt.Errorf("the cluster has acknowledged nothing for %v; see its log, or raise --timeout",
			request.timeout))
	})
	d.stalled.Stop()
	return d
}

// readAhead is how many records may wait between the reading of the input and kgo's buffer.
const readAhead = 256

// send passes the input to the client until it ends, a record fails or there is an interrupt, and waits for the
// acknowledgements.
func (d *delivery) send(interrupt context.Context, input recordInput, defaults *recordDefaults) error {
	defer d.stalled.Stop()
	client := d.client
	defer afterPatience(interrupt, func() { client.cancel(context.Cause(interrupt)) })()

	records := make(chan *kgo.Record, readAhead)
	inputErr := make(chan error, 1)
	reading, stopReading := context.WithCancel(client.ctx)
	defer stopReading()
	// Reading standard input cannot be interrupted. So it has a goroutine of its own, which after an interrupt is
	// left behind in its read until the process ends, a moment later.
	go func() { inputErr <- d.read(reading, input, defaults, records) }()
	interrupted, err := d.pass(interrupt, records)
	if interrupted {
		stopReading()
		d.passRest(records)
	}
	if err == nil && client.Flush(client.ctx) != nil {
		err = context.Cause(client.ctx)
	}
	switch failure := d.finish(); {
	case failure != nil: // it is why the rest was given up
		return failure
	case err != nil:
		return err
	case interrupted:
		return context.Cause(interrupt)
	}
	return <-inputErr
}

// pass gives records to the client until there are no more, or no more are wanted.
func (d *delivery) pass(interrupt context.Context, records <-chan *kgo.Record) (interrupted bool, err error) {
	for {
		select {
		case record, more := <-records:
			if !more {
				return false, nil
			}
			d.number++
			d.produce(record, d.number)
			if d.request.sync && d.client.Flush(d.client.ctx) != nil {
				return false, context.Cause(d.client.ctx)
			}
		case <-d.stop:
			return false, nil
		case <-interrupt.Done():
			return true, nil
		case <-d.client.ctx.Done():
			return false, context.Cause(d.client.ctx)
		}
	}
}

// passRest gives to the client what was read before the interrupt and still waits to be sent.
func (d *delivery) passRest(records <-chan *kgo.Record) {
	for {
		select {
		case record, more := <-records:
			if !more {
				return
			}
			d.number++
			d.produce(record, d.number)
		default:
			return
		}
	}
}

// read sends the records of an input to the channel and closes it.
func (d *delivery) read(ctx context.Context, input recordInput, defaults *recordDefaults, records chan<- *kgo.Record,
) error {
	defer close(records)
	for number := int64(1); ctx.Err() == nil; number++ {
		record, err := input.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.prepare(record, defaults); err != nil {
			return fmt.Errorf("record %d: %w", number, err)
		}
		select {
		case records <- record:
		case <-ctx.Done():
		}
	}
	return nil
}

func (d *delivery) prepare(record *kgo.Record, defaults *recordDefaults) error {
	if err := defaults.apply(record); err != nil {
		return err
	}
	limit, err := d.limits.of(d.client, record.Topic)
	if err != nil {
		return err
	}
	return checkPartition(record, limit.partitions)
}

func (d *delivery) produce(record *kgo.Record, number int64) {
	d.mu.Lock()
	if d.outstanding++; d.outstanding == 1 {
		d.stalled.Reset(d.request.timeout)
	}
	d.mu.Unlock()
	d.client.Produce(d.client.ctx, record, func(record *kgo.Record, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.outstanding--; d.outstanding == 0 {
			d.stalled.Stop()
		} else {
			d.stalled.Reset(d.request.timeout)
		}
		if err != nil {
			d.failed(fmt.Errorf("record %d: %w", number, d.request.explain(d.limits, record, err)))
			return
		}
		d.acknowledged(record)
	})
}

// failed notes a record that the cluster did not take. d.mu is held.
func (d *delivery) failed(err error) {
	if d.client.ctx.Err() != nil {
		d.summary.Unknown++ // given up, which is why it failed
		return
	}
	d.summary.Failed++
	d.fail(err)
}

// fail ends the sending. d.mu is held.
func (d *delivery) fail(err error) {
	if d.failure == nil {
		d.failure = err
		close(d.stop)
	}
}

// acknowledged notes a record that the cluster has, and prints where. d.mu is held.
func (d *delivery) acknowledged(record *kgo.Record) {
	d.summary.Records++
	d.summary.Bytes += recordBytes(record)
	err := d.report.print(record)
	if d.outstanding == 0 { // nobody waits for the last of them longer than needed
		err = errors.Join(err, d.report.flush())
	}
	if err != nil {
		d.fail(fmt.Errorf("write: %w", err))
	}
	d.progress.tick(time.Now(), func(elapsed time.Duration) string {
		return fmt.Sprintf("%s, %s acknowledged, %s", counted(int(d.summary.Records), "record"),
			byteSize(d.summary.Bytes), perSecond(d.summary.Bytes, elapsed))
	})
}

// finish prints what is left to print and returns the first failure.
func (d *delivery) finish() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.end()
	if err := d.report.flush(); err != nil {
		d.fail(fmt.Errorf("write: %w", err))
	}
	return d.failure
}

func (d *delivery) summaryAfter(elapsed time.Duration) produceSummary {
	d.mu.Lock()
	defer d.mu.Unlock()
	summary := d.summary
	summary.Seconds = elapsed.Seconds()
	summary.Unknown += d.outstanding
	summary.Topics = d.limits.topics()
	return summary
}
