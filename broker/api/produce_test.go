package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

func (n *testNode) produceCode(req *kmsg.ProduceRequest, version int16) kmsg.ProduceResponseTopicPartition {
	n.t.Helper()
	return ask[*kmsg.ProduceResponse](n, req, version).Topics[0].Partitions[0]
}

func TestProduceInEveryVersion(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1)
	want := int64(0)
	for version := int16(3); version <= 13; version++ {
		for _, acks := range []int16{acksLeader, acksAll} {
			answer := n.produceCode(produceRequest("a", id, 0, acks, batch("x", "y")), version)
			if answer.ErrorCode != 0 || answer.BaseOffset != want || answer.LogAppendTime != -1 {
				t.Errorf("v%d acks %d: %+v, want offset %d", version, acks, answer, want)
			}
			want += 2
		}
	}
}

func TestAcksAllIsAnsweredWhenTheDiskHasIt(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produce("a", 0, "x")
	p := must(n.replicas.Partition(kafka.TopicPartition{Topic: "a"}))
	log := must(p.Log())
	if log.FlushedOffset() < 1 || log.HighWatermark() < 1 {
		t.Errorf("answered with flushed offset %d and high watermark %d", log.FlushedOffset(), log.HighWatermark())
	}
}

func TestProduceErrors(t *testing.T) {
	n := newTestNode(t, map[string]string{"message.max.bytes": "1000"})
	id := n.createTopic("a", 1)
	n.createTopic("compacted", 1, "cleanup.policy", "compact")
	damaged := batch("x")
	damaged[len(damaged)-1]++
	transactional := record.PlainProducer()
	transactional.ProducerID, transactional.ProducerEpoch, transactional.BaseSequence = 5, 0, 0
	transactional.Transactional = true
	open := record.NewBuilder(transactional)
	open.Append(1, nil, []byte("x"))
	keyless := record.NewBuilder(record.PlainProducer())
	keyless.Append(1, []byte("k"), []byte("x"))
	keyless.Append(1, nil, []byte("y"))
	tests := []struct {
		name    string
		req     *kmsg.ProduceRequest
		version int16
		want    kafka.Errno
		records int // record errors
	}{
		{name: "unknown topic", req: produceRequest("b", id, 0, 1, batch("x")), version: 9, want: kafka.UnknownTopicOrPartition},
		{name: "unknown topic id", req: produceRequest("", kafka.TopicID{9}, 0, 1, batch("x")), version: 13, want: kafka.UnknownTopicID},
		{name: "unknown partition", req: produceRequest("a", id, 1, 1, batch("x")), version: 9, want: kafka.UnknownTopicOrPartition},
		{name: "negative partition", req: produceRequest("a", id, -1, 1, batch("x")), version: 9, want: kafka.UnknownTopicOrPartition},
		{name: "acks that do not exist", req: produceRequest("a", id, 0, 2, batch("x")), version: 9, want: kafka.InvalidRequiredAcks},
		{name: "damaged batch", req: produceRequest("a", id, 0, 1, damaged), version: 9, want: kafka.CorruptMessage},
		{name: "too large", req: produceRequest("a", id, 0, 1, batch(string(make([]byte, 1000)))), version: 9, want: kafka.MessageTooLarge},
		{name: "two batches", req: produceRequest("a", id, 0, 1, append(batch("x"), batch("y")...)), version: 9, want: kafka.InvalidRecord},
		{name: "transactional records without a transactional id", req: produceRequest("a", id, 0, 1, open.Build()), version: 9, want: kafka.TransactionalIDAuthorizationFailed},
		{name: "PD-07: no key on a compacted topic", req: produceRequest("compacted", id, 0, 1, keyless.Build()), version: 9, want: kafka.InvalidRecord, records: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answer := n.produceCode(test.req, test.version)
			if kafka.Errno(answer.ErrorCode) != test.want || answer.BaseOffset != -1 || len(answer.ErrorRecords) != test.records {
				t.Errorf("got %+v (%v), want %v", answer, kafka.Errno(answer.ErrorCode), test.want)
			}
			if test.records > 0 && answer.ErrorRecords[0].RelativeOffset != 1 {
				t.Errorf("record %d is to blame, want 1", answer.ErrorRecords[0].RelativeOffset)
			}
		})
	}
	p := must(n.replicas.Partition(kafka.TopicPartition{Topic: "a"}))
	if end := must(p.Log()).EndOffset(); end != 0 {
		t.Errorf("after nothing but refused requests the log ends at %d", end)
	}
}

func TestAcksNoneIsNotAnsweredAndAnErrorClosesTheConnection(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	reply := n.send(produceRequest("a", kafka.TopicID{}, 0, acksNone, batch("x")), 9)
	if !reply.None || reply.Close != nil || reply.Response != nil {
		t.Errorf("success: %+v", reply)
	}
	if reply := n.send(produceRequest("b", kafka.TopicID{}, 0, acksNone, batch("x")), 9); !reply.None || reply.Close == nil {
		t.Errorf("failure: %+v", reply)
	}
	if offset := n.produce("a", 0, "y"); offset != 1 {
		t.Errorf("the next record is at %d, want 1: the first was appended", offset)
	}
}

func TestOnePartitionsErrorLeavesTheOthersAlone(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 2)
	req := produceRequest("a", kafka.TopicID{}, 0, acksAll, batch("x"))
	for _, partition := range []int32{1, 2} {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, batch("x")
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	other := produceRequest("nope", kafka.TopicID{}, 0, acksAll, batch("x"))
	req.Topics = append(req.Topics, other.Topics[0])
	resp := ask[*kmsg.ProduceResponse](n, req, 9)
	var got []kafka.Errno
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			got = append(got, kafka.Errno(p.ErrorCode))
		}
	}
	want := []kafka.Errno{0, 0, kafka.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("codes %v, want %v", got, want)
		}
	}
}

func TestPD02LogAppendTime(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1, "message.timestamp.type", "LogAppendTime")
	answer := n.produceCode(produceRequest("a", kafka.TopicID{}, 0, acksAll, batch("x")), 9)
	if answer.ErrorCode != 0 || answer.LogAppendTime <= 0 {
		t.Fatalf("answer: %+v", answer)
	}
	got := n.fetchAll("a", 0, 0)
	if stored := got.batches(t)[0]; stored.MaxTimestamp() != answer.LogAppendTime || stored.VerifyCRC() != nil {
		t.Errorf("stored time %d, answered %d", stored.MaxTimestamp(), answer.LogAppendTime)
	}
}

func TestPD10PD11IdempotentProducer(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	init := ask[*kmsg.InitProducerIDResponse](n, kmsg.NewPtrInitProducerIDRequest(), 4)
	if init.ErrorCode != 0 || init.ProducerEpoch != 0 {
		t.Fatalf("init: %+v", init)
	}
	send := func(sequence int32) kmsg.ProduceResponseTopicPartition {
		options := record.PlainProducer()
		options.ProducerID, options.ProducerEpoch, options.BaseSequence = init.ProducerID, init.ProducerEpoch, sequence
		b := record.NewBuilder(options)
		b.Append(-1, nil, []byte("x"))
		return n.produceCode(produceRequest("a", kafka.TopicID{}, 0, acksAll, b.Build()), 9)
	}
	for sequence := range int32(7) {
		if answer := send(sequence); answer.ErrorCode != 0 || answer.BaseOffset != int64(sequence) {
			t.Fatalf("sequence %d: %+v", sequence, answer)
		}
	}
	if answer := send(4); answer.ErrorCode != 0 || answer.BaseOffset != 4 {
		t.Errorf("a duplicate of the last five: %+v, want its first offset", answer)
	}
	if answer := send(0); kafka.Errno(answer.ErrorCode) != kafka.OutOfOrderSequenceNumber {
		t.Errorf("an older duplicate: %+v", answer)
	}
	if answer := send(9); kafka.Errno(answer.ErrorCode) != kafka.OutOfOrderSequenceNumber {
		t.Errorf("a gap: %+v", answer)
	}
	if offset := n.produce("a", 0, "y"); offset != 7 {
		t.Errorf("the log goes on at %d, want 7: duplicates are not stored", offset)
	}
}

func TestInitProducerID(t *testing.T) {
	n := newTestNode(t, nil)
	seen := map[int64]bool{}
	for range 25 { // more than one block of 10
		resp := ask[*kmsg.InitProducerIDResponse](n, kmsg.NewPtrInitProducerIDRequest(), 5)
		if resp.ErrorCode != 0 || seen[resp.ProducerID] {
			t.Fatalf("answer %+v, seen before: %v", resp, seen[resp.ProducerID])
		}
		seen[resp.ProducerID] = true
	}
	for _, half := range []kmsg.InitProducerIDRequest{{ProducerID: 5, ProducerEpoch: -1}, {ProducerID: -1, ProducerEpoch: 0}} {
		if resp := ask[*kmsg.InitProducerIDResponse](n, &half, 5); kafka.Errno(resp.ErrorCode) != kafka.InvalidRequest {
			t.Errorf("half a producer: %+v", resp)
		}
	}
}

func TestInitProducerIDOfATransactionalProducer(t *testing.T) {
	n := newTestNode(t, nil)
	for _, c := range []struct {
		id        string
		timeoutMs int32
		want      kafka.Errno
	}{
		{"", 1000, kafka.InvalidRequest}, {"payments", 0, kafka.InvalidTransactionTimeout},
		{"payments", 60001, kafka.InvalidTransactionTimeout}, {"payments", 60000, kafka.NotCoordinator},
	} {
		for version := int16(0); version <= 5; version++ {
			request := kmsg.NewPtrInitProducerIDRequest()
			request.TransactionalID, request.TransactionTimeoutMillis = &c.id, c.timeoutMs
			resp := ask[*kmsg.InitProducerIDResponse](n, request, version)
			if kafka.Errno(resp.ErrorCode) != c.want || resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
				t.Errorf("%q, %d ms, v%d: %+v, want %s", c.id, c.timeoutMs, version, resp, c.want.Name())
			}
		}
	}
}

func TestMalformedBodiesCloseTheConnection(t *testing.T) {
	n := newTestNode(t, nil)
	for _, served := range wire.APIs() {
		reply := n.handlers.Dispatch(n.conn.Context, &wire.Request{
			Key: served.Key, Version: served.Max, Conn: n.conn, Body: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		})
		if reply.Close == nil || reply.Response != nil || reply.Finish != nil {
			t.Errorf("%s: %+v", served.Name, reply)
		}
	}
}

// TestProduceAllocations runs without group commit: flushes in the background would be counted, too.
func TestProduceAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	n := newTestNodeWith(t, nil, storage.FlushOS)
	n.createTopic("a", 16)
	for _, test := range []struct {
		acks       int16
		partitions int32
		most       float64
	}{
		// The request, the call, the answer and its bytes; for several partitions what is said of each and of their topic.
		{acksLeader, 1, 4},
		// One is the indexes' that grow.
		{acksLeader, 16, 7},
		// And what is committed, and where that stands.
		{acksAll, 1, 5},
		{acksAll, 16, 9},
	} {
		req := produceRequest("a", kafka.TopicID{}, 0, test.acks, batch("x"))
		for partition := int32(1); partition < test.partitions; partition++ {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = partition, batch("x")
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		req.SetVersion(9)
		body := req.AppendTo(nil)
		scratch := make([]byte, len(body))
		allocations := testing.AllocsPerRun(200, func() {
			copy(scratch, body) // batches are patched in place
			reply := n.handlers.Dispatch(n.conn.Context, &wire.Request{
				Key: wire.KeyProduce, Version: 9, Body: scratch, Conn: n.conn,
			})
			if reply.Response == nil {
				t.Fatal("what is in the page cache is answered at once under this policy")
			}
			reply.Response.Release()
		})
		if allocations > test.most {
			t.Errorf("acks %d, %d partitions: %.0f allocations per produce request, want at most %.0f",
				test.acks, test.partitions, allocations, test.most)
		}
	}
}
