//go:build integration

package differential

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// transactionLogCases are about transactions in the logs of partitions.
func transactionLogCases() []testCase {
	return []testCase{
		{key: wire.KeyProduce, name: "in a transaction", from: 3, run: askTransactionalRecords},
		{key: wire.KeyFetch, name: "committed and aborted records", run: askCommittedRecords},
		{key: wire.KeyListOffsets, name: "with an open transaction", from: 2, run: askStable},
		{key: wire.KeyWriteTxnMarkers, name: "markers", run: askMarkers},
		{key: wire.KeyDescribeProducers, name: "transactions", run: askOpenTransactions},
	}
}

// transactor is a producer with a transactional id.
type transactor struct {
	id       string
	producer int64
	epoch    int16
	sequence int32
}

// transactor makes one whose coordinator serves, or takes over from the one that has the name.
func (s *script) transactor(name string) *transactor {
	t := &transactor{id: s.topic(name)}
	find := kmsg.NewPtrFindCoordinatorRequest() // the coordinators' topic is made at the first question
	find.CoordinatorKeys, find.CoordinatorType = []string{t.id}, 1
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &t.id, 60_000, -1, -1
	s.poll("no producer for "+name, func() bool {
		quiet[*kmsg.FindCoordinatorResponse](s, find, 4)
		resp := quiet[*kmsg.InitProducerIDResponse](s, req, 4)
		t.producer, t.epoch = resp.ProducerID, resp.ProducerEpoch
		return resp.ErrorCode == 0
	})
	return t
}

// join lets partition 0 of a topic join the transaction, as clients do up to version 11 of Produce.
func (t *transactor) join(s *script, topic string) {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = t.id, t.producer, t.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	s.poll("a partition does not join", func() bool {
		return quiet[*kmsg.AddPartitionsToTxnResponse](s, req, 3).Topics[0].Partitions[0].ErrorCode == 0
	})
}

// batch is the next batch of the transaction.
func (t *transactor) batch(s *script, count int) []byte {
	opts := record.PlainProducer()
	opts.ProducerID, opts.ProducerEpoch, opts.BaseSequence, opts.Transactional = t.producer, t.epoch, t.sequence, true
	t.sequence += int32(count)
	return build(opts, s.start, count)
}

func (t *transactor) request(s *script, version int16, topic string, data []byte) *kmsg.ProduceRequest {
	req := produceRequest(-1, version, topic, s.id(topic), 0, data)
	req.TransactionID = &t.id
	return req
}

// write appends records, and checks that they are.
func (t *transactor) write(s *script, topic string, count int) {
	t.join(s, topic)
	resp := quiet[*kmsg.ProduceResponse](s, t.request(s, 9, topic, t.batch(s, count)), 9)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.check(kafka.Errno(code))
	}
}

// end commits or aborts, and waits until readers of committed records see everything but what is open from an offset on.
func (t *transactor) end(s *script, topic string, commit bool, stable int64) {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.id, t.producer, t.epoch, commit
	s.poll("a transaction does not end", func() bool { return quiet[*kmsg.EndTxnResponse](s, req, 4).ErrorCode == 0 })
	s.poll("a transaction has no marker", func() bool {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel = -1, 1
		req.Topics = []kmsg.ListOffsetsRequestTopic{{
			Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{listPartition(0, -1)},
		}}
		return quiet[*kmsg.ListOffsetsResponse](s, req, 7).Topics[0].Partitions[0].Offset == stable
	})
}

func askTransactionalRecords(s *script) {
	topic, t := s.create("a"), s.transactor("t")
	ask := func(step string, as *transactor, data []byte) { s.ask(step, as.request(s, s.version, topic, data)) }
	ask("before the partition has joined", t, t.batch(s, 1))
	if s.version < 12 {
		t.sequence = 0
		t.join(s, topic)
		ask("the first", t, t.batch(s, 1))
	}
	ask("and on", t, t.batch(s, 2))
	t.sequence = 0
	ask("the first again", t, t.batch(s, 1))
	t.sequence = 7
	ask("a gap", t, t.batch(s, 1))
	s.askProduce("outside of the transaction", -1, topic, s.idempotent(t.producer, t.epoch, 3, 1))
	t.sequence = 3
	s.askProduce("without the id", -1, topic, t.batch(s, 1))
	newer := &transactor{id: t.id, producer: t.producer, epoch: t.epoch + 1}
	ask("an epoch that nobody gave out", newer, newer.batch(s, 1))
	stranger := &transactor{id: s.topic("stranger"), producer: t.producer, epoch: t.epoch}
	ask("as another id", stranger, stranger.batch(s, 1))
	again := s.transactor("t")
	ask("fenced", t, t.batch(s, 1))
	again.join(s, topic)
	ask("after the other has begun", again, again.batch(s, 1))
	ask("still fenced", t, t.batch(s, 1))
}

// decided is a topic with transactions that have ended, and an open one behind them: aborted [0, 5], of which 1 and 2 are
// plain; committed [3, 7]; aborted [8, 9]; open from 11 on.
func (s *script) decided() string {
	return s.sharedTopic("decided", func(topic string) {
		a, b, c := s.transactor("a"), s.transactor("b"), s.transactor("c")
		a.write(s, topic, 1)
		s.produce(topic, plain(s.start, 2))
		b.write(s, topic, 2)
		a.end(s, topic, false, 3)
		s.produce(topic, plain(s.start, 1))
		b.end(s, topic, true, 8)
		a = s.transactor("a")
		a.write(s, topic, 1)
		a.end(s, topic, false, 10)
		s.produce(topic, plain(s.start, 1))
		c.write(s, topic, 1)
		s.produce(topic, plain(s.start, 1))
	})
}

func askCommittedRecords(s *script) {
	topic := s.decided()
	ask := func(step string, isolation int8, offset int64, maxBytes int32) {
		req := fetchRequest(s.version, topic, s.id(topic), offset)
		req.IsolationLevel, req.Topics[0].Partitions[0].PartitionMaxBytes = isolation, maxBytes
		s.ask(step, req)
	}
	ask("all records", 0, 0, 1<<20)
	ask("committed ones", 1, 0, 1<<20)
	ask("committed ones between the markers", 1, 6, 1<<20)
	ask("one batch", 1, 0, 1)
	ask("a committed batch", 1, 3, 1)
	ask("a batch that was aborted later", 1, 8, 1)
	ask("at the last stable offset", 1, 11, 1<<20)
	ask("behind it", 1, 12, 1<<20)
}

func askStable(s *script) {
	topic := s.decided()
	for _, isolation := range []int8{0, 1} {
		for _, timestamp := range []int64{-1, -2, s.start} {
			req := kmsg.NewPtrListOffsetsRequest()
			req.ReplicaID, req.IsolationLevel = -1, isolation
			req.Topics = []kmsg.ListOffsetsRequestTopic{{
				Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{listPartition(0, timestamp)},
			}}
			s.ask("offsets", req)
		}
	}
}

func askMarkers(s *script) {
	topic, t := s.createWith("a", 2), s.transactor("t")
	t.write(s, topic, 1)
	ask := func(step string, epoch int16, coordinator int32, partitions ...int32) {
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
			ProducerID: t.producer, ProducerEpoch: epoch, CoordinatorEpoch: coordinator, TransactionVersion: 2,
			Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: partitions}},
		}}
		s.ask(step, req)
	}
	ask("an unknown partition", t.epoch+1, 0, 9)
	if s.version >= 2 {
		ask("with the epoch of the records", t.epoch, 0, 0)
	}
	ask("its end", t.epoch+1, 3, 0)
	ask("its end again", t.epoch+1, 3, 0)
	ask("an older epoch", t.epoch, 3, 0)
	ask("an older coordinator", t.epoch+1, 2, 0)
	ask("where it has written nothing", t.epoch+1, 3, 1)
	s.ask("no markers", kmsg.NewPtrWriteTxnMarkersRequest())
}

func askOpenTransactions(s *script) {
	topic, t, other := s.create("a"), s.transactor("t"), s.transactor("other")
	t.write(s, topic, 2)
	t.end(s, topic, true, 3)
	t = s.transactor("t")
	t.write(s, topic, 1)
	other.write(s, topic, 1)
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	s.ask("open ones", req)
}
