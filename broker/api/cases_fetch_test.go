package api

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/internal/kafka"
)

func TestFE01EmptyAnswersTellTheWatermarks(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 2)
	for range 4 {
		n.produce("a", 1, "x")
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{
		Topic: "a", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 1, Offset: 3}},
	}}
	ask[*kmsg.DeleteRecordsResponse](n, req, 2)
	for _, isolation := range []int8{0, 1} {
		for _, sessionEpoch := range []int32{-1, 0} {
			for version := int16(4); version <= 18; version++ {
				req := fetchRequest("a", id, 0, 4)
				req.IsolationLevel, req.SessionEpoch = isolation, sessionEpoch
				partitions := ask[*kmsg.FetchResponse](n, req, version).Topics[0].Partitions
				for i, want := range []struct{ end, start int64 }{{0, 0}, {4, 3}} {
					got := partitions[i]
					if version < 5 {
						want.start = -1 // kmsg's default: there is no such field yet
					}
					if got.ErrorCode != 0 || len(got.RecordBatches) != 0 || got.HighWatermark != want.end ||
						got.LastStableOffset != want.end || got.LogStartOffset != want.start {
						t.Errorf("v%d, isolation %d, session epoch %d: %+v", version, isolation, sessionEpoch, got)
					}
				}
			}
		}
	}
}

// TestFE04BoundedAnswersStarveNobody reads many partitions through answers that have room for a few of them.
func TestFE04BoundedAnswersStarveNobody(t *testing.T) {
	const partitions, batches, size, maxBytes = 64, 4, 3000, 10_000
	for _, withSession := range []bool{false, true} {
		n := newTestNode(t, nil)
		id := n.createTopic("a", partitions)
		for p := range int32(partitions) {
			for range batches {
				n.produce("a", p, string(make([]byte, size)))
			}
		}
		next, epoch, session := make([]int64, partitions), int32(0), int32(0)
		served := map[int32]bool{}
		rounds := 0
		for left := partitions * batches; left > 0; rounds++ {
			req := fetchRequest("", id, next...)
			req.MaxBytes, req.SessionEpoch = maxBytes, -1
			if withSession {
				req.SessionID, req.SessionEpoch = session, epoch
				epoch++
			} else {
				// A client without a session lists what it has just got behind the others, as Java's and librdkafka's do.
				listed := req.Topics[0].Partitions
				at := rounds % partitions
				req.Topics[0].Partitions = append(listed[at:len(listed):len(listed)], listed[:at]...)
			}
			resp := ask[*kmsg.FetchResponse](n, req, 13)
			session = resp.SessionID
			total := 0
			for _, topic := range resp.Topics {
				for _, p := range topic.Partitions {
					got := fetched{p}
					total += len(p.RecordBatches)
					left -= len(got.batches(t))
					next[p.Partition] += int64(len(got.batches(t)))
					if len(p.RecordBatches) > 0 {
						served[p.Partition] = true
					}
				}
			}
			if total == 0 || total > maxBytes+size+100 {
				t.Fatalf("round %d: %d bytes for at most %d and one batch", rounds, total, maxBytes)
			}
			if rounds == partitions-1 && len(served) < partitions { // there is room for one partition in each
				t.Errorf("session %v: after %d answers %d partitions were never served", withSession, partitions,
					partitions-len(served))
			}
		}
	}
}

func TestFE05OneBatchMayOvershoot(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 4)
	for partition := range int32(4) {
		n.produce("a", partition, string(make([]byte, 20_000)))
	}
	req := fetchRequest("a", kafka.TopicID{}, 0, 0, 0, 0)
	req.MaxBytes = 10_000
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].PartitionMaxBytes = 10_000
	}
	for i, p := range ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions {
		if got := len((fetched{p}).batches(t)); (i == 0) != (got == 1) || p.ErrorCode != 0 || p.HighWatermark != 1 {
			t.Errorf("partition %d: %d batches, error %d", i, got, p.ErrorCode)
		}
	}
}

func TestFE07MaxWaitEndsWhatMinBytesHolds(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produce("a", 0, "a little")
	req := fetchRequest("a", kafka.TopicID{}, 0)
	req.MaxWaitMillis, req.MinBytes = 30, 1<<20
	begun := time.Now()
	got := fetched{ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions[0]}
	if waited := time.Since(begun); len(got.batches(t)) != 1 || waited < 30*time.Millisecond {
		t.Errorf("%d batches after %v", len(got.batches(t)), waited)
	}
}

func TestFE13AStaleTopicIDWithoutASession(t *testing.T) {
	n := newTestNode(t, nil)
	old := n.createTopic("a", 1)
	n.deleteTopic("a", 0)
	fetch := func() kafka.Errno {
		return kafka.Errno(ask[*kmsg.FetchResponse](n, fetchRequest("", old, 0), 13).Topics[0].Partitions[0].ErrorCode)
	}
	if code := fetch(); code != kafka.UnknownTopicID {
		t.Errorf("deleted: %v", code)
	}
	n.createTopic("a", 1)
	n.produce("a", 0, "new")
	if code := fetch(); code != kafka.UnknownTopicID {
		t.Errorf("created again: %v", code)
	}
}

// TestFE14FullFetchesUnderLoadSkipNothing reads many partitions without a session while they grow.
func TestFE14FullFetchesUnderLoadSkipNothing(t *testing.T) {
	const partitions = 500
	n := newTestNode(t, nil)
	n.createTopic("a", partitions)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() {
		for p := int32(0); ctx.Err() == nil; p = (p + 7) % partitions {
			n.send(produceRequest("a", kafka.TopicID{}, p, acksLeader, batch("x")), 9)
		}
	})
	next := make([]int64, partitions)
	read := 0
	for rounds := 0; rounds < 20 || read < 500; rounds++ {
		req := fetchRequest("a", kafka.TopicID{}, next...)
		req.MaxBytes = 20_000
		for _, p := range ask[*kmsg.FetchResponse](n, req, 12).Topics[0].Partitions {
			if p.ErrorCode != 0 || p.HighWatermark < next[p.Partition] || p.LastStableOffset != p.HighWatermark ||
				p.LogStartOffset != 0 {
				t.Fatalf("partition %d at %d: %+v", p.Partition, next[p.Partition], p)
			}
			for _, b := range (fetched{p}).batches(t) {
				if b.BaseOffset() != next[p.Partition] {
					t.Fatalf("partition %d goes on at %d instead of %d", p.Partition, b.BaseOffset(), next[p.Partition])
				}
				next[p.Partition]++
				read++
			}
		}
	}
	stop()
	load.Wait()
}

func TestOF01NothingIsFoundBeyondTheNewestTime(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produceAt("a", record.None, 5, 7)
	for version := int16(1); version <= 11; version++ {
		got := n.listOffset("a", 8, version, 0)
		if got.ErrorCode != 0 || got.Offset != -1 || got.Timestamp != -1 || version >= 4 && got.LeaderEpoch != -1 {
			t.Errorf("v%d: %+v", version, got)
		}
	}
}

func TestOF04LargestTimestampUnderLogAppendTime(t *testing.T) {
	n := newTestNode(t, nil)
	for _, codec := range []record.Codec{record.None, record.Gzip} {
		topic := "in-" + codec.String()
		n.createTopic(topic, 1, "message.timestamp.type", "LogAppendTime")
		for range 3 {
			n.produceAt(topic, codec, 1, 3, 2)
		}
		var first, largest int64
		for _, b := range n.fetchAll(topic, 0, 0).batches(t) {
			if b.MaxTimestamp() > largest {
				first, largest = b.BaseOffset(), b.MaxTimestamp()
			}
		}
		if got := n.listOffset(topic, replica.TimestampMax, 7, 0); got.Offset != first || got.Timestamp != largest {
			t.Errorf("%s: offset %d, time %d; want %d, %d", topic, got.Offset, got.Timestamp, first, largest)
		}
	}
}

// Version 0 of ListOffsets means something else, a list of segments: it is not offered.
func TestPR09ListOffsetsHasNoVersion0(t *testing.T) {
	n := newTestNode(t, nil)
	for _, key := range ask[*kmsg.ApiVersionsResponse](n, kmsg.NewPtrApiVersionsRequest(), 0).ApiKeys {
		if name := kmsg.NameForKey(key.ApiKey); strings.HasPrefix(name, "ListOffsets") && key.MinVersion != 1 {
			t.Errorf("%s is advertised from %d", name, key.MinVersion)
		}
	}
}
