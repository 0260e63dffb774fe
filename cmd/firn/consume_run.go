package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// idleProbe is how long nothing may arrive before the command asks whether there is anything left to arrive.
const idleProbe = time.Second

// fetchMaxWait is how long a broker may keep a fetch that has nothing to give. A partition that is added has to wait
// for it.
const fetchMaxWait = time.Second

func (c *consumeRequest) run(cmd *cobra.Command, brokers *brokerFlag, output recordOutput) error {
	if c.group != "" {
		return c.runAsMember(cmd, brokers, output)
	}
	admin, err := brokers.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer admin.Close()
	spans, err := c.spans(admin)
	if err != nil {
		return err
	}
	reading := newReading(spans, c.limit)
	for _, note := range reading.notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "firn: %s\n", note)
	}
	if reading.finished() {
		return nil
	}
	reading.output, reading.filter, reading.control = output, c.filter, c.control
	reading.isolation = c.isolation
	// Progress would be torn apart by records on the same terminal.
	if !c.follow && !c.noProgress && !isTerminal(cmd.OutOrStdout()) {
		reading.progress = newProgress(cmd.ErrOrStderr(), time.Now())
	}
	defer reading.progress.end()
	// Control records are kept, and not printed, because a log may end with one.
	client, err := brokers.connect(cmd.Context(), kgo.ConsumePartitions(reading.begins()), kgo.FetchMaxWait(fetchMaxWait),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(c.isolation.level()), kgo.KeepControlRecords(),
		kgo.Rack(c.rack))
	if err != nil {
		return err
	}
	defer client.Close()

	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	if c.follow && len(c.partitions) == 0 {
		reading.discovery = newDiscovery(c.choice, spans)
	}
	err = reading.consume(client, out)
	if c.follow && cmd.Context().Err() != nil {
		err = nil // an interrupt is how following ends
	}
	if err == nil && c.offsets.from.kind == beforeEnd && !c.follow {
		reading.tellShortfall(cmd.ErrOrStderr())
	}
	return errors.Join(err, out.Flush())
}

// tellShortfall says why the last N offsets were not N records: who asks for the newest ones counts on that many.
func (r *reading) tellShortfall(w io.Writer) {
	if missing := r.total - r.met; missing > 0 && r.limit != 0 {
		fmt.Fprintf(w, "firn: %d of these %d offsets hold no record to show: it was compacted away or aborted, or a "+
			"transaction ends there; -o with a larger number reaches further back\n", missing, r.total)
	}
}

// reading is a consumption under way: what each partition still has to give.
type reading struct {
	left      topicSpans // partitions not yet at their end; start is the next offset to read
	limit     int64      // records still wanted; negative: no limit
	isolation isolationFlag
	filter    recordFilter
	control   bool // print control records, too
	output    recordOutput
	progress  *progress
	total     int64      // offsets that were to be read at first
	met       int64      // records that were read, without control records that are not to be printed
	bytes     int64      // of the records that were read
	discovery *discovery // nil: what is read is fixed
	notes     []string
	line      []byte // reused from record to record
	// printed is where partitions have come since it was emptied; nil: nobody asks.
	printed map[string]map[int32]kgo.EpochOffset
}

// newReading drops the partitions that have nothing to give. A limit of 0 means none.
func newReading(spans topicSpans, limit int64) *reading {
	r := &reading{left: make(topicSpans, len(spans)), limit: limit}
	if limit == 0 {
		r.limit = -1
	}
	for _, topic := range sortedKeys(spans) {
		for partition, wanted := range spans[topic] {
			if wanted.note != "" {
				r.notes = append(r.notes, fmt.Sprintf("%s partition %d: %s", topic, partition, wanted.note))
			}
			if wanted.start >= wanted.end {
				continue
			}
			r.add(topic, partition, wanted)
		}
	}
	r.total = r.offsetsLeft()
	return r
}

// offsetsLeft is how many offsets lie before the ends. Where there are no ends it means nothing.
func (r *reading) offsetsLeft() (left int64) {
	for _, partitions := range r.left {
		for _, wanted := range partitions {
			left += wanted.end - wanted.start
		}
	}
	return left
}

// describe is the line of progress.
func (r *reading) describe(elapsed time.Duration) string {
	done := r.total - r.offsetsLeft()
	return fmt.Sprintf("offset %d of %d (%d %%), %s, %s", done, r.total, 100*done/max(r.total, 1), byteSize(r.bytes),
		perSecond(r.bytes, elapsed))
}

func (r *reading) add(topic string, partition int32, wanted span) {
	if r.left[topic] == nil {
		r.left[topic] = make(map[int32]span)
	}
	r.left[topic][partition] = wanted
}

// begins tells kgo where to start.
func (r *reading) begins() map[string]map[int32]kgo.Offset {
	offsets := make(map[string]map[int32]kgo.Offset, len(r.left))
	for topic, partitions := range r.left {
		offsets[topic] = make(map[int32]kgo.Offset, len(partitions))
		for partition, wanted := range partitions {
			offsets[topic][partition] = kgo.NewOffset().At(wanted.start)
		}
	}
	return offsets
}

func (r *reading) finished() bool { return len(r.left) == 0 || r.limit == 0 }

// consume prints what arrives until every partition is at its end or the limit is reached.
func (r *reading) consume(client *session, out *bufio.Writer) error {
	for !r.finished() {
		fetches, err := poll(client.ctx, client)
		if err != nil {
			return err
		}
		idle, err := r.print(fetches, out)
		if err != nil {
			return err
		}
		r.progress.tick(time.Now(), r.describe)
		r.pauseFinished(client, fetches)
		if idle {
			r.probe(client)
		}
		if r.discovery != nil {
			r.discovery.extend(client, r)
		}
	}
	return nil
}

// poll waits for records, but not for ever.
func poll(ctx context.Context, client *session) (kgo.Fetches, error) {
	ctx, stop := context.WithTimeout(ctx, idleProbe)
	defer stop()
	fetches := client.PollFetches(ctx)
	if client.ctx.Err() != nil {
		return nil, context.Cause(client.ctx)
	}
	return fetches, nil
}

// print prints what was fetched, and returns once the output has taken it. It tells whether there was anything.
func (r *reading) print(fetches kgo.Fetches, out *bufio.Writer) (idle bool, err error) {
	idle = true
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		if fetched.Err != nil && !isContextError(fetched.Err) && err == nil {
			err = fmt.Errorf("consume %s partition %d: %w", fetched.Topic, fetched.Partition, fetched.Err)
		}
		if len(fetched.Records) > 0 && err == nil {
			idle = false
			err = r.take(out, &fetched.FetchPartition, fetched.Topic)
		}
	})
	if err != nil {
		return idle, err
	}
	if err := out.Flush(); err != nil {
		return idle, fmt.Errorf("write: %w", err)
	}
	return idle, nil
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// take prints the records of one partition that belong to the request, and notes how far it has come.
func (r *reading) take(out io.Writer, fetched *kgo.FetchPartition, topic string) error {
	left, ok := r.left[topic][fetched.Partition]
	if !ok {
		return nil
	}
	next, epoch := left.start, int32(-1)
	for _, record := range fetched.Records {
		if record.Offset >= left.end {
			next = left.end
			break
		}
		if r.limit == 0 {
			break
		}
		if record.Offset < left.start {
			continue
		}
		next, epoch = record.Offset+1, record.LeaderEpoch
		r.bytes += recordBytes(record)
		if record.Attrs.IsControl() && !r.control {
			continue
		}
		r.met++
		if !r.filter.matches(record) {
			continue
		}
		var err error
		if r.line, err = r.output(r.line[:0], fetched, record); err != nil {
			return err
		}
		if _, err := out.Write(r.line); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if r.limit > 0 {
			r.limit--
		}
	}
	if r.printed != nil && next > left.start {
		if r.printed[topic] == nil {
			r.printed[topic] = make(map[int32]kgo.EpochOffset)
		}
		r.printed[topic][fetched.Partition] = kgo.EpochOffset{Epoch: epoch, Offset: next}
	}
	r.advance(topic, fetched.Partition, next)
	return nil
}

// forget gives a partition up.
func (r *reading) forget(topic string, partition int32) {
	if _, ok := r.left[topic][partition]; ok {
		r.advance(topic, partition, math.MaxInt64)
	}
}

// advance notes the next offset to read, and forgets the partition once that is its end.
func (r *reading) advance(topic string, partition int32, next int64) {
	left := r.left[topic][partition]
	left.start = next
	if left.start < left.end {
		r.left[topic][partition] = left
		return
	}
	delete(r.left[topic], partition)
	if len(r.left[topic]) == 0 {
		delete(r.left, topic)
	}
}

// pauseFinished keeps the client from fetching what nobody will print.
func (r *reading) pauseFinished(client *session, fetches kgo.Fetches) {
	pause := make(map[string][]int32)
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		if _, ok := r.left[fetched.Topic][fetched.Partition]; !ok {
			pause[fetched.Topic] = append(pause[fetched.Topic], fetched.Partition)
		}
	})
	if len(pause) > 0 {
		client.PauseFetchPartitions(pause)
	}
}

// probe looks past the last record. A log can end with offsets that hold none: compaction keeps an empty batch in
// their place, and an aborted transaction leaves nothing to print. kgo passes over them in silence, so that a reading
// up to a fixed end would wait for ever.
func (r *reading) probe(client *session) {
	for topic, partitions := range r.left {
		for partition, left := range partitions {
			if left.end == math.MaxInt64 {
				continue // followed: it has no end
			}
			if next, ok := r.emptyUpTo(client, topic, partition, left.start); ok {
				r.advance(topic, partition, next)
			}
		}
	}
}

// emptyUpTo fetches once from offset. If what comes has no record to print it returns the offset after it. Any failure
// is left to the next poll, which reports or retries it.
func (r *reading) emptyUpTo(client *session, topic string, partition int32, offset int64) (next int64, ok bool) {
	topics, err := client.admin.ListTopics(client.ctx, topic)
	if err != nil || topics[topic].Err != nil {
		return 0, false
	}
	detail := topics[topic].Partitions[partition]
	request := probeRequest(topics[topic], detail, offset, r.isolation)
	response, err := request.RequestWith(client.ctx, client.Broker(int(detail.Leader)))
	if err != nil || len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return 0, false
	}
	answer := &response.Topics[0].Partitions[0]
	if kerr.ErrorForCode(answer.ErrorCode) != nil {
		return 0, false
	}
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: topic,
		Partition: partition, IsolationLevel: r.isolation.level()}, answer, kgo.DefaultDecompressor(), nil)
	return next, fetched.Err == nil && len(fetched.Records) == 0 && next > offset
}

func probeRequest(
	topic kadm.TopicDetail, partition kadm.PartitionDetail, offset int64, isolation isolationFlag,
) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes = 1 << 20
	if isolation == readCommitted {
		request.IsolationLevel = 1
	}
	requestTopic := kmsg.NewFetchRequestTopic()
	requestTopic.Topic, requestTopic.TopicID = topic.Topic, topic.ID
	requestPartition := kmsg.NewFetchRequestTopicPartition()
	requestPartition.Partition = partition.Partition
	requestPartition.CurrentLeaderEpoch = partition.LeaderEpoch
	requestPartition.FetchOffset = offset
	requestPartition.PartitionMaxBytes = 1 << 20
	requestTopic.Partitions = append(requestTopic.Partitions, requestPartition)
	request.Topics = append(request.Topics, requestTopic)
	return request
}
