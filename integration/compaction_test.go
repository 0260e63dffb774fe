package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// compacted are the settings of a topic that is cleaned whenever anything is dirty: segments of a few batches.
func compacted(more map[string]string) map[string]string {
	settings := map[string]string{
		"cleanup.policy": "compact", "internal.segment.bytes": "1000", "index.interval.bytes": "200",
		"min.cleanable.dirty.ratio": "0.01",
	}
	for key, value := range more {
		settings[key] = value
	}
	return settings
}

// put writes one value of one key, a tombstone if the value is empty, in a batch of its own.
func (s *scenario) put(client *kgo.Client, topic, key, value string) {
	s.t.Helper()
	record := &kgo.Record{Topic: topic, Key: []byte(key), Timestamp: time.Now()}
	if value != "" {
		record.Value = []byte(value)
	}
	s.produce(client, record)
}

// everything reads a topic's only partition from an offset to its end.
func (s *scenario) everything(topic string, from int64, options ...kgo.Opt) (records []*kgo.Record) {
	s.t.Helper()
	end := s.offsetAt(topic, latest)
	client := s.client(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}),
		kgo.KeepControlRecords(), // they end a topic that ends with a transaction
	}, options...)...)
	defer client.Close()
	for position := from; position < end; {
		fetches := client.PollFetches(s.context())
		must(s.t, fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			position = record.Offset + 1
			records = append(records, record)
		})
	}
	return records
}

// values are the last values by key, and how often each key was met.
func values(records []*kgo.Record) (last map[string]string, met map[string]int) {
	last, met = map[string]string{}, map[string]int{}
	for _, record := range records {
		if !record.Attrs.IsControl() {
			last[string(record.Key)] = string(record.Value)
			met[string(record.Key)]++
		}
	}
	return last, met
}

func TestCO10ACompactedTopicKeepsTheLastValueOfEachKeyOverRestarts(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("t", 1, compacted(nil))
		want := map[string]string{}
		most := 0
		for round := range 8 {
			client := s.client()
			for i := range 60 {
				key, value := fmt.Sprintf("key %d", i%10), fmt.Sprintf("value %d of round %d %s", i, round, strings.Repeat("x", 40))
				s.put(client, "t", key, value)
				want[key] = value
			}
			client.Close()
			s.sleep(time.Minute) // the cleaner looks every fifteen seconds
			most = max(most, len(s.localSegments("t", 0)))
			if round%3 == 1 {
				s.restart() // a leader epoch of its own
			}
			if round%3 == 2 {
				s.crash(loseAllUnsynced)
				s.revive()
			}
		}
		for from := range s.offsetAt("t", latest) {
			records := s.everything("t", from)
			if len(records) == 0 || records[len(records)-1].Offset != s.offsetAt("t", latest)-1 {
				t.Fatalf("from %d on the end is not reached", from)
			}
			if last, met := values(s.everything("t", 0)); from == 0 {
				for key, value := range want {
					if last[key] != value {
						t.Errorf("%s has %q instead of %q", key, last[key], value)
					}
					if met[key] > 3 { // what the active segment holds comes on top
						t.Errorf("%s is there %d times", key, met[key])
					}
				}
			}
			if from > 20 {
				break
			}
		}
		if most > 12 {
			t.Errorf("there were up to %d segments: they do not converge", most)
		}
		s.stop()
		s.verifyLogs()
		s.start()
	})
}

func TestCO07ATombstoneIsReadableForItsTimeAndThenGoes(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("t", 1, compacted(map[string]string{"delete.retention.ms": "300000"}))
		client := s.client()
		s.put(client, "t", "k", "1")
		s.put(client, "t", "k", "")
		s.fillUp(client, "t", 40)
		s.sleep(time.Minute)
		state := func() (values, tombstones int) {
			for _, record := range s.everything("t", 0) {
				switch {
				case string(record.Key) != "k":
				case record.Value == nil:
					tombstones++
				default:
					values++
				}
			}
			return values, tombstones
		}
		if values, tombstones := state(); values != 0 || tombstones != 1 {
			t.Fatalf("after the first pass: %d values and %d tombstones", values, tombstones)
		}
		s.fillUp(client, "t", 40)
		s.sleep(time.Minute)
		if values, tombstones := state(); values != 0 || tombstones != 1 {
			t.Fatalf("within delete.retention.ms: %d values and %d tombstones", values, tombstones)
		}
		s.sleep(5 * time.Minute)
		s.fillUp(client, "t", 40)
		s.sleep(time.Minute)
		if values, tombstones := state(); values != 0 || tombstones != 0 {
			t.Fatalf("after it: %d values and %d tombstones", values, tombstones)
		}
	})
}

// fillUp writes other keys, so that segments are sealed and dirty.
func (s *scenario) fillUp(client *kgo.Client, topic string, count int) {
	s.t.Helper()
	for i := range count {
		s.put(client, topic, fmt.Sprintf("other %d", i%5), strings.Repeat("y", 60))
	}
}

func TestCO01ATransactionsMarkerAtTheEndStaysToBeReached(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("t", 1, compacted(map[string]string{"delete.retention.ms": "0"}))
		s.fillUp(s.client(), "t", 30)
		client := s.client(kgo.TransactionalID("tx"))
		for i := range 6 {
			must(t, client.BeginTransaction())
			for key := range 3 {
				s.put(client, "t", fmt.Sprintf("in a transaction %d", key), fmt.Sprintf("%d %s", i, strings.Repeat("z", 60)))
			}
			must(t, client.EndTransaction(s.context(), kgo.TransactionEndTry(i%2 == 1)))
			s.sleep(30 * time.Second)
		}
		s.compactNow("t")
		s.compactNow("t")
		end := s.offsetAt("t", latest)
		records := s.everything("t", 0, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if last := records[len(records)-1]; last.Offset != end-1 || !last.Attrs.IsControl() {
			t.Errorf("the last record is at %d of %d", last.Offset, end)
		}
		last, met := values(records)
		for key := range 3 {
			name := fmt.Sprintf("in a transaction %d", key)
			if !strings.HasPrefix(last[name], "5 ") || met[name] != 1 {
				t.Errorf("%s is there %d times, last as %q", name, met[name], last[name])
			}
		}
		if stable := s.offsetAt("t", latest); stable != end {
			t.Errorf("the last stable offset is %d of %d", stable, end)
		}
	})
}

// compactNow forces a pass, as `firn topic compact` does.
func (s *scenario) compactNow(topic string) {
	s.t.Helper()
	status, body := s.post("/api/v1/compaction/" + topic)
	if status != http.StatusOK {
		s.t.Fatalf("a forced pass: status %d, %s", status, body)
	}
	s.eventually("the pass is over", func() bool {
		_, body := s.get("/api/v1/compaction/" + topic)
		return !strings.Contains(strings.ReplaceAll(body, " ", ""), `"waiting":true`)
	})
}

func TestCO08DeleteRetentionIsNoRetentionOfData(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("t", 1, map[string]string{
			"cleanup.policy": "delete", "delete.retention.ms": "1000", "internal.segment.bytes": "1000",
		})
		client := s.client()
		s.fillUp(client, "t", 60)
		s.sleep(time.Hour)
		if records := s.everything("t", 0); len(records) != 60 {
			t.Errorf("%d of 60 records are left", len(records))
		}
	})
}

func TestTheOffsetsOfGroupsSurviveTheCompactionOfTheirTopic(t *testing.T) {
	settings := []string{"offsets.topic.num.partitions=1", "offsets.topic.segment.bytes=1048576"}
	run(t, 1, settings, func(s *scenario) {
		s.createTopic("t", 1, nil)
		client := s.client()
		s.produce(client, numbered("t", 0, 0, 1, 10)...)
		for i := range int64(200) {
			s.commitOffset(client, offsetCommit("g", "t", 0, i, -1))
		}
		s.commitOffset(client, offsetCommit("other", "t", 0, 7, -1))
		s.compactNow(kafka.GroupMetadataTopic)
		check := func(when string) {
			for group, want := range map[string]int64{"g": 199, "other": 7} {
				asked := kmsg.NewOffsetFetchRequestGroup()
				asked.Group = group
				got := s.oneGroup(8, asked)
				if len(got.Topics) != 1 || got.Topics[0].Partitions[0].Offset != want {
					t.Errorf("%s: group %s is at %+v", when, group, got.Topics)
				}
			}
		}
		check("after the pass")
		s.restart()
		check("after a restart")
		if size := s.offsetAt(kafka.GroupMetadataTopic, latest); size < 200 {
			t.Errorf("only %d offsets were written", size)
		}
	})
}
