package integration

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/tiering/objectstore"
)

// asOpened puts a bucket behind the deadlines and retries that one opened by its URL has.
func asOpened(bucket objectstore.Bucket) objectstore.Bucket {
	return objectstore.NewRetrying(timed{bucket}, objectstore.NewRetrier(slog.New(slog.DiscardHandler),
		rand.New(rand.NewPCG(1, 2)), objectstore.DefaultRetryPolicy()))
}

// timed ends listings and deletions that hang, as the requests do that they are made of in a real store.
type timed struct{ objectstore.Bucket }

func (b timed) List(ctx context.Context, prefix, after string, visit func(objectstore.ObjectInfo) error) error {
	ctx, cancel := context.WithTimeout(ctx, objectstore.DefaultRetryPolicy().AttemptTimeout)
	defer cancel()
	return b.Bucket.List(ctx, prefix, after, visit)
}

func (b timed) Delete(ctx context.Context, keys ...string) error {
	ctx, cancel := context.WithTimeout(ctx, objectstore.DefaultRetryPolicy().AttemptTimeout)
	defer cancel()
	return b.Bucket.Delete(ctx, keys...)
}

// gauge reads a metric of a topic.
func (s *scenario) gauge(name, topic string) float64 {
	s.t.Helper()
	_, page := s.ask("GET", "/metrics")
	for line := range strings.Lines(page) {
		if value, found := strings.CutPrefix(line, name+`{topic="`+topic+`"} `); found {
			return try(strconv.ParseFloat(strings.TrimSpace(value), 64)).orFail(s.t)
		}
	}
	s.t.Fatalf("there is no %s of %s", name, topic)
	return 0
}

// TestTI13TheBucketIsGoneForAnHour: first it refuses, then it does not even answer. Hot traffic does not notice, cold
// reads hear of refusals in time, the lag is told truly, what has expired goes although it was never copied, and all resumes.
func TestTI13TheBucketIsGoneForAnHour(t *testing.T) {
	run(t, 60, nil, func(s *scenario) {
		s.wrapBucket = asOpened
		s.restart()
		s.createTopic("events", 1, tiered(nil))
		s.createTopic("short", 1, tiered(map[string]string{"retention.ms": "600000"}))
		now := func(records []*kgo.Record) []*kgo.Record {
			for i, record := range records {
				record.Timestamp = time.Now().Truncate(time.Millisecond).Add(time.Duration(i) * time.Millisecond)
			}
			return records
		}
		sent := s.produceTimed("events", 0, 300)
		client := s.client()
		for some := range chunks(now(numbered("short", 0, 0, 300, 100)), 7) {
			s.produce(client, some...)
		}
		s.sink("events")
		s.sink("short")
		remoteEnd := s.offsetAt("short", latestTiered)
		local := s.offsetAt("events", earliestLocal)
		began := time.Now()
		for minute := 0; minute < 60; minute += 10 {
			fault := objectstore.Refuse()
			if minute >= 30 {
				fault = objectstore.Stall()
			}
			s.bucket.SetRules(objectstore.Rule{When: objectstore.Always(), Then: fault})
			started := time.Now()
			some := s.produceTimed("events", 300+20*minute, 200)
			sent = append(sent, some...)
			for records := range chunks(now(numbered("short", 0, 300+5*minute, 50, 500)), 7) {
				s.produce(client, records...)
			}
			expectSame(t, s.read("events", 0, int64(300+20*minute)), some)
			if took := time.Since(started); took > 2*time.Second {
				t.Errorf("in minute %d hot traffic took %v", minute, took)
			}
			if minute > 0 {
				started = time.Now()
				if err := s.readCold("events", 0); !errors.Is(err, kerr.KafkaStorageError) || !kerr.IsRetriable(err) {
					t.Errorf("in minute %d a cold read is answered with %v", minute, err)
				}
				if took := time.Since(started); took > 30*time.Second {
					t.Errorf("in minute %d a cold read heard of it after %v", minute, took)
				}
			}
			s.sleep(time.Until(began.Add(time.Duration(minute+10) * time.Minute)))
			waited := time.Since(began).Seconds()
			if lag := s.gauge("firn_tier_upload_lag_seconds", "events"); lag < waited-65 || lag > waited+65 {
				t.Errorf("after %v s the lag is %v s", waited, lag)
			}
		}
		if now := s.offsetAt("events", earliestLocal); now != local {
			t.Errorf("local records up to %d went without being in the bucket", now)
		}
		if bytes := s.gauge("kafka_server_brokertopicmetrics_remotecopylagbytes", "events"); bytes < 100_000 {
			t.Errorf("the lag is %v bytes", bytes)
		}
		if start := s.offsetAt("short", earliest); start <= remoteEnd+1 || start < 400 {
			t.Errorf("of the topic that keeps ten minutes the log starts at %d, the bucket had it up to %d", start, remoteEnd)
		}
		s.bucket.SetRules()
		s.sink("events")
		if lag := s.gauge("kafka_server_brokertopicmetrics_remotecopylagbytes", "events"); lag != 0 {
			t.Errorf("the lag is %v bytes when everything has sunk", lag)
		}
		expectSame(t, s.read("events", 0, 0), sent)
		s.read("short", 0, s.offsetAt("short", earliest))
	})
}

// readCold consumes from an offset that only the bucket has, until there are records or the consumer is told why not.
func (s *scenario) readCold(topic string, offset int64) error {
	s.t.Helper()
	client := s.client(kgo.KeepRetryableFetchErrors(), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.context(), time.Minute)
	defer cancel()
	for _, failed := range client.PollFetches(ctx).Errors() {
		return failed.Err
	}
	return nil
}

// TestAnOutageThatFillsTheDisk: the reserve refuses producers before the disk is full. When the bucket is back, the disk
// empties into it and they go on, all without a hand.
func TestAnOutageThatFillsTheDisk(t *testing.T) {
	run(t, 61, nil, func(s *scenario) {
		s.createTopic("events", 1, tiered(nil))
		sent := s.produceTimed("events", 0, 300)
		s.sink("events")
		s.bucket.SetRules(objectstore.Rule{When: objectstore.Always(), Then: objectstore.Refuse()})
		s.disks.files.SetFreeBytes(400_000) // of which 65 536 are the reserve
		producer := s.client()
		var err error
		for next := 300; err == nil && next < 20_000; next += 7 {
			some := numbered("events", 0, next, 7, 100)
			for i, record := range some {
				record.Timestamp = time.UnixMilli(900_000_000_000 + 1000*int64(next+i))
			}
			ctx, cancel := context.WithTimeout(s.context(), 30*time.Second)
			if err = producer.ProduceSync(ctx, some...).FirstErr(); err == nil {
				sent = append(sent, some...)
			}
			cancel()
			s.sleep(100 * time.Millisecond)
		}
		if !errors.Is(err, context.DeadlineExceeded) { // the client has tried again and again until then
			t.Fatalf("a full disk is told of with %v", err)
		}
		if len(sent) < 1000 {
			t.Errorf("only %d records found room, then %v", len(sent), err)
		}
		if refused := s.total("firn_storage_reserve_refusals_total"); refused == 0 {
			t.Error("no producer was refused because of the reserve")
		}
		local := s.offsetAt("events", earliestLocal)
		expectSame(t, s.read("events", 0, local), sent[local:])
		s.sleep(time.Hour)
		s.bucket.SetRules()
		s.sink("events")
		s.sleep(time.Minute) // the files go a minute after their segments
		sent = append(sent, s.produceTimed("events", len(sent), 300)...)
		s.sink("events")
		expectSame(t, s.read("events", 0, 0), sent)
	})
}

// total reads a metric without labels.
func (s *scenario) total(name string) float64 {
	s.t.Helper()
	_, page := s.ask("GET", "/metrics")
	for line := range strings.Lines(page) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return try(strconv.ParseFloat(strings.TrimSpace(value), 64)).orFail(s.t)
		}
	}
	s.t.Fatalf("there is no %s", name)
	return 0
}
