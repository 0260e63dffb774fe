package api

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// fetchRequest asks for partitions 0, 1, … of a topic from the given offsets.
func fetchRequest(topic string, id kafka.TopicID, offsets ...int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.MinBytes = -1, 1<<20, 1
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	for i, offset := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i), offset, 1<<20
		p.CurrentLeaderEpoch, p.LastFetchedEpoch = -1, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

type fetched struct {
	kmsg.FetchResponseTopicPartition
}

func (f fetched) batches(t *testing.T) []record.Batch {
	t.Helper()
	var batches []record.Batch
	for rest := f.RecordBatches; len(rest) > 0; {
		b, tail, err := record.Next(rest)
		if errors.Is(err, record.ErrShort) {
			t.Fatal("an answer ends inside a batch")
		}
		check(t, err)
		batches, rest = append(batches, b), tail
	}
	return batches
}

func (n *testNode) fetchAll(topic string, partition int32, offset int64) fetched {
	n.t.Helper()
	req := fetchRequest(topic, kafka.TopicID{}, offset)
	req.Topics[0].Partitions[0].Partition = partition
	return fetched{ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions[0]}
}

func TestFetchInEveryVersion(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1)
	n.produce("a", 0, "x", "y")
	for version := int16(4); version <= 18; version++ {
		resp := ask[*kmsg.FetchResponse](n, fetchRequest("a", id, 0), version)
		got := fetched{resp.Topics[0].Partitions[0]}
		if got.ErrorCode != 0 || got.HighWatermark != 2 || got.LastStableOffset != 2 || len(got.batches(t)) != 1 {
			t.Errorf("v%d: %+v", version, got.FetchResponseTopicPartition)
		}
		if version >= 5 && got.LogStartOffset != 0 || resp.SessionID != 0 || got.AbortedTransactions != nil {
			t.Errorf("v%d: log start %d, session %d, aborted %v", version, got.LogStartOffset, resp.SessionID,
				got.AbortedTransactions)
		}
		committed := fetchRequest("a", id, 0)
		committed.IsolationLevel = 1
		if got := ask[*kmsg.FetchResponse](n, committed, version).Topics[0].Partitions[0]; got.AbortedTransactions == nil {
			t.Errorf("v%d read_committed: the list of aborted transactions is null", version)
		}
	}
}

func TestFE02FetchAroundTheEnd(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	for range 10 {
		n.produce("a", 0, "x")
	}
	tests := []struct {
		offset  int64
		want    kafka.Errno
		batches int
	}{
		{offset: 9, batches: 1}, {offset: 10}, {offset: 11, want: kafka.OffsetOutOfRange},
		{offset: 1_000_000, want: kafka.OffsetOutOfRange}, {offset: -1, want: kafka.OffsetOutOfRange},
	}
	for _, test := range tests {
		got := n.fetchAll("a", 0, test.offset)
		if kafka.Errno(got.ErrorCode) != test.want || len(got.batches(t)) != test.batches {
			t.Errorf("offset %d: %v, %d batches", test.offset, kafka.Errno(got.ErrorCode), len(got.batches(t)))
		}
		highWatermark, logStart := int64(10), int64(0) // FE-01
		if test.want != kafka.None {
			highWatermark, logStart = -1, -1 // as Kafka leaves them with an error
		}
		if got.HighWatermark != highWatermark || got.LastStableOffset != highWatermark || got.LogStartOffset != logStart {
			t.Errorf("offset %d: high watermark %d, last stable offset %d, log start %d", test.offset,
				got.HighWatermark, got.LastStableOffset, got.LogStartOffset)
		}
	}
}

func TestLongPollIsAnsweredWhenRecordsAreCommitted(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	req := fetchRequest("a", kafka.TopicID{}, 0)
	req.MaxWaitMillis = 60_000
	reply := n.send(req, 12)
	select {
	case <-reply.Wait:
		t.Fatal("an empty partition is answered at once")
	default:
	}
	n.produce("a", 0, "x")
	got := decodeReply[*kmsg.FetchResponse](n, req, reply, 12).Topics[0].Partitions[0]
	if got.HighWatermark != 1 || len(got.RecordBatches) == 0 {
		t.Errorf("answer: %+v", got)
	}
}

func TestLongPollEndsAfterMaxWait(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	req := fetchRequest("a", kafka.TopicID{}, 0)
	req.MaxWaitMillis = 20
	begun := time.Now()
	got := ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || len(got.RecordBatches) != 0 || time.Since(begun) < 20*time.Millisecond {
		t.Errorf("after %v: %+v", time.Since(begun), got)
	}
}

func TestLongPollEndsWhenTheTopicGoes(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1)
	req := fetchRequest("", id, 0)
	req.MaxWaitMillis = 60_000
	reply := n.send(req, 13)
	n.deleteTopic("a", 0)
	got := decodeReply[*kmsg.FetchResponse](n, req, reply, 13).Topics[0].Partitions[0]
	if code := kafka.Errno(got.ErrorCode); code != kafka.UnknownTopicOrPartition && code != kafka.UnknownTopicID {
		t.Errorf("answer: %v", code)
	}
}

func TestFE07MinBytesHoldsTheAnswer(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	req := fetchRequest("a", kafka.TopicID{}, 0)
	req.MaxWaitMillis, req.MinBytes = 60_000, 5000
	reply := n.send(req, 12)
	n.produce("a", 0, string(make([]byte, 3000)))
	select {
	case <-reply.Wait:
		t.Fatal("answered with 3000 of 5000 bytes")
	default:
	}
	n.produce("a", 0, string(make([]byte, 3000)))
	got := fetched{decodeReply[*kmsg.FetchResponse](n, req, reply, 12).Topics[0].Partitions[0]}
	if len(got.batches(t)) != 2 {
		t.Errorf("%d batches", len(got.batches(t)))
	}
}

func TestFetchWithoutWaitSeesWhatWasAppendedBefore(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	for i := range int64(50) {
		n.send(produceRequest("a", kafka.TopicID{}, 0, acksNone, batch("x")), 9)
		if got := n.fetchAll("a", 0, i); len(got.batches(t)) != 1 {
			t.Fatalf("record %d, appended before the fetch came, is not seen", i)
		}
	}
}

func TestFE04FE05ResponseBounds(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 4)
	for partition := range int32(4) {
		n.produce("a", partition, string(make([]byte, 2000)))
	}
	req := fetchRequest("a", kafka.TopicID{}, 0, 0, 0, 0)
	req.MaxBytes = 1000
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].PartitionMaxBytes = 1000
	}
	var filled int
	for _, p := range ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions {
		if p.ErrorCode != 0 || p.HighWatermark != 1 {
			t.Errorf("partition %d: %+v", p.Partition, p)
		}
		if len(p.RecordBatches) > 0 {
			filled++
		}
	}
	if filled != 1 {
		t.Errorf("%d partitions with oversize batches, want exactly one: the first, so that the reader gets on", filled)
	}
	req.MaxBytes = 5000
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].PartitionMaxBytes = 4000
	}
	size := 0
	for _, p := range ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions {
		size += len(p.RecordBatches)
	}
	if size == 0 || size > 5000 {
		t.Errorf("%d bytes in an answer of at most 5000", size)
	}
}

func TestFetchLeaderEpochs(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produce("a", 0, "x")
	n.bumpEpoch()
	n.produce("a", 0, "y")
	at := func(epoch int32) kafka.Errno {
		req := fetchRequest("a", kafka.TopicID{}, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		return kafka.Errno(ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions[0].ErrorCode)
	}
	for epoch, want := range map[int32]kafka.Errno{
		-2: 0, -1: 0, 0: kafka.FencedLeaderEpoch, 1: 0, 2: kafka.UnknownLeaderEpoch,
	} {
		if got := at(epoch); got != want {
			t.Errorf("with epoch %d: %v, want %v", epoch, got, want)
		}
	}
	diverged := fetchRequest("a", kafka.TopicID{}, 2)
	diverged.Topics[0].Partitions[0].LastFetchedEpoch = 0
	got := ask[*kmsg.FetchResponse](n, diverged, 12).Topics[0].Partitions[0]
	if got.DivergingEpoch.Epoch != 0 || got.DivergingEpoch.EndOffset != 1 {
		t.Errorf("a reader whose log went on under epoch 0: %+v", got.DivergingEpoch)
	}
	diverged.Topics[0].Partitions[0].LastFetchedEpoch = 9
	got = ask[*kmsg.FetchResponse](n, diverged, 12).Topics[0].Partitions[0]
	if kafka.Errno(got.ErrorCode) != kafka.OffsetOutOfRange {
		t.Errorf("a reader of an epoch that never was: %v", kafka.Errno(got.ErrorCode))
	}
}

func TestFetchSession(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 3)
	n.produce("a", 0, "x")
	full := fetchRequest("", id, 0, 0, 0)
	full.SessionEpoch = 0
	resp := ask[*kmsg.FetchResponse](n, full, 13)
	session := resp.SessionID
	if session == 0 || len(resp.Topics[0].Partitions) != 3 {
		t.Fatalf("the first answer carries everything: session %d, %d partitions", session, len(resp.Topics[0].Partitions))
	}
	next := func(epoch int32, change func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
		req := fetchRequest("", id)
		req.Topics = nil
		req.SessionID, req.SessionEpoch = session, epoch
		if change != nil {
			change(req)
		}
		return ask[*kmsg.FetchResponse](n, req, 13)
	}
	if resp := next(1, func(r *kmsg.FetchRequest) {
		r.Topics = fetchRequest("", id, 1).Topics // partition 0 goes on at offset 1
	}); len(resp.Topics) != 0 {
		t.Errorf("nothing is new, and the answer carries %+v", resp.Topics)
	}
	n.produce("a", 2, "y")
	if resp := next(2, nil); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 ||
		resp.Topics[0].Partitions[0].Partition != 2 {
		t.Errorf("one partition has something new: %+v", resp.Topics)
	}
	if resp := next(3, func(r *kmsg.FetchRequest) {
		r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: id, Partitions: []int32{2}}}
	}); len(resp.Topics) != 0 {
		t.Errorf("a forgotten partition is still answered: %+v", resp.Topics)
	}
	if resp := next(9, nil); kafka.Errno(resp.ErrorCode) != kafka.InvalidFetchSessionEpoch {
		t.Errorf("a wrong epoch: %v", kafka.Errno(resp.ErrorCode))
	}
	session++
	if resp := next(4, nil); kafka.Errno(resp.ErrorCode) != kafka.FetchSessionIDNotFound {
		t.Errorf("an unknown session: %v", kafka.Errno(resp.ErrorCode))
	}
	session--
	final := fetchRequest("", id, 0)
	final.SessionID, final.SessionEpoch = session, -1
	if resp := ask[*kmsg.FetchResponse](n, final, 13); resp.SessionID != 0 || n.handlers.sessions.Len() != 0 {
		t.Errorf("ending the session: id %d, %d sessions left", resp.SessionID, n.handlers.sessions.Len())
	}
}

func TestFE13SessionWithATopicThatIsCreatedAgain(t *testing.T) {
	n := newTestNode(t, nil)
	old := n.createTopic("a", 1)
	n.createTopic("b", 1)
	full := fetchRequest("", old, 0)
	full.Topics = append(full.Topics, fetchRequest("", n.topic("b").ID, 0).Topics...)
	full.SessionEpoch = 0
	session := ask[*kmsg.FetchResponse](n, full, 13).SessionID
	n.deleteTopic("a", 0)
	again := n.createTopic("a", 1)
	n.produce("a", 0, "new")
	n.produce("b", 0, "kept")
	req := fetchRequest("", again, 0)
	req.SessionID, req.SessionEpoch = session, 1
	got := map[kafka.TopicID]kmsg.FetchResponseTopicPartition{}
	for _, topic := range ask[*kmsg.FetchResponse](n, req, 13).Topics {
		got[topic.TopicID] = topic.Partitions[0]
	}
	if kafka.Errno(got[old].ErrorCode) != kafka.InconsistentTopicID || len(got[old].RecordBatches) != 0 {
		t.Errorf("under the old id: %+v", got[old])
	}
	if len(got[again].RecordBatches) == 0 || len(got[n.topic("b").ID].RecordBatches) == 0 {
		t.Error("the new topic and the other one are not served")
	}
	n.deleteTopic("a", 0)
	gone := fetchRequest("", again, 0)
	gone.SessionID, gone.SessionEpoch, gone.Topics = session, 2, nil
	for _, topic := range ask[*kmsg.FetchResponse](n, gone, 13).Topics {
		if code := kafka.Errno(topic.Partitions[0].ErrorCode); code != kafka.UnknownTopicOrPartition && topic.TopicID != n.topic("b").ID {
			t.Errorf("a topic that is gone: %v", code)
		}
	}
}

func TestFetchSessionsAreBounded(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1)
	ids := map[int32]bool{}
	for range 5 {
		req := fetchRequest("", id, 0)
		req.SessionEpoch = 0
		resp := ask[*kmsg.FetchResponse](n, req, 13)
		if len(resp.Topics) != 1 {
			t.Fatal("a client without a session is not served")
		}
		ids[resp.SessionID] = true
	}
	if n.handlers.sessions.Len() != 3 || !ids[0] {
		t.Errorf("%d sessions for 3 slots; session ids %v", n.handlers.sessions.Len(), ids)
	}
}

// TestFetchSessionsGiveWay: to anyone when they are idle, to larger ones when they are not new any more.
func TestFetchSessionsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := newSessionCache(2)
		begin := func(partitions int) int32 {
			req := fetchRequest("a", kafka.TopicID{}, make([]int64, partitions)...)
			req.Version, req.SessionEpoch = 12, 0
			session, _, err := cache.begin(req, nil)
			check(t, err)
			if session == nil {
				return 0
			}
			return session.id
		}
		alive := func(id int32) bool { return cache.sessions[id] != nil }
		use := func(id int32) {
			req := fetchRequest("a", kafka.TopicID{})
			req.Version, req.SessionID, req.SessionEpoch, req.Topics = 12, id, cache.sessions[id].epoch, nil
			_, _, err := cache.begin(req, nil)
			check(t, err)
		}
		small, large := begin(1), begin(3)
		if begin(9) != 0 || !alive(small) || !alive(large) {
			t.Error("a session that is new and in use has given way")
		}
		time.Sleep(sessionIdle + time.Second)
		use(small)
		use(large)
		if begin(1) != 0 {
			t.Error("a session in use has given way to one that is not larger")
		}
		medium := begin(2)
		if medium == 0 || alive(small) || !alive(large) {
			t.Errorf("a larger session takes the place of the smallest: small lives %v, large lives %v", alive(small), alive(large))
		}
		time.Sleep(sessionIdle + time.Second)
		use(medium)
		if begin(1) == 0 || alive(large) || !alive(medium) {
			t.Error("an idle session gives way to any")
		}
		if newSessionCache(0).create(fetchRequest("a", kafka.TopicID{}, 0)) != nil {
			t.Error("there is a session where none may be")
		}
	})
}

func TestFetchAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	n := newTestNodeWith(t, nil, storage.FlushOS)
	id := n.createTopic("a", 16)
	offsets := make([]int64, 16)
	for partition := range offsets {
		n.produce("a", int32(partition), "x")
	}
	req := fetchRequest("", id, offsets...)
	req.SessionEpoch = 0
	session := ask[*kmsg.FetchResponse](n, req, 13).SessionID
	incremental := fetchRequest("", id)
	incremental.Topics = nil
	incremental.SessionID = session
	epoch := int32(0)
	incremental.SetVersion(13)
	var body []byte
	allocations := testing.AllocsPerRun(200, func() {
		epoch++
		incremental.SessionEpoch = epoch
		body = incremental.AppendTo(body[:0])
		reply := n.handlers.Dispatch(n.conn.Context, &wire.Request{
			Key: wire.KeyFetch, Version: 13, Body: body, Conn: n.conn,
		})
		if reply.Response == nil || reply.Response.Size() < 16*60 {
			t.Fatal("no records")
		}
		reply.Response.Release()
	})
	if allocations > 5 {
		t.Errorf("%.0f allocations per fetch of 16 partitions, want at most 5", allocations)
	}
}
