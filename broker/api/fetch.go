package api

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// fetchCall is one Fetch request from its first look to its answer. Calls are pooled: a fetch is the most frequent
// request there is, and nothing in it outlives the answer.
type fetchCall struct {
	handlers      *Handlers
	version       int16
	correlationID int32
	conn          *wire.Conn
	request       kmsg.FetchRequest

	session    *fetchSession    // nil without one
	wanted     []fetchPartition // without a session
	partitions []replica.FetchPartition
	isolation  replica.Isolation
	fetch      *replica.Fetch
	results    []replica.FetchResult

	response wire.FetchResponse
	answers  []wire.FetchPartitionResponse
	hints    leaderHints
}

// fetchCalls is the pool of calls.
type fetchCalls struct{ pool sync.Pool }

func (c *fetchCalls) get() *fetchCall {
	if call, ok := c.pool.Get().(*fetchCall); ok {
		return call
	}
	return &fetchCall{}
}

// put empties the call, so that it keeps neither partitions nor records alive, and keeps its slices.
func (c *fetchCalls) put(call *fetchCall) {
	const maxKept = 16384 // partitions: a call that once served more is not worth its memory
	if max(cap(call.wanted), cap(call.partitions)) > maxKept {
		return
	}
	clear(call.wanted)
	clear(call.partitions)
	clear(call.answers)
	clear(call.results)
	clear(call.response.Topics)
	*call = fetchCall{
		wanted: call.wanted[:0], partitions: call.partitions[:0], answers: call.answers[:0],
		results:  call.results[:0],
		response: wire.FetchResponse{Topics: call.response.Topics[:0]},
	}
	c.pool.Put(call)
}

// fetch serves Fetch v4–v18: sessions since v7 (KIP-227), leader epochs since v9 (KIP-320), topic ids since v13
// (KIP-516). v0–v3 would need down-conversion, which Kafka 4 no longer does.
func (h *Handlers) fetch(_ context.Context, req *wire.Request) wire.Reply {
	call := h.calls.get()
	call.handlers, call.version, call.correlationID, call.conn = h, req.Version, req.CorrelationID, req.Conn
	call.request.Default()
	call.request.SetVersion(req.Version)
	if err := wire.BoundedDecode(req, &call.request); err != nil {
		return malformed(err)
	}
	if err := call.begin(); err != nil {
		call.response.ErrorCode = kafka.CodeOf(err)
		return wire.Reply{Response: call.encode()}
	}
	params := replica.FetchParams{
		Session:   call.resolve(),
		MaxWait:   time.Duration(call.request.MaxWaitMillis) * time.Millisecond,
		MinBytes:  int(call.request.MinBytes),
		MaxBytes:  min(int(call.request.MaxBytes), h.options.FetchMaxBytes),
		Isolation: replica.Isolation(call.request.IsolationLevel),
	}
	call.isolation = params.Isolation
	call.fetch = h.options.Replicas.Fetch(req.Conn.Context, params, call.partitions, call.results)
	if call.fetch.Done() == nil {
		return wire.Reply{Response: call.finish()}
	}
	return wire.Reply{Wait: call.fetch.Done(), Finish: call.finish, Cancel: call.fetch.Cancel}
}

// begin finds out which partitions are wanted: those of the request, or of its session.
func (c *fetchCall) begin() (err error) {
	c.session, c.wanted, err = c.handlers.sessions.begin(&c.request, c.wanted)
	if c.session != nil {
		c.response.SessionID = c.session.id
	}
	return err
}

// resolve finds the partitions. Those of a session, which is returned, are looked up anew as long as they are not
// there: a topic may have been deleted and created again while the session lived.
func (c *fetchCall) resolve() *replica.Session {
	if c.session != nil {
		c.session.lock()
		defer c.session.mu.Unlock()
		c.session.fetched.Resolve(func(sub *replica.Subscription) (*replica.Partition, error) {
			return c.find(&sub.Owner.(*sessionEntry).wanted)
		})
		return &c.session.fetched
	}
	for i := range c.wanted {
		c.partitions = append(c.partitions, c.wanted[i].fetch(c.find(&c.wanted[i])))
	}
	return nil
}

func (c *fetchCall) find(wanted *fetchPartition) (*replica.Partition, error) {
	if c.byID() {
		return c.handlers.options.Replicas.PartitionByID(wanted.idPartition())
	}
	return c.handlers.options.Replicas.Partition(wanted.topicPartition())
}

// byID tells whether the request names topics by id (v13 and later).
func (c *fetchCall) byID() bool { return c.version >= fetchTopicIDsFrom }

const fetchTopicIDsFrom = 13

// finish reads, encodes and gives the call back to the pool.
func (c *fetchCall) finish() *wire.Response {
	results := c.fetch.Results()
	c.results, c.partitions = results, c.fetch.Partitions()
	if cap(c.answers) < len(results) {
		c.answers = make([]wire.FetchPartitionResponse, 0, len(results)) // grown once: topics hold parts of it
	}
	var previous *fetchPartition
	c.session.lock()
	for i := range results {
		wanted, entry := c.wantedAt(i)
		p := c.partitions[i].Partition
		if p == nil && c.byID() {
			results[i].Err = c.session.staleID(c.handlers.options.Replicas, entry, results[i].Err)
		}
		if !c.session.changed(entry, &results[i]) {
			results[i].Release()
			continue
		}
		c.answers = append(c.answers, c.answer(wanted, &results[i]))
		if p != nil {
			if entry != nil {
				entry.topic = p.TopicPartition().Topic
			}
			p.CountFetch(&results[i])
		}
		c.place(previous, wanted)
		previous = wanted
	}
	if c.session != nil {
		c.session.fetched.Settle(c.partitions, results)
	}
	c.session.unlock()
	return c.encode()
}

// wantedAt is what the client asked for, and the place in its session, if it has one.
func (c *fetchCall) wantedAt(i int) (*fetchPartition, *sessionEntry) {
	if c.session == nil {
		return &c.wanted[i], nil
	}
	entry := c.partitions[i].Subscription.Owner.(*sessionEntry)
	return &entry.wanted, entry
}

// place adds the newest answer to its topic. Partitions of one topic that follow each other share an entry.
func (c *fetchCall) place(previous, wanted *fetchPartition) {
	last := len(c.answers)
	if previous != nil && previous.sameTopic(wanted) {
		topic := &c.response.Topics[len(c.response.Topics)-1]
		topic.Partitions = c.answers[last-1-len(topic.Partitions) : last]
		return
	}
	c.response.Topics = append(c.response.Topics, wire.FetchTopicResponse{
		Name: wanted.topic, ID: wanted.id, Partitions: c.answers[last-1 : last],
	})
}

// encode ends the call.
func (c *fetchCall) encode() *wire.Response {
	c.response.NodeEndpoints = c.hints.endpoints
	response := wire.EncodeFetchResponse(c.version, c.correlationID, &c.response)
	c.handlers.calls.put(c)
	return response
}

func (c *fetchCall) answer(wanted *fetchPartition, result *replica.FetchResult) wire.FetchPartitionResponse {
	answer := wire.FetchPartitionResponse{
		Partition:            wanted.partition,
		ErrorCode:            kafka.CodeOf(result.Err),
		HighWatermark:        result.HighWatermark,
		LastStableOffset:     result.LastStableOffset,
		LogStartOffset:       result.LogStartOffset,
		PreferredReadReplica: kafka.NoBroker,
		Records:              wire.Chunk{Region: result.Region, Bytes: result.Data},
	}
	if result.Hold != nil {
		answer.Records.Hold = result.Hold
	}
	if c.isolation == replica.ReadCommitted && result.Err == nil || unknown(answer.ErrorCode) {
		answer.AbortedTransactions = abortedIn(result)
	}
	if result.Diverging != nil {
		answer.DivergingEpoch = &wire.EpochEndOffset{
			Epoch: result.Diverging.Epoch, EndOffset: result.Diverging.EndOffset,
		}
	}
	switch answer.ErrorCode {
	case kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch:
		if c.version >= fetchLeaderHintsFrom {
			topic := c.handlers.namedTopic(wanted.topic, wanted.id)
			answer.CurrentLeader = c.hints.hint(c.handlers, c.conn, topic, wanted.partition)
		}
	case kafka.UnknownServerError, kafka.KafkaStorageError:
		c.handlers.logFailure("fetch failed", result.Err)
	}
	return answer
}

// unknown tells whether an error says that there is no such partition: its answer is not one of a log, and not null
// where that of a log would be.
func unknown(code kafka.Errno) bool {
	return code == kafka.UnknownTopicOrPartition || code == kafka.UnknownTopicID
}

// noneAborted is the answer to read_committed where nothing was aborted: an empty list, where null would mean
// read_uncommitted.
var noneAborted = []wire.AbortedTransaction{}

// abortedIn lists whose records a reader of committed ones leaves out, and from where on.
func abortedIn(result *replica.FetchResult) []wire.AbortedTransaction {
	if len(result.Aborted) == 0 {
		return noneAborted
	}
	aborted := make([]wire.AbortedTransaction, len(result.Aborted))
	for i, transaction := range result.Aborted {
		aborted[i] = wire.AbortedTransaction{ProducerID: transaction.ProducerID, FirstOffset: transaction.FirstOffset}
	}
	return aborted
}
