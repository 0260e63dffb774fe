package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// listOffset asks for one partition.
func (n *testNode) listOffset(topic string, timestamp int64, version int16, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	n.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = timestamp, -1
	asked.Partitions = append(asked.Partitions, p)
	req.Topics = append(req.Topics, asked)
	return ask[*kmsg.ListOffsetsResponse](n, req, version).Topics[0].Partitions[0]
}

// produceAt appends one batch of records with the given times.
func (n *testNode) produceAt(topic string, codec record.Codec, times ...int64) {
	n.t.Helper()
	options := record.PlainProducer()
	options.Codec = codec
	b := record.NewBuilder(options)
	for _, at := range times {
		b.Append(at, nil, []byte("x"))
	}
	answer := n.produceCode(produceRequest(topic, kafka.TopicID{}, 0, acksAll, b.Build()), 9)
	if answer.ErrorCode != 0 {
		n.t.Fatalf("produce: %v", kafka.Errno(answer.ErrorCode))
	}
}

func TestOF02LookUpsBetweenTimestamps(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	for _, at := range []int64{2, 4, 6, 8} {
		n.produceAt("a", record.None, at)
	}
	want := map[int64]int64{1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2, 7: 3, 8: 3, 9: -1, -2: 0, -1: 4}
	for version := int16(1); version <= 11; version++ {
		for timestamp, offset := range want {
			got := n.listOffset("a", timestamp, version, 0)
			if got.ErrorCode != 0 || got.Offset != offset {
				t.Errorf("v%d time %d: offset %d (%v), want %d", version, timestamp, got.Offset,
					kafka.Errno(got.ErrorCode), offset)
			}
		}
	}
}

func TestOF01LookUpsThatFindNothing(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("empty", 1)
	n.createTopic("deleted", 1)
	n.produceAt("deleted", record.None, 5)
	n.deleteRecords("deleted", -1, 1, 0)
	for _, topic := range []string{"empty", "deleted"} {
		for _, timestamp := range []int64{0, 5, replica.TimestampMax} {
			got := n.listOffset(topic, timestamp, 7, 0)
			if got.ErrorCode != 0 || got.Offset != -1 || got.Timestamp != -1 {
				t.Errorf("%s, time %d: %+v, want −1 and no error", topic, timestamp, got)
			}
		}
	}
}

func TestOF04LargestTimestamp(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("plain", 1)
	n.produceAt("plain", record.None, 1, 3, 2)
	n.createTopic("gzip", 1)
	n.produceAt("gzip", record.Gzip, 1, 3, 2)
	n.createTopic("single", 1)
	for _, at := range []int64{1, 3, 2} {
		n.produceAt("single", record.None, at)
	}
	for _, topic := range []string{"plain", "gzip", "single"} {
		if got := n.listOffset(topic, replica.TimestampMax, 7, 0); got.Offset != 1 || got.Timestamp != 3 {
			t.Errorf("%s: offset %d, time %d; want 1 and 3", topic, got.Offset, got.Timestamp)
		}
	}
}

func TestSpecialTimestampsOfALocalTopic(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produceAt("a", record.None, 1, 2, 3)
	n.deleteRecords("a", 1, 1, 0)
	for timestamp, want := range map[int64]int64{
		replica.TimestampEarliestLocal: 1, replica.TimestampLatestTiered: -1, replica.TimestampEarliestPending: -1,
		replica.TimestampEarliest: 1, replica.TimestampLatest: 3,
	} {
		if got := n.listOffset("a", timestamp, 11, 0); got.Offset != want || got.ErrorCode != 0 {
			t.Errorf("time %d: offset %d (%v), want %d", timestamp, got.Offset, kafka.Errno(got.ErrorCode), want)
		}
	}
	if got := n.listOffset("a", -99, 11, 0); got.ErrorCode == 0 {
		t.Errorf("a time that means nothing is answered %+v", got)
	}
	if got := n.listOffset("nope", -1, 11, 0); kafka.Errno(got.ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Errorf("unknown topic: %v", kafka.Errno(got.ErrorCode))
	}
}

func TestOF07LeaderEpochOfTheOffset(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produceAt("a", record.None, 10)
	n.bumpEpoch()
	n.produceAt("a", record.None, 20)
	for timestamp, want := range map[int64]int32{
		replica.TimestampEarliest: 0, 10: 0, 20: 1, replica.TimestampLatest: 1,
	} {
		if got := n.listOffset("a", timestamp, 7, 0); got.LeaderEpoch != want {
			t.Errorf("time %d: epoch %d, want %d", timestamp, got.LeaderEpoch, want)
		}
	}
}

func TestLatestIncludesWhatWasAppendedBefore(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	for i := range int64(50) {
		n.send(produceRequest("a", kafka.TopicID{}, 0, acksNone, batch("x")), 9)
		for isolation := range int8(2) {
			if got := n.listOffset("a", -1, 7, isolation); got.Offset != i+1 {
				t.Fatalf("latest is %d after %d appends", got.Offset, i+1)
			}
		}
	}
}

func TestOF08OffsetForLeaderEpoch(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produceAt("a", record.None, 1, 2) // epoch 0: 0–2
	n.bumpEpoch()
	n.bumpEpoch()
	n.produceAt("a", record.None, 3) // epoch 2: 2–3
	tests := []struct {
		asked, epoch int32
		end          int64
	}{
		{asked: 0, epoch: 0, end: 2}, {asked: 1, epoch: 0, end: 2}, {asked: 2, epoch: 2, end: 3}, {asked: 3, epoch: -1, end: -1},
	}
	for _, test := range tests {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = "a"
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch, p.CurrentLeaderEpoch = test.asked, -1
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		for version := int16(2); version <= 4; version++ {
			got := ask[*kmsg.OffsetForLeaderEpochResponse](n, req, version).Topics[0].Partitions[0]
			if got.ErrorCode != 0 || got.LeaderEpoch != test.epoch || got.EndOffset != test.end {
				t.Errorf("v%d, epoch %d: epoch %d, end %d; want %d, %d", version, test.asked,
					got.LeaderEpoch, got.EndOffset, test.epoch, test.end)
			}
		}
	}
}

// askEpoch asks where a leader epoch ended.
func (n *testNode) askEpoch(topic string, epoch, current int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	n.t.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	asked := kmsg.NewOffsetForLeaderEpochRequestTopic()
	asked.Topic = topic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.LeaderEpoch, p.CurrentLeaderEpoch = epoch, current
	asked.Partitions = append(asked.Partitions, p)
	req.Topics = append(req.Topics, asked)
	return ask[*kmsg.OffsetForLeaderEpochResponse](n, req, 4).Topics[0].Partitions[0]
}

// TestOF08EpochsThatTheLogNoLongerHas end where the first one begins that it has.
func TestOF08EpochsThatTheLogNoLongerHas(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produceAt("a", record.None, 1, 2) // epoch 0: 0–2
	n.bumpEpoch()
	n.produceAt("a", record.None, 3, 4) // epoch 1: 2–4
	n.deleteRecords("a", 3, 3, 0)
	for epoch, want := range map[int32][2]int64{0: {0, 3}, 1: {1, 4}, 2: {-1, -1}} {
		if got := n.askEpoch("a", epoch, -1); int64(got.LeaderEpoch) != want[0] || got.EndOffset != want[1] {
			t.Errorf("epoch %d: epoch %d, end %d; want %v", epoch, got.LeaderEpoch, got.EndOffset, want)
		}
	}
}

// TestLookUpsCompareTheLeaderEpochOfTheClient: one that is behind, or ahead, has to ask for metadata first.
func TestLookUpsCompareTheLeaderEpochOfTheClient(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produceAt("a", record.None, 1)
	n.bumpEpoch()
	for current, want := range map[int32]kafka.Errno{
		-1: 0, 0: kafka.FencedLeaderEpoch, 1: 0, 2: kafka.UnknownLeaderEpoch,
	} {
		if got := n.askEpoch("a", 0, current); kafka.Errno(got.ErrorCode) != want {
			t.Errorf("OffsetForLeaderEpoch with epoch %d: %v, want %v", current, kafka.Errno(got.ErrorCode), want)
		}
		for version := int16(4); version <= 11; version++ {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Topics = []kmsg.ListOffsetsRequestTopic{{
				Topic: "a", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: current, Timestamp: -1}},
			}}
			got := ask[*kmsg.ListOffsetsResponse](n, req, version).Topics[0].Partitions[0]
			if kafka.Errno(got.ErrorCode) != want {
				t.Errorf("ListOffsets v%d with epoch %d: %v, want %v", version, current, kafka.Errno(got.ErrorCode), want)
			}
		}
	}
}

// deleteRecords asks for one partition and checks the answer.
func (n *testNode) deleteRecords(topic string, offset, lowWatermark int64, want kafka.Errno) {
	n.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	asked := kmsg.NewDeleteRecordsRequestTopic()
	asked.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = offset
	asked.Partitions = append(asked.Partitions, p)
	req.Topics = append(req.Topics, asked)
	got := ask[*kmsg.DeleteRecordsResponse](n, req, 2).Topics[0].Partitions[0]
	if kafka.Errno(got.ErrorCode) != want || got.LowWatermark != lowWatermark {
		n.t.Errorf("delete records of %s below %d: %v, low watermark %d; want %v, %d", topic, offset,
			kafka.Errno(got.ErrorCode), got.LowWatermark, want, lowWatermark)
	}
}

func TestFE10DeleteRecordsInsideABatch(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produceAt("a", record.None, 1, 2, 3)
	n.deleteRecords("a", 4, -1, kafka.OffsetOutOfRange)
	n.deleteRecords("a", 1, 1, 0)
	n.deleteRecords("a", 0, 1, 0) // already gone: nothing to do, and no way back
	if got := n.listOffset("a", -2, 7, 0); got.Offset != 1 {
		t.Errorf("earliest is %d", got.Offset)
	}
	got := n.fetchAll("a", 0, 1)
	if batches := got.batches(t); got.LogStartOffset != 1 || len(batches) != 1 || batches[0].BaseOffset() != 0 {
		t.Errorf("fetch 1: log start %d, %d batches", got.LogStartOffset, len(batches))
	}
	if got := n.fetchAll("a", 0, 0); kafka.Errno(got.ErrorCode) != kafka.OffsetOutOfRange {
		t.Errorf("fetch 0: %v", kafka.Errno(got.ErrorCode))
	}
	n.send(produceRequest("a", kafka.TopicID{}, 0, acksNone, batch("x")), 9)
	n.deleteRecords("a", -1, 4, 0) // the high watermark, with what was appended just before
	n.send(produceRequest("a", kafka.TopicID{}, 0, acksNone, batch("x")), 9)
	n.deleteRecords("a", 6, -1, kafka.OffsetOutOfRange)
	n.send(produceRequest("a", kafka.TopicID{}, 0, acksNone, batch("x")), 9)
	n.deleteRecords("a", 6, 6, 0) // an offset that was appended just before
}

func TestDeleteRecordsOfACompactedTopicIsRefused(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1, "cleanup.policy", "compact")
	n.produce("a", 0, "x")
	n.deleteRecords("a", 1, -1, kafka.PolicyViolation)
}

// TestOffsetsWhoseRecordsAreOnlyRemote has the first segment on the object store alone.
func TestOffsetsWhoseRecordsAreOnlyRemote(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1, "remote.storage.enable", "true")
	n.produceAt("a", record.None, 10, 20)
	p := must(n.replicas.Partition(kafka.TopicPartition{Topic: "a"}))
	log := must(p.Log())
	remote := n.fetchAll("a", 0, 0).RecordBatches
	check(t, log.Roll())
	n.produceAt("a", record.None, 30)
	tp := kafka.TopicIDPartition{ID: id}
	n.commitRemote(tp, 0, 2)
	must(log.MoveLocalStart(2, "test"))

	released := 0
	var asked storage.RemoteReadRequest
	n.remote.read = func(req storage.RemoteReadRequest) (storage.RemoteReadResult, error) {
		asked = req
		return storage.RemoteReadResult{Data: remote, NextOffset: 2, Release: func() { released++ }}, nil
	}
	if got := n.fetchAll("a", 0, 1); len(got.batches(t)) != 1 || got.LogStartOffset != 0 || got.HighWatermark != 3 {
		t.Errorf("fetch of a remote offset: %+v", got)
	}
	if released != 1 || asked.Offset != 1 || asked.UpTo != 3 {
		t.Errorf("released %d times; asked %+v", released, asked)
	}
	n.remote.read = func(storage.RemoteReadRequest) (storage.RemoteReadResult, error) {
		return storage.RemoteReadResult{}, kafka.KafkaStorageError
	}
	if got := n.fetchAll("a", 0, 0); kafka.Errno(got.ErrorCode) != kafka.KafkaStorageError {
		t.Errorf("a store that fails: %v", kafka.Errno(got.ErrorCode))
	}
	n.remote.byTime, n.remote.found = storage.TimestampOffset{Offset: 1, Timestamp: 20}, true
	for timestamp, want := range map[int64]int64{
		15: 1, replica.TimestampEarliest: 0, replica.TimestampEarliestLocal: 2, replica.TimestampLatestTiered: 1,
		replica.TimestampEarliestPending: 2, replica.TimestampLatest: 3, replica.TimestampMax: 2,
	} {
		if got := n.listOffset("a", timestamp, 11, 0); got.Offset != want {
			t.Errorf("time %d: offset %d, want %d", timestamp, got.Offset, want)
		}
	}
	n.remote.found = false
	if got := n.listOffset("a", 25, 11, 0); got.Offset != 2 {
		t.Errorf("a time that only the local part has: offset %d", got.Offset)
	}
	n.deleteRecords("a", 1, 1, 0)
	if len(n.remote.advanced) != 1 || n.remote.advanced[0] != 1 {
		t.Errorf("the start of a tiered log is moved by a commit: %v", n.remote.advanced)
	}
}

// TestHotPartitionsDoNotWaitForColdOnes has one partition with records at hand and one that waits for the store.
func TestHotPartitionsDoNotWaitForColdOnes(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 2, "remote.storage.enable", "true")
	n.produce("a", 0, "cold")
	n.produce("a", 1, "hot")
	log := must(must(n.replicas.Partition(kafka.TopicPartition{Topic: "a"})).Log())
	check(t, log.Roll())
	n.commitRemote(kafka.TopicIDPartition{ID: id}, 0, 1)
	must(log.MoveLocalStart(1, "test"))
	released := make(chan struct{}, 1)
	var finish func()
	n.remote.start = func(done func(storage.RemoteReadResult, error)) {
		finish = func() {
			done(storage.RemoteReadResult{Data: batch("late"), Release: func() { released <- struct{}{} }}, nil)
		}
	}
	req := fetchRequest("a", kafka.TopicID{}, 0, 0)
	req.MaxWaitMillis = 60_000
	reply := n.send(req, 12)
	if reply.Wait != nil {
		t.Fatal("the answer waits for the object store")
	}
	partitions := decodeReply[*kmsg.FetchResponse](n, req, reply, 12).Topics[0].Partitions
	if len(partitions[0].RecordBatches) != 0 || partitions[0].ErrorCode != 0 || len(partitions[1].RecordBatches) == 0 {
		t.Errorf("answer: %+v", partitions)
	}
	finish()
	<-released // what came too late is given back
}

func (n *testNode) commitRemote(tp kafka.TopicIDPartition, base, end int64) {
	n.t.Helper()
	upload := kafka.UUID{1}
	for _, cmd := range []command.Command{
		command.OpenTier{Partition: tp},
		command.ReserveUploads{Partition: tp, UploadIDs: []kafka.UUID{upload}, DeadlineMs: 1 << 40},
	} {
		must(n.meta.Propose(n.conn.Context, cmd))
	}
	partition, _ := n.meta.Image().PartitionByID(tp)
	must(n.meta.Propose(n.conn.Context, command.CommitSegment{
		Partition: tp, Version: partition.Tier.Version,
		Entry: command.SegmentEntry{
			BaseOffset: base, EndOffset: end, UploadID: upload, DataBytes: 1, ObjectBytes: 2, TailBytes: 1,
		},
	}))
}

// TestFE08AReaderInARemoteHoleAtTheEndWaits has nothing for the reader in the object store nor behind it: what it may
// read ends in a hole. Answering at once would have it ask again at once.
func TestFE08AReaderInARemoteHoleAtTheEndWaits(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1, "remote.storage.enable", "true")
	n.produceAt("a", record.None, 10, 20)
	log := must(must(n.replicas.Partition(kafka.TopicPartition{Topic: "a"})).Log())
	check(t, log.Roll())
	n.commitRemote(kafka.TopicIDPartition{ID: id}, 0, 2)
	must(log.MoveLocalStart(2, "test"))
	n.remote.read = func(req storage.RemoteReadRequest) (storage.RemoteReadResult, error) {
		return storage.RemoteReadResult{NextOffset: req.Offset, Release: func() {}}, nil
	}
	req := fetchRequest("a", kafka.TopicID{}, 1)
	req.MaxWaitMillis = 60_000
	reply := n.send(req, 12)
	select {
	case <-reply.Wait:
		t.Fatal("an empty answer comes at once")
	default:
	}
	n.produceAt("a", record.None, 30) // there is more to read, which the next fetch will find
	got := decodeReply[*kmsg.FetchResponse](n, req, reply, 12).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || got.HighWatermark != 3 {
		t.Errorf("answer: %+v", got)
	}
}
