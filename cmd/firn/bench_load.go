package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/cmd/firn/bench"
)

// loadRequest is the command line of bench produce and bench e2e.
type loadRequest struct {
	loadFlags
	topic benchTopic
}

func benchProduceCommand() *cobra.Command {
	request := loadRequest{loadFlags: loadFlags{rateHelp: "0: as fast as it goes"}}
	cmd := &cobra.Command{
		Use:   "produce [TOPIC]",
		Short: "Produce, and measure throughput and the latency of acknowledgements",
		Long: "Produce, and measure throughput and the latency of acknowledgements. Without TOPIC a topic is made, and\n" +
			"removed at the end. The exit status is 0 only if every record that was due was acknowledged; an interrupt\n" +
			"prints what was measured until then.",
		Example: "  firn bench produce\n" +
			"  firn bench produce --rate 10MB --record-size 1k --acks all --partitions 4 --clients 2\n" +
			"  firn bench produce -n 1000000 -s 100 --compression zstd --batch-size 128k -f json\n" +
			"  firn bench produce --rate 5000 -c flush.messages=1 -b kafka:9092    # Kafka with an fsync for each batch",
		Args: takes(cobra.MaximumNArgs(1)),
	}
	brokers := request.addTo(cmd)
	return printing(cmd, func(cmd *cobra.Command, args []string) (*benchProduced, error) {
		options, err := request.check(cmd, args, 1)
		if err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		return request.produce(cmd, brokers, options)
	})
}

func benchEndToEndCommand() *cobra.Command {
	request := loadRequest{loadFlags: loadFlags{rateHelp: "there must be one"}}
	cmd := &cobra.Command{
		Use:   "e2e [TOPIC]",
		Short: "Produce at a fixed rate and receive: latency from when a record was due to its receipt",
		Long: "Produce at a fixed rate, receive the same records in this process, and measure the latency from when a\n" +
			"record was due to its receipt. Each record is counted: the exit status is 0 only if every one was acknowledged\n" +
			"and received, once if the producer is idempotent. Without TOPIC a topic is made, and removed at the end; in a\n" +
			"topic that is there, records of others do not matter. There are as many consumers as producers, but no more\n" +
			"than partitions.",
		Example: "  firn bench e2e --rate 10MB\n" +
			"  firn bench e2e --rate 2000 --linger 0s --acks 1 -d 1m -f json",
		Args: takes(cobra.MaximumNArgs(1)),
	}
	brokers := request.addTo(cmd)
	setDefault(cmd.Flags(), "rate", "1000")
	return printing(cmd, func(cmd *cobra.Command, args []string) (*benchEndToEnd, error) {
		options, err := request.check(cmd, args, bench.StampBytes)
		if err == nil && request.rate.value == 0 {
			err = errors.New("--rate must be positive: end to end is measured at a fixed rate")
		}
		if err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		return request.endToEnd(cmd, brokers, options)
	})
}

func (r *loadRequest) addTo(cmd *cobra.Command) *brokerFlag {
	brokers := addBrokerFlag(cmd)
	r.loadFlags.addFlags(cmd.Flags())
	r.topic.addFlags(cmd.Flags())
	cmd.ValidArgsFunction = completeTopics(brokers, 1)
	completeSending(cmd)
	return brokers
}

// check is for what needs no cluster.
func (r *loadRequest) check(cmd *cobra.Command, args []string, smallest int) ([]kgo.Opt, error) {
	r.loadFlags.settle(cmd.Flags().Changed)
	if err := r.loadFlags.check(smallest); err != nil {
		return nil, err
	}
	if err := r.topic.settle(cmd, args, time.Now()); err != nil {
		return nil, err
	}
	return r.options()
}

// loading is a load that is ready to run.
type loading struct {
	*fleet
	load     bench.Load
	settings loadSettings
	admin    *session
	progress *progress
}

// prepare makes topic, clients and load. What it returns is to be ended, also with an error, unless it is nil.
func (r *loadRequest) prepare(cmd *cobra.Command, brokers *brokerFlag, options []kgo.Opt) (*loading, error) {
	load, err := r.load(r.topic.name)
	if err != nil {
		return nil, err
	}
	seeds, err := brokers.seeds()
	if err != nil {
		return nil, err
	}
	l := &loading{fleet: newFleet(cmd.Context(), brokers), load: load}
	if l.admin, err = l.connect(cmd.Context()); err != nil {
		return l, err
	}
	limits := newTopicLimits(int32(r.batchBytes))
	limit, err := r.topic.prepare(l.admin, limits)
	if err != nil {
		return l, err
	}
	if err := r.fits(&l.load, limits, limit); err != nil {
		return l, err
	}
	options = append(slices.Clip(options), kgo.ProducerBatchMaxBytesFn(limits.forBatch))
	l.load.Clients, err = l.connectAll(cmd.Context(), slices.Repeat([][]kgo.Opt{options}, r.clients))
	if err != nil {
		return l, err
	}
	l.settings = r.describe(r.topic.name, seeds, limit)
	l.load.Observe = l.observe
	if !r.noProgress {
		l.progress = newProgress(cmd.ErrOrStderr(), time.Now())
	}
	return l, nil
}

// end removes the topic, if it was made for this, and closes the clients.
func (r *loadRequest) end(l *loading) error {
	l.progress.end()
	var err error
	if l.admin != nil {
		err = r.topic.remove(l.admin)
	}
	l.close()
	return err
}

func (l *loading) observe(p bench.Progress) {
	l.progress.tick(time.Now(), func(time.Duration) string {
		text := fmt.Sprintf("%.0f s, %s acknowledged, %.2f MB/s", p.Elapsed.Seconds(), counted(int(p.Records), "record"),
			float64(p.RecentBytes)/1e6)
		if p.Failed > 0 {
			text += fmt.Sprintf(", %d failed", p.Failed)
		}
		if p.WarmUp {
			text = "warm-up: " + text
		}
		return text
	})
}

func (r *loadRequest) produce(cmd *cobra.Command, brokers *brokerFlag, options []kgo.Opt) (
	result *benchProduced, err error,
) {
	l, err := r.prepare(cmd, brokers, options)
	if l == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end(l)) }()
	if err != nil {
		return nil, err
	}
	produced, err := l.load.Run(l.ctx, cmd.Context())
	result = &benchProduced{Bench: "produce", Settings: l.settings, Results: produceResults{
		throughput:     newThroughput(produced.Records, produced.Bytes, produced.Elapsed),
		sendingResults: newSendingResults(&produced),
	}}
	return result, cmp.Or(err, context.Cause(cmd.Context()), result.Results.failure(produced.FirstFailure))
}

func (r *loadRequest) endToEnd(cmd *cobra.Command, brokers *brokerFlag, options []kgo.Opt) (
	result *benchEndToEnd, err error,
) {
	l, err := r.prepare(cmd, brokers, options)
	if l == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end(l)) }()
	if err != nil {
		return nil, err
	}
	readers, err := r.readers(cmd.Context(), l)
	if err != nil {
		return nil, err
	}
	run := bench.EndToEnd{Load: l.load, Readers: readers, ID: uint64(time.Now().UnixNano())}
	received, err := run.Run(l.ctx, cmd.Context())
	result = &benchEndToEnd{Bench: "e2e", Settings: l.settings, Results: endToEndResults{
		throughput:   newThroughput(received.Received, received.Bytes, received.Elapsed),
		Acknowledged: received.Produced.Records, Lost: received.Lost, Duplicates: received.Duplicates,
		sendingResults: newSendingResults(&received.Produced), ReceivedMs: newLatencyMs(received.Latency),
	}}
	return result, cmp.Or(err, context.Cause(cmd.Context()), result.failure(received.FirstFailure))
}

// readers consume what comes from now on.
func (r *loadRequest) readers(interrupt context.Context, l *loading) ([]*kgo.Client, error) {
	consume := consumeRequest{follow: true, offsets: offsetRange{from: border{kind: atEnd}}}
	consume.choice.names = []string{r.topic.name}
	spans, err := consume.spans(l.admin)
	if err != nil {
		return nil, err
	}
	var options [][]kgo.Opt
	for _, share := range spans.deal(r.clients) {
		options = append(options, []kgo.Opt{kgo.ConsumePartitions(newReading(share, 0).begins()),
			kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(fetchMaxWait)})
	}
	return l.connectAll(interrupt, options)
}
