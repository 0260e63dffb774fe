package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/internal/kafka"
)

// table is a reader that keeps the newest value of each key, as who reads a compacted topic does.
type table struct {
	client   *kgo.Client
	position int64
	values   map[string]string
}

func (s *scenario) table(topic string) *table {
	s.t.Helper()
	return &table{values: map[string]string{}, client: s.client(
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))}
}

// follow reads on to an offset.
func (r *table) follow(s *scenario, end int64) {
	s.t.Helper()
	for r.position < end {
		fetches := r.client.PollFetches(s.context())
		must(s.t, fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset < r.position {
				s.t.Fatalf("offset %d comes behind %d", record.Offset, r.position-1)
			}
			r.position, r.values[string(record.Key)] = record.Offset+1, string(record.Value)
		})
	}
}

// TestCompactAndDeleteTogether writes a few keys again and again, and one key a minute once, to a topic of which ten
// minutes are kept: hot keys are there with their newest value, a key of its own until its time is over, and whoever
// reads along, or begins anywhere, comes to the end.
func TestCompactAndDeleteTogether(t *testing.T) {
	run(t, 21, nil, func(s *scenario) {
		s.createTopic("t", 1, compacted(map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "600000"}))
		client, along := s.client(), s.table("t")
		start, most := int64(0), 0
		for minute := range 40 {
			for i := range 20 {
				s.put(client, "t", fmt.Sprintf("hot %d", i%5), fmt.Sprintf("%d in minute %d %s", i, minute, strings.Repeat("x", 40)))
			}
			s.put(client, "t", fmt.Sprintf("minute %d", minute), "once")
			s.sleep(time.Minute)
			if minute == 25 {
				s.restart()
			}
			most = max(most, len(s.localSegments("t", 0)))
			now := s.offsetAt("t", earliest)
			if now < start {
				t.Fatalf("the log start went from %d back to %d", start, now)
			}
			start = now
			end := s.offsetAt("t", latest)
			along.follow(s, end)
			anew := s.table("t")
			anew.follow(s, end)
			anew.client.Close()
			for i := range 5 {
				want := fmt.Sprintf("%d in minute %d ", 15+i, minute)
				for _, reader := range []*table{along, anew} {
					if got := reader.values[fmt.Sprintf("hot %d", i)]; !strings.HasPrefix(got, want) {
						t.Errorf("minute %d: hot key %d is %.30q, want %q", minute, i, got, want)
					}
				}
			}
			for earlier := range minute + 1 {
				_, there := anew.values[fmt.Sprintf("minute %d", earlier)]
				// It is looked at at the end of a minute, and a restart takes a moment: what is nine minutes old may be over ten.
				// A segment is as old as its youngest record: those that were merged live some minutes longer.
				if age := minute - earlier; age <= 8 && !there || age > 25 && there {
					t.Errorf("after %d minutes the key of minute %d is there: %v", age, earlier, there)
				}
			}
		}
		if start < 300 || most > 40 {
			t.Errorf("the log starts at %d, and had up to %d segments", start, most)
		}
		code, _ := s.fetchAt("t", 0)
		if code != kerr.OffsetOutOfRange.Code {
			t.Errorf("below the log start: %v", kerr.ErrorForCode(code))
		}
		s.stop()
		s.verifyLogs()
		s.start()
	})
}

// fetchAt asks once for what is at an offset of a topic's only partition.
func (s *scenario) fetchAt(topic string, offset int64) (code int16, bytes int) {
	s.t.Helper()
	client := s.client()
	defer client.Close()
	topics := try(kadm.NewClient(client).ListTopics(s.context(), topic)).orFail(s.t)
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, 1<<20, -1
	req.MinBytes, req.MaxWaitMillis = 1, 5000
	one := kmsg.NewFetchRequestTopic()
	one.Topic, one.TopicID = topic, topics[topic].ID
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes = offset, 1<<20
	one.Partitions = append(one.Partitions, partition)
	req.Topics = append(req.Topics, one)
	answer := try(client.Broker(1).Request(s.context(), req)).orFail(s.t).(*kmsg.FetchResponse)
	must(s.t, kerr.ErrorForCode(answer.ErrorCode))
	got := answer.Topics[0].Partitions[0]
	return got.ErrorCode, len(got.RecordBatches)
}

// TestRE05AnIdleEmptyActiveSegmentTakesAppends lets an empty segment grow older than segment.ms, new and after all of
// the log has expired, and appends then.
func TestRE05AnIdleEmptyActiveSegmentTakesAppends(t *testing.T) {
	run(t, 22, nil, func(s *scenario) {
		s.createTopic("t", 1, map[string]string{"segment.ms": "10000", "retention.ms": "60000"})
		for round := range int64(6) {
			s.sleep(time.Hour)
			switch round % 3 {
			case 1:
				s.restart()
			case 2:
				s.crash(loseAllUnsynced)
			}
			s.sleep(time.Hour)
			if start, end := s.offsetAt("t", earliest), s.offsetAt("t", latest); start != end || end != 2*round {
				t.Fatalf("round %d: the log is [%d, %d), and should be empty at %d", round, start, end, 2*round)
			}
			client := s.client()
			s.put(client, "t", "k", "first")
			s.sleep(20 * time.Second)
			s.put(client, "t", "k", "behind segment.ms")
			client.Close()
			if records := s.everything("t", s.offsetAt("t", earliest)); len(records) != 2 {
				t.Errorf("round %d: %d records", round, len(records))
			}
		}
		s.stop()
		s.verifyLogs()
		s.start()
	})
}

// TestRE08TheEarliestOffsetCanBeFetched asks for the earliest offset and fetches it, while retention never rests.
func TestRE08TheEarliestOffsetCanBeFetched(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"local":  {"internal.segment.bytes": "1000"},
		"tiered": tiered(map[string]string{"internal.segment.bytes": "1000"}),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 23, []string{"log.retention.check.interval.ms=100"}, func(s *scenario) {
				settings["retention.ms"], settings["retention.bytes"] = "4000", "5000"
				s.createTopic("t", 1, settings)
				ctx, stop := context.WithCancel(s.context())
				done := make(chan error, 1)
				producer := s.client()
				go func() {
					for ctx.Err() == nil {
						record := &kgo.Record{Topic: "t", Value: []byte(strings.Repeat("x", 150))}
						if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil && ctx.Err() == nil {
							done <- err
							return
						}
						time.Sleep(40 * time.Millisecond)
					}
					done <- nil
				}()
				s.sleep(5 * time.Second)
				first, gone := s.offsetAt("t", earliest), 0
				for range 150 {
					at := s.offsetAt("t", earliest)
					code, bytes := s.fetchAt("t", at)
					switch {
					case code == kerr.OffsetOutOfRange.Code:
						if gone++; s.offsetAt("t", earliest) <= at {
							t.Errorf("offset %d is out of range, and the earliest there is", at)
						}
					case code != 0 || bytes == 0:
						t.Errorf("offset %d: %v, %d bytes", at, kerr.ErrorForCode(code), bytes)
					}
					time.Sleep(30 * time.Millisecond)
				}
				stop()
				must(t, <-done)
				last := s.offsetAt("t", earliest)
				if last < first+50 || gone > 20 {
					t.Errorf("the log start went from %d to %d; %d of 150 fetches were out of range", first, last, gone)
				}
			})
		})
	}
}

// TestCN08TheFirstPageOfACompactedTopicComesAtOnce reads the oldest records of a topic of 17 MB of which nearly
// everything was compacted away, in holes of thousands of offsets.
func TestCN08TheFirstPageOfACompactedTopicComesAtOnce(t *testing.T) {
	run(t, 24, nil, func(s *scenario) {
		s.createTopic("t", 1, map[string]string{"cleanup.policy": "compact", "internal.segment.bytes": "1000000"})
		client := s.client()
		for i := range 170 {
			records := make([]*kgo.Record, 100)
			for j := range records {
				records[j] = &kgo.Record{Topic: "t", Key: fmt.Appendf(nil, "key %d", j), Value: make([]byte, 1000)}
			}
			records[0].Key = fmt.Appendf(nil, "page %d", i/8)
			s.produce(client, records...)
		}
		s.compactNow("t")
		began := time.Now()
		reader := s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
		var page []*kgo.Record
		for len(page) < 20 {
			fetches := reader.PollFetches(s.context())
			must(t, fetches.Err())
			page = append(page, fetches.Records()...)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the first page took %v", took)
		}
		if hole := page[19].Offset - page[0].Offset; hole < 10_000 {
			t.Errorf("the first page spans %d offsets: there are no holes", hole)
		}
	})
}

// compactionOf is what the JSON API tells of the first partition of a topic.
func (s *scenario) compactionOf(topic string) view.PartitionCompaction {
	s.t.Helper()
	_, body := s.get(view.PathCompaction + "/" + topic)
	var status view.TopicCompaction
	must(s.t, json.Unmarshal([]byte(body), &status))
	if len(status.Partitions) != 1 {
		s.t.Fatalf("compaction of %s: %s", topic, body)
	}
	return status.Partitions[0]
}

// TestInternalTopicsAreCompactedUnderLoad has the cleaner work on the journals of groups and of transactions all the
// time, while groups commit and transactions run, over restarts and power cuts: each group is where it has committed
// last, and what was copied in transactions is there once.
func TestInternalTopicsAreCompactedUnderLoad(t *testing.T) {
	settings := []string{
		"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1", "log.cleaner.backoff.ms=200",
	}
	run(t, 25, settings, func(s *scenario) {
		s.createTopic("in", 2, nil)
		s.createTopic("out", 2, nil)
		s.commitOffset(s.client(), offsetCommit("first", "in", 0, 0, -1)) // which makes the journals
		s.raw("first")
		ctx, stop := context.WithCancel(s.context())
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			s.copyInTransactions(ctx)
		}()
		defer func() { <-copied }()
		defer stop()
		journals := []string{kafka.GroupMetadataTopic, kafka.TransactionStateTopic}
		for _, journal := range journals {
			s.alterTopic(journal, "internal.segment.bytes=3000", "min.cleanable.dirty.ratio=0.01")
		}
		const rounds, burst = 8, 10
		committed, passes, most := map[string]int64{}, map[string]int64{}, 0
		for round := range rounds {
			client := s.client()
			for partition := range int32(2) {
				s.produce(client, numbered("in", partition, round*burst, burst, 10)...)
			}
			for i := range 60 {
				group, offset := fmt.Sprintf("g%d", i%4), int64(100*round+i)
				s.commitOffset(client, offsetCommit(group, "in", 0, offset, -1))
				committed[group] = offset
			}
			client.Close()
			s.sleep(10 * time.Second)
			for _, journal := range journals {
				status := s.compactionOf(journal)
				if status.SetAside != "" || status.BrokenOff != "" {
					t.Errorf("round %d: %s: %+v", round, journal, status)
				}
				passes[journal] += status.Passes
				most = max(most, len(s.localSegments(journal, 0)))
			}
			switch round % 3 {
			case 1:
				s.restart()
			case 2:
				s.crash(loseAllUnsynced)
			}
			s.expectCommitted(committed)
		}
		for _, journal := range journals {
			if passes[journal] < rounds/2 || most > 25 {
				t.Errorf("%s had %d passes, and the journals up to %d segments", journal, passes[journal], most)
			}
		}
		s.expectEachOnce("out", 2*rounds*burst)
		s.restart()
		s.expectCommitted(committed)
		s.expectEachOnce("out", 2*rounds*burst)
	})
}

func (s *scenario) expectCommitted(want map[string]int64) {
	s.t.Helper()
	for group, offset := range want {
		asked := kmsg.NewOffsetFetchRequestGroup()
		asked.Group = group
		got := s.oneGroup(8, asked)
		if !slices.ContainsFunc(got.Topics, func(of kmsg.OffsetFetchResponseGroupTopic) bool {
			return of.Topic == "in" && of.Partitions[0].Offset == offset
		}) {
			s.t.Errorf("group %s is at %+v instead of %d", group, got.Topics, offset)
		}
	}
}
