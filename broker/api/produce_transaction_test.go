package api

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/internal/kafka"
)

// fakeTransactions is a transaction coordinator that answers what the test says.
type fakeTransactions struct {
	asked  []string
	answer func(attempt int) error
}

func (f *fakeTransactions) AddPartitions(_ context.Context, id string, producer txn.Producer,
	partitions []kafka.TopicPartition, verifyOnly bool,
) []error {
	question := "join"
	if verifyOnly {
		question = "verify"
	}
	f.asked = append(f.asked, fmt.Sprintf("%s %s %d/%d %v", question, id, producer.ID, producer.Epoch, partitions))
	errs := make([]error, len(partitions))
	if f.answer != nil {
		for i := range errs {
			errs[i] = f.answer(len(f.asked))
		}
	}
	return errs
}

func newTransactionalNode(t *testing.T) (*testNode, *fakeTransactions) {
	n, coordinator := newTestNode(t, nil), &fakeTransactions{}
	n.handlers.joiner = coordinator
	return n, coordinator
}

// inTransaction is a batch of one record in a transaction.
func inTransaction(producer int64, epoch int16, sequence int32, value string) []byte {
	options := record.PlainProducer()
	options.ProducerID, options.ProducerEpoch, options.BaseSequence = producer, epoch, sequence
	options.Transactional = true
	b := record.NewBuilder(options)
	b.Append(1000, nil, []byte(value))
	return b.Build()
}

// sendInTransaction produces in the transaction of the id "id" and returns the error and the offset.
func (n *testNode) sendInTransaction(version int16, topic string, batch []byte) (kafka.Errno, int64) {
	n.t.Helper()
	id := "id"
	req := produceRequest(topic, kafka.TopicID{}, 0, -1, batch)
	if version >= 13 {
		req.Topics[0].TopicID = n.topic(topic).ID
	}
	req.TransactionID = &id
	answer := n.produceCode(req, version)
	return kafka.Errno(answer.ErrorCode), answer.BaseOffset
}

// end writes a marker by WriteTxnMarkers.
func (n *testNode) end(topic string, marker kmsg.WriteTxnMarkersRequestMarker, partitions ...int32) []kafka.Errno {
	n.t.Helper()
	if partitions == nil {
		partitions = []int32{0}
	}
	marker.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: partitions}}
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	resp := ask[*kmsg.WriteTxnMarkersResponse](n, req, 2)
	var codes []kafka.Errno
	for i, p := range resp.Markers[0].Topics[0].Partitions {
		if resp.Markers[0].ProducerID != marker.ProducerID || p.Partition != partitions[i] {
			n.t.Errorf("answer %+v", resp)
		}
		codes = append(codes, kafka.Errno(p.ErrorCode))
	}
	return codes
}

// committed fetches what a reader of committed records gets from an offset on, and where it reads on.
func (n *testNode) committed(topic string, offset int64) (values []string, next, stable int64) {
	n.t.Helper()
	req := fetchRequest(topic, kafka.TopicID{}, offset)
	req.IsolationLevel, req.MaxWaitMillis = 1, 0
	got := ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		n.t.Fatalf("fetch from %d: %v", offset, kafka.Errno(got.ErrorCode))
	}
	aborted := map[int64]bool{}
	pending := got.AbortedTransactions
	next = offset
	for data := got.RecordBatches; len(data) > 0; {
		var batch record.Batch
		batch, data = mustNext(n.t, data)
		for len(pending) > 0 && pending[0].FirstOffset <= batch.LastOffset() {
			aborted[pending[0].ProducerID], pending = true, pending[1:]
		}
		next = batch.NextOffset()
		switch {
		case batch.IsControl():
			delete(aborted, batch.ProducerID())
		case batch.IsTransactional() && aborted[batch.ProducerID()]:
		default:
			values = append(values, valuesOf(n.t, batch)...)
		}
	}
	return values, next, got.LastStableOffset
}

func mustNext(t *testing.T, data []byte) (record.Batch, []byte) {
	t.Helper()
	batch, rest, err := record.Next(data)
	if err != nil {
		t.Fatal(err)
	}
	return batch, rest
}

func valuesOf(t *testing.T, batch record.Batch) (values []string) {
	t.Helper()
	var it record.Iterator
	check(t, it.Reset(batch))
	for it.Next() {
		values = append(values, string(it.Record().Value))
	}
	check(t, it.Err())
	return values
}

func TestProduceAsksOnceBeforeATransactionBegins(t *testing.T) {
	n, coordinator := newTransactionalNode(t)
	n.createTopic("a", 1)
	send := func(version int16, epoch int16, sequence int32) {
		t.Helper()
		if code, _ := n.sendInTransaction(version, "a", inTransaction(5, epoch, sequence, "x")); code != 0 {
			t.Fatal(code)
		}
	}
	send(11, 0, 0)
	send(11, 0, 1)
	n.end("a", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5, Committed: true})
	send(9, 0, 2)
	n.end("a", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5, Committed: true})
	send(12, 0, 3)
	n.end("a", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5, ProducerEpoch: 1, Committed: true, TransactionVersion: 2})
	send(13, 1, 0)
	send(13, 1, 1)
	want := []string{"verify id 5/0 [a-0]", "verify id 5/0 [a-0]", "join id 5/0 [a-0]", "join id 5/1 [a-0]"}
	if diff := cmp.Diff(want, coordinator.asked); diff != "" {
		t.Error(diff)
	}
	n.produce("a", 0, "plain")
	if len(coordinator.asked) != len(want) {
		t.Error("somebody was asked about a plain producer")
	}
}

func TestWhatTheCoordinatorRefusesIsNotAppended(t *testing.T) {
	n, coordinator := newTransactionalNode(t)
	n.createTopic("a", 1)
	for _, test := range []struct {
		version    int16
		said, want kafka.Errno
	}{
		{12, kafka.ProducerFenced, kafka.InvalidProducerEpoch},
		{9, kafka.ProducerFenced, kafka.InvalidProducerEpoch},
		{10, kafka.TransactionAbortable, kafka.InvalidTxnState},
		{11, kafka.TransactionAbortable, kafka.TransactionAbortable},
		{11, kafka.ConcurrentTransactions, kafka.NotEnoughReplicas},
		{12, kafka.ConcurrentTransactions, kafka.ConcurrentTransactions},
		{12, kafka.NotCoordinator, kafka.NotEnoughReplicas},
		{12, kafka.CoordinatorNotAvailable, kafka.NotEnoughReplicas},
		{9, kafka.CoordinatorLoadInProgress, kafka.NotEnoughReplicas},
		{12, kafka.InvalidProducerIDMapping, kafka.InvalidProducerIDMapping},
		{12, kafka.InvalidTxnState, kafka.InvalidTxnState},
	} {
		coordinator.asked, coordinator.answer = nil, func(int) error { return test.said }
		code, offset := n.sendInTransaction(test.version, "a", inTransaction(5, 0, 0, "x"))
		if code != test.want || offset != -1 || len(coordinator.asked) != 1 {
			t.Errorf("version %d, %v: %v at %d after %d attempts", test.version, test.said, code, offset, len(coordinator.asked))
		}
	}
	if end := n.endOffset("a"); end != 0 {
		t.Errorf("the log ends at %d", end)
	}
	coordinator.answer = func(int) error { return nil }
	if code, offset := n.sendInTransaction(12, "a", inTransaction(5, 0, 0, "x")); code != 0 || offset != 0 {
		t.Errorf("once the transaction before has ended: %v at %d", code, offset)
	}
}

func TestTransactionalRecordsThatNobodyAnswersForAreRefused(t *testing.T) {
	n, coordinator := newTransactionalNode(t)
	n.createTopic("a", 2)
	unnamed := produceRequest("a", kafka.TopicID{}, 0, -1, inTransaction(5, 0, 0, "x"))
	if code := n.produceCode(unnamed, 9).ErrorCode; kafka.Errno(code) != kafka.TransactionalIDAuthorizationFailed {
		t.Errorf("without an id: %v", kafka.Errno(code))
	}
	id := "id"
	two := produceRequest("a", kafka.TopicID{}, 0, -1, inTransaction(5, 0, 0, "x"))
	two.TransactionID = &id
	other := kmsg.NewProduceRequestTopicPartition()
	other.Partition, other.Records = 1, inTransaction(6, 0, 0, "x")
	two.Topics[0].Partitions = append(two.Topics[0].Partitions, other)
	for _, p := range ask[*kmsg.ProduceResponse](n, two, 9).Topics[0].Partitions {
		if kafka.Errno(p.ErrorCode) != kafka.InvalidProducerIDMapping {
			t.Errorf("two producers: %v", kafka.Errno(p.ErrorCode))
		}
	}
	if len(coordinator.asked) != 0 {
		t.Errorf("asked %q", coordinator.asked)
	}
	// The answer is true when it is given, but the transaction ends before the records come.
	coordinator.answer = func(int) error {
		n.end("a", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5})
		return nil
	}
	if code, _ := n.sendInTransaction(11, "a", inTransaction(5, 0, 0, "x")); code != kafka.InvalidTxnState {
		t.Errorf("after a marker: %v", code)
	}
	n.handlers.joiner = nil
	if code, _ := n.sendInTransaction(12, "a", inTransaction(7, 0, 0, "x")); code != kafka.NotEnoughReplicas {
		t.Errorf("without a coordinator: %v", code)
	}
	if got, _, stable := n.committed("a", 0); len(got) != 0 || stable != 1 {
		t.Errorf("%q below %d", got, stable)
	}
}

// TX-10: 50 aborted transactions with plain records between them, and a reader of committed records.
// TX-11: its last stable offset never goes back and never passes the first record of an open transaction.
// FE-11: it reads on behind each marker, to the end of the log.
func TestFE11TX10TX11ReadersOfCommittedRecordsSeeNothingElse(t *testing.T) {
	n, _ := newTransactionalNode(t)
	n.createTopic("a", 1, "segment.bytes", "1048576")
	var want, got []string
	position, before := int64(0), int64(0)
	read := func(open int64) {
		t.Helper()
		for {
			values, next, stable := n.committed("a", position)
			if stable < before || open >= 0 && stable > open {
				t.Fatalf("last stable offset %d after %d, and a transaction is open from %d on", stable, before, open)
			}
			if latest := n.latest("a", 1); latest != stable {
				t.Fatalf("ListOffsets says %d and Fetch %d", latest, stable)
			}
			got, before = append(got, values...), stable
			if next == position {
				break
			}
			position = next
		}
	}
	for i := range 50 {
		commit := i%5 == 0
		open := n.endOffset("a")
		for sequence := range int32(2) {
			value := fmt.Sprintf("transactional %d-%d", i, sequence)
			if code, _ := n.sendInTransaction(12, "a", inTransaction(5, int16(i), sequence, value)); code != 0 {
				t.Fatal(code)
			}
			if commit {
				want = append(want, value)
			}
			plain := fmt.Sprintf("plain %d-%d", i, sequence)
			n.produce("a", 0, plain)
			want = append(want, plain)
			read(open)
		}
		if i%7 == 0 {
			p := must(n.replicas.Partition(kafka.TopicPartition{Topic: "a"}))
			check(t, must(p.Log()).Roll())
		}
		n.end("a", kmsg.WriteTxnMarkersRequestMarker{
			ProducerID: 5, ProducerEpoch: int16(i + 1), Committed: commit, TransactionVersion: 2,
		})
		read(-1)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if end := n.endOffset("a"); position != end || before != end {
		t.Errorf("read up to %d, last stable offset %d, and the log ends at %d", position, before, end)
	}
}

// latest is what ListOffsets answers for the end.
func (n *testNode) latest(topic string, isolation int8) int64 {
	n.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	asked := kmsg.NewListOffsetsRequestTopicPartition()
	asked.Timestamp = -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{asked}}}
	return ask[*kmsg.ListOffsetsResponse](n, req, 7).Topics[0].Partitions[0].Offset
}

func TestALongPollForCommittedRecordsEndsWithTheTransaction(t *testing.T) {
	n, _ := newTransactionalNode(t)
	n.createTopic("a", 1)
	if code, _ := n.sendInTransaction(12, "a", inTransaction(5, 0, 0, "x")); code != 0 {
		t.Fatal(code)
	}
	req := fetchRequest("a", kafka.TopicID{}, 0)
	req.IsolationLevel, req.MaxWaitMillis, req.MinBytes = 1, 60_000, 1
	reply := n.send(req, 12)
	select {
	case <-reply.Wait:
		t.Fatal("answered while the transaction is open")
	default:
	}
	n.end("a", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5, ProducerEpoch: 1, TransactionVersion: 2})
	got := decodeReply[*kmsg.FetchResponse](n, req, reply, 12).Topics[0].Partitions[0]
	aborted := got.AbortedTransactions
	if len(aborted) != 1 || aborted[0].ProducerID != 5 || aborted[0].FirstOffset != 0 || len(got.RecordBatches) == 0 {
		t.Errorf("%d bytes, %v", len(got.RecordBatches), aborted)
	}
	req.IsolationLevel = 0
	if got := ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions[0]; got.AbortedTransactions != nil {
		t.Errorf("a reader of all records is told of %v", got.AbortedTransactions)
	}
}

func TestWriteTxnMarkers(t *testing.T) {
	n, _ := newTransactionalNode(t)
	n.createTopic("a", 2)
	if code, _ := n.sendInTransaction(12, "a", inTransaction(5, 3, 0, "x")); code != 0 {
		t.Fatal(code)
	}
	for _, test := range []struct {
		name   string
		marker kmsg.WriteTxnMarkersRequestMarker
		want   []kafka.Errno
	}{
		{"late", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5, ProducerEpoch: 3, TransactionVersion: 2},
			[]kafka.Errno{kafka.InvalidProducerEpoch, 0, kafka.UnknownTopicOrPartition}},
		{"an old epoch", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5, ProducerEpoch: 2},
			[]kafka.Errno{kafka.InvalidProducerEpoch, kafka.InvalidProducerEpoch, kafka.UnknownTopicOrPartition}},
		{"its end", kmsg.WriteTxnMarkersRequestMarker{
			ProducerID: 5, ProducerEpoch: 4, CoordinatorEpoch: 7, TransactionVersion: 2, Committed: true,
		}, []kafka.Errno{0, 0, kafka.UnknownTopicOrPartition}},
		{"again", kmsg.WriteTxnMarkersRequestMarker{
			ProducerID: 5, ProducerEpoch: 4, CoordinatorEpoch: 7, TransactionVersion: 2, Committed: true,
		}, []kafka.Errno{0, 0, kafka.UnknownTopicOrPartition}},
		{"of a fenced coordinator", kmsg.WriteTxnMarkersRequestMarker{ProducerID: 5, ProducerEpoch: 4, CoordinatorEpoch: 6},
			[]kafka.Errno{kafka.TransactionCoordinatorFenced, kafka.TransactionCoordinatorFenced, kafka.UnknownTopicOrPartition}},
	} {
		if got := n.end("a", test.marker, 0, 1, 2); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v instead of %v", test.name, got, test.want)
		}
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "a", Partitions: []int32{0}}}
	if code, _ := n.sendInTransaction(12, "a", inTransaction(5, 4, 0, "y")); code != 0 {
		t.Fatal(code)
	}
	known := ask[*kmsg.DescribeProducersResponse](n, producers, 0).Topics[0].Partitions[0].ActiveProducers
	if len(known) != 1 || known[0].CoordinatorEpoch != 7 || known[0].CurrentTxnStartOffset != 3 ||
		known[0].ProducerEpoch != 4 || known[0].LastSequence != 0 {
		t.Errorf("%+v", known)
	}
	if got, _, stable := n.committed("a", 0); !slices.Equal(got, []string{"x"}) || stable != 3 {
		t.Errorf("%q below %d", got, stable)
	}
}
