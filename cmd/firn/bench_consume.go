package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// benchConsumeRequest is the command line of bench consume.
type benchConsumeRequest struct {
	consumeRequest
	duration       time.Duration
	clients        int
	maxBytes       byteCount
	partitionBytes byteCount
	minBytes       byteCount
	maxWait        time.Duration
}

func benchConsumeCommand() *cobra.Command {
	var request benchConsumeRequest
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read a topic as fast as it goes, and measure throughput",
		Long: "Read a topic, without a group, from where -o says to the ends that the partitions have when the command\n" +
			"starts, and measure throughput, connecting included. Records are decoded and dropped.",
		Example: "  firn bench produce --keep && firn topic list firn-bench-\n" +
			"  firn bench consume flights --clients 4\n" +
			"  firn bench consume flights -o @-1h -n 1000000 -f json",
		Args: takes(cobra.ExactArgs(1)),
	}
	brokers := addBrokerFlag(cmd)
	request.addFlags(cmd.Flags())
	cmd.ValidArgsFunction = completeTopics(brokers, 1)
	return printing(cmd, func(cmd *cobra.Command, args []string) (*benchConsumed, error) {
		if err := request.check(args); err != nil {
			return nil, usageError{cmd.CommandPath(), err}
		}
		return request.run(cmd, brokers)
	})
}

func (r *benchConsumeRequest) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&r.offset, "offset", "o", "start", offsetHelp)
	flags.Int32SliceVarP(&r.partitions, "partitions", "p", nil, "read these partitions only")
	flags.Int64VarP(&r.limit, "records", "n", 0, "stop after this many records (0: at the end)")
	flags.DurationVarP(&r.duration, "duration", "d", 0, "stop after this time (0: at the end)")
	r.isolation.addFlag(flags)
	flags.IntVar(&r.clients, "clients", 1,
		"clients, each with its own connections, which share the partitions; no more than partitions")
	r.maxBytes, r.partitionBytes, r.minBytes = 50<<20, 1<<20, 1
	flags.Var(&r.maxBytes, "fetch-max-bytes", "most that a broker answers a fetch with")
	flags.Var(&r.partitionBytes, "fetch-partition-bytes", "most that it answers with for one partition")
	flags.Var(&r.minBytes, "fetch-min-bytes", "least that it answers with before --fetch-max-wait is over")
	flags.DurationVar(&r.maxWait, "fetch-max-wait", fetchMaxWait, "how long it may wait for that")
	flags.BoolVar(&r.noProgress, "no-progress", false, "show no progress on a terminal")
}

// check is for what needs no cluster.
func (r *benchConsumeRequest) check(args []string) (err error) {
	r.choice.names = args
	if r.offsets, err = parseOffsetRange(r.offset, time.Now()); err != nil {
		return err
	}
	switch {
	case r.limit < 0:
		return errors.New("--records must not be negative")
	case r.duration < 0:
		return errors.New("--duration must not be negative")
	case r.clients < 1 || r.clients > maxBenchClients:
		return fmt.Errorf("--clients must be between 1 and %d", maxBenchClients)
	case r.partitionBytes < 1 || r.maxBytes < r.partitionBytes || r.maxBytes > maxFetchBytes:
		return fmt.Errorf("--fetch-max-bytes must be at most %d and no less than --fetch-partition-bytes", maxFetchBytes)
	case r.minBytes < 1 || r.minBytes > r.maxBytes:
		return errors.New("--fetch-min-bytes must be between 1 and --fetch-max-bytes")
	case r.maxWait < 10*time.Millisecond || r.maxWait > time.Minute:
		return errors.New("--fetch-max-wait must be between 10ms and 1m")
	}
	return nil
}

// maxFetchBytes is the largest answer that kgo takes.
const maxFetchBytes = 100 << 20

// deal shares the partitions among so many, as evenly as their number allows. Nobody gets none.
func (s topicSpans) deal(shares int) []topicSpans {
	var dealt []topicSpans
	place := 0
	for _, topic := range sortedKeys(s) {
		partitions := make([]int32, 0, len(s[topic]))
		for partition := range s[topic] {
			partitions = append(partitions, partition)
		}
		slices.Sort(partitions)
		for _, partition := range partitions {
			if len(dealt) < shares {
				dealt = append(dealt, topicSpans{})
			}
			share := dealt[place%shares]
			if share[topic] == nil {
				share[topic] = make(map[int32]span)
			}
			share[topic][partition] = s[topic][partition]
			place++
		}
	}
	return dealt
}

// These end a reading that has done what was asked for.
var (
	errTimeUp = errors.New("--duration is over")
	errEnough = errors.New("--records are read")
)

// benchReading is a measured reading under way.
type benchReading struct {
	request *benchConsumeRequest
	stop    context.CancelCauseFunc
	counts  []*readerCount
	left    atomic.Int64 // records still wanted, if there is a limit
	began   time.Time
}

// readerCount is what one client has read.
type readerCount struct {
	records, bytes atomic.Int64
	first, last    time.Time           // when a batch was at hand; for others once the reading has ended
	batch          *kgo.FetchPartition // that the times are of
}

func (r *benchConsumeRequest) run(cmd *cobra.Command, brokers *brokerFlag) (*benchConsumed, error) {
	ctx, stop := context.WithCancelCause(cmd.Context())
	defer stop(nil)
	admin, err := brokers.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	spans, err := r.spans(admin)
	if err != nil {
		return nil, err
	}
	shares := spans.deal(r.clients)
	seeds, err := brokers.seeds()
	if err != nil {
		return nil, err
	}
	b := &benchReading{request: r, stop: stop, began: time.Now()}
	b.left.Store(r.limit)
	for range shares {
		b.counts = append(b.counts, &readerCount{})
	}
	if r.duration > 0 {
		defer time.AfterFunc(r.duration, func() { stop(errTimeUp) }).Stop()
	}
	var line *progress
	if !r.noProgress {
		line = newProgress(cmd.ErrOrStderr(), b.began)
	}
	var readers, watcher sync.WaitGroup
	for i, share := range shares {
		readers.Go(func() {
			if err := b.read(ctx, brokers, share, b.counts[i]); err != nil {
				stop(err)
			}
		})
	}
	watching, stopWatching := context.WithCancel(ctx)
	watcher.Go(func() { b.watch(watching, line) })
	readers.Wait()
	stopWatching()
	watcher.Wait()
	line.end()
	if err = context.Cause(ctx); errors.Is(err, errTimeUp) || errors.Is(err, errEnough) {
		err = nil
	}
	return b.result(r.describe(seeds, spans, len(shares))), err
}

// read reads a share of the partitions to their ends.
func (b *benchReading) read(ctx context.Context, brokers *brokerFlag, share topicSpans, count *readerCount) error {
	reading := newReading(share, 0)
	if reading.finished() {
		return nil
	}
	reading.isolation = b.request.isolation
	reading.output = func(line []byte, fetched *kgo.FetchPartition, record *kgo.Record) ([]byte, error) {
		return line, b.take(count, fetched, record)
	}
	client, err := brokers.connect(ctx, kgo.ConsumePartitions(reading.begins()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(reading.isolation.level()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(int32(b.request.maxBytes)), kgo.FetchMaxPartitionBytes(int32(b.request.partitionBytes)),
		kgo.FetchMinBytes(int32(b.request.minBytes)), kgo.FetchMaxWait(b.request.maxWait))
	if err != nil {
		return err
	}
	defer client.Close()
	return reading.consume(client, bufio.NewWriter(io.Discard))
}

// take counts a record, if it is still wanted.
func (b *benchReading) take(count *readerCount, fetched *kgo.FetchPartition, record *kgo.Record) error {
	if b.request.limit > 0 && b.left.Add(-1) < 0 {
		return errEnough
	}
	if fetched != count.batch { // a look at the clock for each record would be a part of what is measured
		count.batch, count.last = fetched, time.Now()
		if count.first.IsZero() {
			count.first = count.last
		}
	}
	count.records.Add(1)
	count.bytes.Add(recordBytes(record))
	return nil
}

// watch shows how far the reading is.
func (b *benchReading) watch(ctx context.Context, line *progress) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	before := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			records, bytes := b.total()
			line.tick(now, func(elapsed time.Duration) string {
				return fmt.Sprintf("%.0f s, %s, %.2f MB/s", elapsed.Seconds(), counted(int(records), "record"),
					float64(bytes-before)/1e6)
			})
			before = bytes
		}
	}
}

func (b *benchReading) total() (records, bytes int64) {
	for _, count := range b.counts {
		records += count.records.Load()
		bytes += count.bytes.Load()
	}
	return records, bytes
}
