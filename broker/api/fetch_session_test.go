package api

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// sessionClient fetches partitions of one topic in a session, as a client library does it: it sends an offset only when
// it has changed.
type sessionClient struct {
	n       *testNode
	id      kafka.TopicID
	session int32
	epoch   int32
	offsets []int64
	changed []bool
	waits   int32 // ms
	max     int32 // bytes
	level   int8
}

func newSessionClient(n *testNode, id kafka.TopicID, partitions int) *sessionClient {
	c := &sessionClient{
		n: n, id: id, offsets: make([]int64, partitions), changed: make([]bool, partitions), max: 1 << 20,
	}
	for i := range c.changed {
		c.changed[i] = true
	}
	return c
}

// request is the next one, with what has changed since the last.
func (c *sessionClient) request() *kmsg.FetchRequest {
	req := fetchRequest("", c.id, c.offsets...)
	listed := &req.Topics[0].Partitions
	*listed = slices.DeleteFunc(*listed, func(p kmsg.FetchRequestTopicPartition) bool { return !c.changed[p.Partition] })
	if len(*listed) == 0 {
		req.Topics = nil
	}
	clear(c.changed)
	req.SessionID, req.SessionEpoch, req.MaxWaitMillis, req.MaxBytes = c.session, c.epoch, c.waits, c.max
	req.IsolationLevel = c.level
	return req
}

// poll fetches and returns the partitions of the answer, in its order.
func (c *sessionClient) poll() []fetched {
	c.n.t.Helper()
	return c.take(ask[*kmsg.FetchResponse](c.n, c.request(), 13))
}

func (c *sessionClient) take(resp *kmsg.FetchResponse) (answered []fetched) {
	c.n.t.Helper()
	if resp.ErrorCode != 0 {
		c.n.t.Fatalf("epoch %d: %v", c.epoch, kafka.Errno(resp.ErrorCode))
	}
	c.session = resp.SessionID
	c.epoch++
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			answered = append(answered, fetched{p})
		}
	}
	return answered
}

// advance takes over what was read, so that the next request goes on behind it.
func (c *sessionClient) advance(answered []fetched) (records int) {
	for _, p := range answered {
		for _, b := range p.batches(c.n.t) {
			if b.BaseOffset() != c.offsets[p.Partition] {
				c.n.t.Fatalf("partition %d goes on at %d, want %d", p.Partition, b.BaseOffset(), c.offsets[p.Partition])
			}
			records += int(b.NextOffset() - b.BaseOffset())
			c.offsets[p.Partition], c.changed[p.Partition] = b.NextOffset(), true
		}
	}
	return records
}

func partitionsOf(answered []fetched) []int32 {
	var partitions []int32
	for _, p := range answered {
		partitions = append(partitions, p.Partition)
	}
	return partitions
}

// TestASessionServesEachPartitionInItsTurn: where an answer has room for one batch, the others are not forgotten, be it
// that the client goes on or that it asks for the same again.
func TestASessionServesEachPartitionInItsTurn(t *testing.T) {
	n := newTestNode(t, nil)
	c := newSessionClient(n, n.createTopic("a", 4), 4)
	for p := range int32(3) {
		n.produce("a", p, "x")
	}
	c.max = 1
	with := func(answered []fetched) (served []int32) {
		for _, p := range answered {
			if len(p.RecordBatches) > 0 {
				served = append(served, p.Partition)
			}
		}
		return served
	}
	if first := c.poll(); len(first) != 4 || !slices.Equal(with(first), []int32{0}) {
		t.Fatalf("the first answer has all partitions, and records of one: %v, %v", partitionsOf(first), with(first))
	}
	for _, want := range []int32{1, 2, 0, 1} { // the offsets stay what they were
		if got := c.poll(); !slices.Equal(partitionsOf(got), []int32{want}) {
			t.Fatalf("answered %v, want %d", partitionsOf(got), want)
		}
	}
	var served []int32
	for range 3 {
		answered := c.poll()
		served = append(served, with(answered)...)
		c.advance(answered)
	}
	if slices.Sort(served); !slices.Equal(served, []int32{0, 1, 2}) {
		t.Errorf("served %v", served)
	}
	for range 2 {
		if got := c.poll(); len(got) != 0 {
			t.Errorf("everything is read, and the answer has %v", partitionsOf(got))
		}
	}
}

// TestASessionAtRestHearsOfEverything: partitions that had nothing are not looked at again, until they change.
func TestASessionAtRestHearsOfEverything(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 3)
	c := newSessionClient(n, id, 3)
	n.produce("a", 0, "x", "y")
	c.advance(c.poll())
	c.poll()
	if got := c.poll(); len(got) != 0 {
		t.Fatalf("at rest, and answered %v", partitionsOf(got))
	}
	n.produce("a", 1, "appended")
	if got := c.poll(); c.advance(got) != 1 || got[0].Partition != 1 {
		t.Errorf("after an append: %v", partitionsOf(got))
	}
	c.poll()

	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 1000
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = "a"
	first := kmsg.NewDeleteRecordsRequestTopicPartition()
	first.Offset = 1
	topic.Partitions = append(topic.Partitions, first)
	req.Topics = append(req.Topics, topic)
	ask[*kmsg.DeleteRecordsResponse](n, req, 2)
	if got := c.poll(); len(got) != 1 || got[0].LogStartOffset != 1 {
		t.Errorf("after the log start has moved: %+v", got)
	}

	c.changed[2] = true
	n.bumpEpoch()
	if got := c.poll(); len(got) != 0 {
		t.Errorf("a client that does not care for epochs is told of one: %v", partitionsOf(got))
	}
	c.offsets[0], c.changed[0] = 1, true
	if got := c.poll(); len(got) != 1 || got[0].Partition != 0 || len(got[0].batches(t)) != 1 {
		t.Errorf("after going back: %v", partitionsOf(got))
	}
	c.level, c.offsets[0], c.changed[0] = 1, 2, true
	c.poll()
	n.produce("a", 2, "z")
	if got := c.poll(); c.advance(got) != 1 {
		t.Errorf("with another isolation level: %v", partitionsOf(got))
	}

	c.poll()
	n.deleteTopic("a", 0)
	for range 2 { // an error is told until it is over
		if got := c.poll(); len(got) != 3 || kafka.Errno(got[0].ErrorCode) != kafka.UnknownTopicOrPartition {
			t.Errorf("after the topic was deleted: %+v", got)
		}
	}
}

// TestASessionThatWaitsIsWoken appends at random while a client polls with a wait that is longer than the test: whoever
// is not woken lets the fake time jump.
func TestASessionThatWaitsIsWoken(t *testing.T) {
	const partitions, records = 20, 2000
	synctest.Test(t, func(t *testing.T) {
		n := newTestNode(t, nil)
		c := newSessionClient(n, n.createTopic("a", partitions), partitions)
		c.waits = 3_600_000
		began := time.Now()
		produced := make(chan struct{})
		go func() {
			defer close(produced)
			random := rand.New(rand.NewPCG(1, 2))
			for range records {
				req := produceRequest("a", kafka.TopicID{}, int32(random.IntN(partitions)), int16(random.IntN(2)), batch("x"))
				n.send(req, 9)
				if random.IntN(10) == 0 {
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				}
			}
		}()
		read := c.advance(c.poll())
		for read < records {
			read += c.advance(c.poll())
		}
		<-produced
		if took := time.Since(began); took > 10*time.Minute {
			t.Errorf("a fetch has waited for its time: %v", took)
		}
	})
}

// TestASessionWithoutWaitSeesWhatWasAppendedBefore: a partition whose records were not on the disk yet when another one
// filled the answer is looked at by the next fetch.
func TestASessionWithoutWaitSeesWhatWasAppendedBefore(t *testing.T) {
	n := newTestNode(t, nil)
	c := newSessionClient(n, n.createTopic("a", 2), 2)
	for round := range 20 {
		n.produce("a", 1, "on the disk")
		n.send(produceRequest("a", kafka.TopicID{}, 0, acksNone, batch("in the log")), 9)
		records := c.advance(c.poll())
		if records < 2 {
			records += c.advance(c.poll())
		}
		if records != 2 {
			t.Fatalf("round %d: %d records, want the one of each partition", round, records)
		}
	}
}
