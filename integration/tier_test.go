package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/tiering/objectstore"
)

// tiered are the settings of a topic that sinks fast: segments of a few batches, gone from local disk as soon as the
// bucket has them.
func tiered(more map[string]string) map[string]string {
	settings := map[string]string{
		"remote.storage.enable": "true", "internal.segment.bytes": "20000", "index.interval.bytes": "500",
		"retention.ms": "-1", "local.retention.ms": "1",
	}
	for key, value := range more {
		settings[key] = value
	}
	return settings
}

// produceTimed sends records in batches of a few. Their times rise by a second each.
func (s *scenario) produceTimed(topic string, first, count int) []*kgo.Record {
	s.t.Helper()
	sent := numbered(topic, 0, first, count, 100)
	for i, record := range sent {
		record.Timestamp = time.UnixMilli(900_000_000_000 + 1000*int64(first+i))
	}
	client := s.client()
	defer client.Close()
	for some := range chunks(sent, 7) {
		s.produce(client, some...)
	}
	return sent
}

// sink waits until everything sealed is in the bucket and nowhere else.
func (s *scenario) sink(topic string) {
	s.t.Helper()
	s.eventually("only the active segment is local", func() bool { return len(s.localSegments(topic, 0)) == 1 })
}

// offsetAt asks for one of the special offsets, or that of a time.
func (s *scenario) offsetAt(topic string, timestamp int64) int64 {
	s.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	reqTopic := kmsg.NewListOffsetsRequestTopic()
	reqTopic.Topic = topic
	reqPartition := kmsg.NewListOffsetsRequestTopicPartition()
	reqPartition.Timestamp = timestamp
	reqTopic.Partitions = append(reqTopic.Partitions, reqPartition)
	req.Topics = append(req.Topics, reqTopic)
	client := s.client()
	defer client.Close()
	res := try(req.RequestWith(s.context(), client)).orFail(s.t).Topics[0].Partitions[0]
	must(s.t, kerr.ErrorForCode(res.ErrorCode))
	return res.Offset
}

const (
	latest                = -1
	earliest              = -2
	maxTimestamp          = -3
	earliestLocal         = -4
	latestTiered          = -5
	earliestPendingUpload = -6
)

func (s *scenario) deleteRecords(topic string, before int64) {
	s.t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, before, -1)
	responses := try(s.admin().DeleteRecords(s.context(), offsets)).orFail(s.t)
	must(s.t, responses.Error())
}

func (s *scenario) alterTopic(topic string, settings ...string) {
	s.t.Helper()
	var changes []kadm.AlterConfig
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	for _, response := range try(s.admin().AlterTopicConfigs(s.context(), changes, topic)).orFail(s.t) {
		must(s.t, response.Err)
	}
}

func TestHistorySinksIntoTheBucketAndComesBack(t *testing.T) {
	run(t, 40, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 2000)
		s.sink("events")
		if n := len(s.objects()); n < 10 {
			t.Fatalf("only %d objects", n)
		}
		expectAll := func() {
			t.Helper()
			expectSame(t, s.read("events", 0, 0), sent)
			expectSame(t, s.read("events", 0, 1234), sent[1234:])
			for _, offset := range []int64{0, 1, 700, 1111, 1999} {
				if got := s.offsetAt("events", sent[offset].Timestamp.UnixMilli()-500); got != offset {
					t.Errorf("the time just before offset %d is at offset %d", offset, got)
				}
			}
			if got := s.offsetAt("events", sent[1999].Timestamp.UnixMilli()+1); got != -1 {
				t.Errorf("a time after the last record is at offset %d", got)
			}
			local := s.offsetAt("events", earliestLocal)
			for timestamp, want := range map[int64]int64{
				latest: 2000, earliest: 0, maxTimestamp: 1999, latestTiered: local - 1, earliestPendingUpload: local,
			} {
				if got := s.offsetAt("events", timestamp); got != want {
					t.Errorf("special offset %d is %d, want %d", timestamp, got, want)
				}
			}
			if local < 1700 || local >= 2000 {
				t.Errorf("the first local offset is %d", local)
			}
		}
		expectAll()
		epoch := s.leaderEpoch("events", 0)
		s.restart()
		expectAll()
		s.crash(loseSome)
		expectAll()
		s.expectEpochEnd("events", epoch, 2000)
		more := s.produceTimed("events", 2000, 500)
		s.sink("events")
		expectSame(t, s.read("events", 0, 0), slices.Concat(sent, more))
		s.expectEpochEnd("events", epoch, 2000)
		s.expectEpochEnd("events", epoch+1, 2500)
		s.stop()
		s.verifyLogs()
	})
}

// expectEpochEnd asks where a leader epoch ended, as a consumer does that checks whether it has been cut off.
func (s *scenario) expectEpochEnd(topic string, epoch int32, want int64) {
	s.t.Helper()
	var req kadm.OffsetForLeaderEpochRequest
	req.Add(topic, 0, epoch)
	found := try(s.admin().OffsetForLeaderEpoch(s.context(), req)).orFail(s.t)[topic][0]
	must(s.t, found.Err)
	if found.LeaderEpoch != epoch || found.EndOffset != want {
		s.t.Errorf("leader epoch %d ends at %d (epoch %d), want %d", epoch, found.EndOffset, found.LeaderEpoch, want)
	}
}

func TestRecordsAreDeletedAcrossBothTiers(t *testing.T) {
	run(t, 41, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 1000)
		s.sink("events")
		before := len(s.objects())
		s.deleteRecords("events", 501)
		if err := s.fetchOnce(s.topicID("events"), 500); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("a deleted offset is answered with %v", err)
		}
		expectSame(t, s.read("events", 0, 501), sent[501:])
		if got := s.offsetAt("events", earliest); got != 501 {
			t.Errorf("the log starts at %d, want 501", got)
		}
		s.crash(loseAllUnsynced)
		if got := s.offsetAt("events", earliest); got != 501 {
			t.Errorf("after a power cut the log starts at %d, want 501", got)
		}
		if now := len(s.objects()); now != before {
			t.Errorf("%d of %d objects are left within the grace time", now, before)
		}
		s.eventually("the objects below the log start are gone", func() bool { return len(s.objects()) <= before/2+1 })
		expectSame(t, s.read("events", 0, 501), sent[501:])
		s.deleteRecords("events", -1)
		if got := s.offsetAt("events", earliest); got != 1000 {
			t.Errorf("the log starts at %d, want its end", got)
		}
		more := s.produceTimed("events", 1000, 500)
		s.sink("events")
		expectSame(t, s.read("events", 0, 1000), more)
		s.restart()
		expectSame(t, s.read("events", 0, 1000), more)
	})
}

func TestTotalRetentionAlsoCountsWhatIsRemote(t *testing.T) {
	run(t, 42, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 1000)
		s.sink("events")
		s.alterTopic("events", "retention.bytes=80000")
		s.eventually("the log start has moved", func() bool { return s.offsetAt("events", earliest) > 0 })
		s.sleep(10 * time.Second)
		start := s.offsetAt("events", earliest)
		if start < 300 || start > 700 {
			t.Errorf("the log starts at %d", start)
		}
		expectSame(t, s.read("events", 0, start), sent[start:])
		objects := len(s.objects())
		s.eventually("the expired objects are gone", func() bool { return len(s.objects()) < objects })
		expectSame(t, s.read("events", 0, start), sent[start:])
		// The records are a year and more old by the clock of the bubble.
		s.alterTopic("events", "retention.ms=1000", "segment.ms=1000")
		s.eventually("everything has expired", func() bool { return s.offsetAt("events", earliest) == 1000 })
		s.eventually("the bucket is empty", func() bool { return len(s.objects()) == 0 })
		more := s.produceTimed("events", 5_000_000, 5)
		more[0].Offset = 1000
		if got := s.offsetAt("events", latest); got != 1005 {
			t.Errorf("the log ends at %d", got)
		}
	})
}

func TestADeletedTopicLeavesNothingInTheBucket(t *testing.T) {
	run(t, 43, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		s.produceTimed("events", 0, 1000)
		s.createTopic("others", 1, tiered(nil))
		others := s.produceTimed("others", 0, 200)
		s.sink("events")
		s.sink("others")
		all := len(s.objects())
		try(s.admin().DeleteTopic(s.context(), "events")).orFail(t)
		s.sleep(time.Minute)
		if now := len(s.objects()); now != all {
			t.Errorf("%d of %d objects are left within the grace time", now, all)
		}
		s.crash(loseSome) // the marker is durable
		s.eventually("the topic's objects are gone", func() bool { return len(s.objects()) < all/2 })
		s.sleep(time.Hour)
		expectSame(t, s.read("others", 0, 0), others)
	})
}

// TestACrashAtEachCallOfTheBucket ends the broker just before each of the calls, other than reading, that it makes of
// the bucket while a topic sinks into it and is deleted.
func TestACrashAtEachCallOfTheBucket(t *testing.T) {
	const calls = 8 // that many there are at least: six segments, and their removal
	for number := range int64(calls) {
		t.Run(fmt.Sprint("call ", number+1), func(t *testing.T) {
			run(t, uint64(number), nil, func(s *scenario) {
				var countdown atomic.Int64
				s.onBucket = func(call objectstore.Call) {
					if call.Operation != objectstore.OpGet && countdown.Add(-1) == 0 {
						s.powerOff(loseAnything)
					}
				}
				s.restart()
				crashed := false
				crashOr := func(what string, holds func() bool) {
					t.Helper()
					s.eventually("the power goes, or "+what, func() bool { return s.isOff() || holds() })
					if s.isOff() {
						crashed = true
						s.crash(loseNothing)
					}
					s.eventually(what, holds)
				}
				s.createTopic("events", 1, tiered(nil))
				countdown.Store(number + 1) // from here on: a stop and a new topic write checkpoints, too
				producer := s.stream(&ledger{}, kgo.ProducerBatchMaxBytes(2000))
				for some := range chunks(numbered("events", 0, 0, 800, 100), 7) {
					producer.send(some...)
				}
				crashOr("all is sealed and sunk", func() bool {
					return producer.client.BufferedProduceRecords() == 0 && len(s.localSegments("events", 0)) == 1
				})
				producer.wait()
				expectOnceInOrder(t, s.read("events", 0, 0), producer.sent)
				// Whatever the crash has left behind goes with the topic.
				try(s.admin().DeleteTopic(s.context(), "events")).orFail(t)
				crashOr("the bucket is empty", func() bool { return len(s.objects()) == 0 })
				if !crashed {
					t.Errorf("there were only %d calls", number+1-countdown.Load())
				}
			})
		})
	}
}

// TestTI13ABucketThatIsAwayHoldsNobodyUp has a bucket refuse everything for an hour, and then lose answers.
func TestTI13ABucketThatIsAwayHoldsNobodyUp(t *testing.T) {
	run(t, 44, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 300)
		s.sink("events")
		objects := len(s.objects())
		s.bucket.SetRules(objectstore.Rule{When: objectstore.Always(), Then: objectstore.Refuse()})
		began := time.Now()
		sent = append(sent, s.produceTimed("events", 300, 500)...)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("with the bucket away, producing took %v", took)
		}
		local := s.offsetAt("events", earliestLocal)
		expectSame(t, s.read("events", 0, local), sent[local:])
		s.sleep(time.Hour)
		if now := len(s.objects()); now != objects {
			t.Errorf("%d objects, want %d", now, objects)
		}
		if now := s.offsetAt("events", earliestLocal); now != local {
			t.Errorf("local records up to %d went without being in the bucket", now)
		}
		s.bucket.SetRules(objectstore.Rule{
			When: objectstore.Times(1, 3, objectstore.On(objectstore.OpPut)), Then: objectstore.LoseAnswer(),
		})
		s.sink("events")
		expectSame(t, s.read("events", 0, 0), sent)
		try(s.admin().DeleteTopic(s.context(), "events")).orFail(t)
		s.eventually("the bucket is empty", func() bool { return len(s.objects()) == 0 })
	})
}

// TestACrashAtAnyStepOfSinking cuts the power at some operation of a disk, be it that of the logs or that of the
// metadata, while segments roll, are copied, committed and dropped.
func TestACrashAtAnyStepOfSinking(t *testing.T) {
	const rounds = 6
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, seed, nil, func(s *scenario) {
				var known ledger
				countdown := s.cutAtFileOperation()
				s.createTopic("events", 1, tiered(map[string]string{"internal.segment.bytes": "8000"}))
				stopFollowing := s.follow("events", 0, &known)
				producer := s.stream(&known, kgo.ProducerBatchMaxBytes(2000))
				for round := range rounds {
					countdown.Store(1 + s.random.Int64N(150))
					for some := range chunks(numbered("events", 0, 1000*round, 60+s.random.IntN(150), 100), 7) {
						producer.send(some...)
						time.Sleep(time.Duration(s.random.IntN(200)) * time.Millisecond)
					}
					s.sleep(time.Duration(s.random.IntN(5)) * time.Second)
					s.crash(loseAnything)
				}
				countdown.Store(0)
				producer.wait()
				s.sink("events")
				records := s.read("events", 0, 0)
				known.check(t, 0, records)
				expectOnceInOrder(t, records, producer.sent)
				stopFollowing()
				try(s.admin().DeleteTopic(s.context(), "events")).orFail(t)
				s.eventually("the bucket is empty", func() bool { return len(s.objects()) == 0 })
			})
		})
	}
}
