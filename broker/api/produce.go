package api

import (
	"context"
	"errors"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// The values of acks.
const (
	acksAll    int16 = -1
	acksNone   int16 = 0
	acksLeader int16 = 1
)

// errUnheard closes the connection of a client that would not hear otherwise that its records are not taken.
var errUnheard = errors.New("a produce request with acks=0 was refused")

// produceCall is one Produce request from its append to its answer.
type produceCall struct {
	handlers      *Handlers
	version       int16
	correlationID int32
	conn          *wire.Conn
	response      wire.ProduceResponse
	failed        bool
	// refusal is why no partition is appended to, if that is so; verified, in the order of the request, what became of the
	// partitions in which a transaction may begin.
	refusal  error
	verified []verifiedPartition
	refused  int // partitions for which the disk has no room
	// waits and waiting are, for acks=all, the partitions to be committed and where in the response they stand.
	waits   []replica.CommitItem
	waiting []*wire.ProducePartitionResponse
	commit  *replica.Commit
	// one has room for a request for one partition, as most are.
	one struct {
		topic     [1]wire.ProduceTopicResponse
		partition [1]wire.ProducePartitionResponse
		wait      [1]replica.CommitItem
		waiting   [1]*wire.ProducePartitionResponse
	}
}

// produce serves Produce v3–v13 (v0–v2 are advertised for the sake of librdkafka and close the connection). v8
// answers record errors (KIP-467), v10 leader hints (KIP-951), v12 lets partitions join a transaction with their first
// records (KIP-890), v13 names topics by id. All appends happen here, in the order of the requests of a connection; for
// acks=all the answer then waits for the commit.
func (h *Handlers) produce(_ context.Context, req *wire.Request) wire.Reply {
	view, err := wire.ParseProduce(req.Version, req.Body)
	if err != nil {
		return malformed(err)
	}
	call := &produceCall{handlers: h, version: req.Version, correlationID: req.CorrelationID, conn: req.Conn}
	call.judge(&view)
	call.append(&view)
	if call.refused > 0 && call.refused == view.PartitionCount {
		call.response.ThrottleMs = fullDiskThrottleMs
	}
	switch {
	case view.Acks == acksNone && call.failed:
		// The client does not listen: closing is the only way to tell it, and makes it ask for metadata again.
		return wire.Reply{None: true, Close: errUnheard, Response: call.encode()}
	case view.Acks == acksNone:
		return wire.Reply{None: true}
	case len(call.waits) == 0:
		return wire.Reply{Response: call.encode()}
	}
	timeout := time.Duration(max(view.TimeoutMs, 0)) * time.Millisecond
	call.commit = h.options.Replicas.AwaitCommit(call.waits, timeout)
	select {
	case <-call.commit.Done(): // at once where nobody waits for the disk, so the writer need not be woken
		return wire.Reply{Response: call.finish()}
	default:
		return wire.Reply{Wait: call.commit.Done(), Finish: call.finish}
	}
}

// fullDiskThrottleMs is how long a client has to wait whose records found no room, none of them: it would only send the
// same megabytes again, as fast as it can, and be refused again.
const fullDiskThrottleMs = 1000

// judge finds out whether the request may append at all, and asks about its transaction, if it has one.
func (c *produceCall) judge(view *wire.ProduceView) {
	if view.Acks != acksAll && view.Acks != acksNone && view.Acks != acksLeader {
		c.refusal = kafka.InvalidRequiredAcks
		return
	}
	c.refusal = c.verify(view)
}

func (c *produceCall) append(view *wire.ProduceView) {
	partitions := c.one.partition[:]
	c.response.Topics, c.waits, c.waiting = c.one.topic[:0], c.one.wait[:0], c.one.waiting[:0]
	if max(view.TopicCount, view.PartitionCount) > 1 {
		c.response.Topics = make([]wire.ProduceTopicResponse, 0, view.TopicCount)
		partitions = make([]wire.ProducePartitionResponse, view.PartitionCount)
		if view.Acks == acksAll {
			c.waits = make([]replica.CommitItem, 0, view.PartitionCount)
			c.waiting = make([]*wire.ProducePartitionResponse, 0, view.PartitionCount)
		}
	}
	for topics := view.Topics(); topics.Next(); {
		topic := wire.ProduceTopicResponse{ID: topics.ID()}
		count := 0
		for entries := topics.Partitions(); entries.Next(); {
			answer := &partitions[count]
			count++
			*answer = wire.ProducePartitionResponse{
				Partition: entries.Partition(), BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1,
			}
			if c.refusal != nil {
				c.fail(answer, nil, c.refusal)
				continue
			}
			if p := c.appendPartition(&topics, &entries, view.Acks, answer); p != nil {
				topic.Name = p.TopicPartition().Topic // the same string for every request: no copy of the frame's
			}
		}
		if topic.Name == "" {
			topic.Name = string(topics.Name())
		}
		if count == 0 {
			continue
		}
		topic.Partitions = partitions[:count:count]
		partitions = partitions[count:]
		c.response.Topics = append(c.response.Topics, topic)
	}
}

// appendPartition appends one partition's records and returns the partition, if it is here.
func (c *produceCall) appendPartition(topics *wire.ProduceTopics, entries *wire.ProducePartitions, acks int16,
	answer *wire.ProducePartitionResponse,
) *replica.Partition {
	p, err := c.find(topics, entries.Partition())
	if err != nil {
		c.fail(answer, nil, err)
		return nil
	}
	if kafka.IsInternalTopic(p.TopicPartition().Topic) { // its records are its coordinator's
		c.fail(answer, p, kafka.InvalidTopic)
		return p
	}
	verified := c.verifiedFor(p)
	if verified.err != nil {
		c.fail(answer, nil, verified.err) // the log was not asked
		return p
	}
	appended, err := p.Append(entries.Records(), replica.AppendRequest{
		Version: c.version, AwaitCommit: acks == acksAll, Guard: verified.guard,
	})
	if err != nil {
		c.fail(answer, p, err)
		return p
	}
	answer.BaseOffset = appended.BaseOffset
	answer.LogAppendTime = appended.LogAppendTime
	answer.LogStartOffset = appended.LogStartOffset
	if acks == acksAll {
		c.waits = append(c.waits, replica.CommitItem{Partition: p, Offset: appended.RequiredOffset})
		c.waiting = append(c.waiting, answer)
	}
	return p
}

func (c *produceCall) find(topics *wire.ProduceTopics, partition int32) (*replica.Partition, error) {
	if topics.Name() != nil {
		return c.handlers.options.Replicas.PartitionOf(topics.Name(), partition)
	}
	return c.handlers.options.Replicas.PartitionByID(kafka.TopicIDPartition{ID: topics.ID(), Partition: partition})
}

// fail answers one partition with an error and the records to blame.
func (c *produceCall) fail(answer *wire.ProducePartitionResponse, p *replica.Partition, err error) {
	c.failed = true
	if errors.Is(err, replica.ErrNoSpace) {
		c.refused++
	}
	code, message := fail(err)
	answer.ErrorCode = kafka.Errno(code)
	answer.BaseOffset, answer.LogAppendTime, answer.LogStartOffset = -1, -1, logStartFor(p, err)
	if message != nil {
		answer.ErrorMessage = *message
	}
	var invalid *record.InvalidRecordsError
	if errors.As(err, &invalid) {
		for _, one := range invalid.RecordErrors {
			answer.RecordErrors = append(answer.RecordErrors,
				wire.RecordError{BatchIndex: one.BatchIndex, Message: one.Message})
		}
	}
	if answer.ErrorCode == kafka.UnknownServerError {
		c.handlers.logFailure("produce failed", err)
	}
}

// logStartFor is the log start offset that goes with an error: what refuses the records knows it, what comes before
// does not (as with Kafka, where the former happens inside of the log).
func logStartFor(p *replica.Partition, err error) int64 {
	if p == nil || errors.Is(err, record.ErrNotOneBatch) {
		return -1
	}
	switch kafka.CodeOf(err) {
	case kafka.UnknownTopicOrPartition, kafka.NotLeaderOrFollower, kafka.MessageTooLarge, kafka.RecordListTooLarge,
		kafka.CorruptMessage, kafka.KafkaStorageError, kafka.UnsupportedCompressionType:
		return -1
	}
	log, err := p.Log()
	if err != nil {
		return -1
	}
	return log.LogStartOffset()
}

// finish answers after the commit. A partition whose commit failed loses its offset: what became of its records is
// not known, and the client has to send them again.
func (c *produceCall) finish() *wire.Response {
	for i, answer := range c.waiting {
		if err := c.commit.Err(i); err != nil {
			c.fail(answer, c.waits[i].Partition, err)
		}
	}
	return c.encode()
}

func (c *produceCall) encode() *wire.Response {
	if c.failed && c.version >= produceLeaderHintsFrom {
		c.hintLeaders()
	}
	return wire.EncodeProduceResponse(c.version, c.correlationID, &c.response)
}

// hintLeaders tells who leads the partitions that this broker does not.
func (c *produceCall) hintLeaders() {
	var hints leaderHints
	for i := range c.response.Topics {
		topic := &c.response.Topics[i]
		for j := range topic.Partitions {
			if p := &topic.Partitions[j]; p.ErrorCode == kafka.NotLeaderOrFollower {
				p.CurrentLeader = hints.hint(c.handlers, c.conn, c.handlers.namedTopic(topic.Name, topic.ID), p.Partition)
			}
		}
	}
	c.response.NodeEndpoints = hints.endpoints
}
