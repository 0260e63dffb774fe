package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/admin/view"
)

// varied are records as different as a client can send them: null and empty keys and values, headers, one byte to
// nearly a megabyte, times in no order.
func varied(topic string, partition int32, random *rand.Rand) []*kgo.Record {
	noise := func(size int) []byte {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		return data
	}
	records := []*kgo.Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("key"), Value: nil},
		{Key: nil, Value: []byte("v")},
		{Key: noise(1), Value: noise(1)},
		{Key: []byte("headers"), Value: []byte("x"), Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "empty", Value: []byte{}},
			{Key: "null", Value: nil}, {Key: "", Value: noise(100)}, {Key: "ünïcödé ❄", Value: []byte("❄")},
		}},
		{Key: noise(1000), Value: noise(70_000)},
		{Key: []byte("zeros"), Value: make([]byte, 900_000)},
		{Key: []byte("large"), Value: noise(1_048_588 - 200)}, // max.message.bytes less the batch around it
	}
	for range 50 {
		records = append(records, &kgo.Record{Key: noise(random.IntN(20)), Value: bytes.Repeat(noise(1+random.IntN(9)), 50)})
	}
	for i, record := range records {
		record.Topic, record.Partition = topic, partition
		record.Timestamp = time.UnixMilli(1_700_000_000_000 + int64(i*7919%1000))
	}
	return records
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func TestRecordsComeBackAsTheyWereSent(t *testing.T) {
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			run(t, 20, []string{"log.message.timestamp.after.max.ms=9223372036854775807"}, func(s *scenario) {
				settings := map[string]string{"retention.ms": "-1", "internal.segment.bytes": "1500000"}
				s.createTopic("batches", 1, settings)
				s.createTopic("singles", 1, settings)
				batches, singles := varied("batches", 0, s.random), varied("singles", 0, s.random)
				producer := s.client(kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(1_048_588))
				s.produce(producer, batches...)
				for _, record := range singles {
					s.produce(producer, record)
				}
				expectSame(t, s.read("batches", 0, 0), batches)
				expectSame(t, s.read("singles", 0, 0), singles)
				expectSame(t, s.read("singles", 0, 33, kgo.DisableFetchSessions()), singles[33:])
				s.crash(loseSome)
				expectSame(t, s.read("batches", 0, 0, kgo.FetchIsolationLevel(kgo.ReadCommitted())), batches)
				s.expectTimes("singles", singles)
			})
		})
	}
}

// expectTimes checks the look-up of offsets by time against records that begin at offset 0.
func (s *scenario) expectTimes(topic string, records []*kgo.Record) {
	s.t.Helper()
	admin := s.admin()
	newest := 0
	for i, record := range records {
		if record.Timestamp.After(records[newest].Timestamp) {
			newest = i
		}
		at := record.Timestamp.UnixMilli()
		first := 0
		for records[first].Timestamp.UnixMilli() < at {
			first++
		}
		found := try(admin.ListOffsetsAfterMilli(s.context(), at, topic)).orFail(s.t)
		if got, _ := found.Lookup(topic, 0); got.Err != nil || got.Offset != int64(first) {
			s.t.Fatalf("time %d is at offset %d (%v), want %d", at, got.Offset, got.Err, first)
		}
	}
	found := try(admin.ListMaxTimestampOffsets(s.context(), topic)).orFail(s.t)
	if got, _ := found.Lookup(topic, 0); got.Offset != int64(newest) {
		s.t.Errorf("the newest record is at offset %d, want %d", got.Offset, newest)
	}
	after := try(admin.ListOffsetsAfterMilli(s.context(), records[newest].Timestamp.UnixMilli()+1, topic)).orFail(s.t)
	// kadm answers with the end where the broker says that there is none.
	if got, _ := after.Lookup(topic, 0); got.Offset != int64(len(records)) {
		s.t.Errorf("a time after all records is at offset %d", got.Offset)
	}
}

func TestTenIdleMinutesOfLongPolls(t *testing.T) {
	run(t, 21, nil, func(s *scenario) {
		s.createTopic("events", 3, nil)
		var fetches atomic.Int64
		consumer := s.client(
			kgo.ConsumeTopics("events"), kgo.FetchMaxWait(5*time.Second),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.WithHooks(onWrite(func(key int16) {
				if key == int16(kmsg.Fetch) {
					fetches.Add(1)
				}
			})),
		)
		s.sleep(10 * time.Minute)
		if n := fetches.Load(); n < 100 || n > 130 {
			t.Errorf("%d fetch requests in ten minutes of five seconds each", n)
		}
		// One record wakes the poll that waits for it: no time passes.
		sent := numbered("events", 1, 0, 1, 100)
		producer := s.client()
		s.produce(producer, numbered("events", 0, 0, 1, 1)...) // its metadata is loaded
		for range consumer.PollFetches(s.context()).Records() {
		}
		began := time.Now()
		s.produce(producer, sent...)
		got := consumer.PollFetches(s.context()).Records()
		if took := time.Since(began); len(got) != 1 || took > 20*time.Millisecond {
			t.Errorf("%d records after %v", len(got), took)
		}
	})
}

// onWrite is told of each request that a client sends.
type onWrite func(key int16)

func (o onWrite) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	o(key)
}

func TestFetchSessionsFollowTopicsThatComeAndGo(t *testing.T) {
	run(t, 22, nil, func(s *scenario) {
		topics := []string{"t0", "t1", "t2", "t3", "t4"}
		for _, topic := range topics {
			s.createTopic(topic, 4, nil)
		}
		consumer := s.client(kgo.ConsumeTopics("t0"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		producer := s.client()
		expect := func(topic string, first int) {
			t.Helper()
			for partition := range int32(4) {
				s.produce(producer, numbered(topic, partition, first, 1, 10)...)
			}
			seen := map[int32]bool{}
			for len(seen) < 4 {
				for _, record := range consumer.PollFetches(s.context()).Records() {
					if record.Topic != topic || seen[record.Partition] {
						t.Fatalf("unexpected record of %s-%d", record.Topic, record.Partition)
					}
					seen[record.Partition] = true
				}
			}
		}
		expect("t0", 0)
		consumer.AddConsumeTopics("t1", "t2")
		expect("t1", 0)
		expect("t2", 0)
		consumer.PurgeTopicsFromConsuming("t0")
		expect("t1", 1)
		s.restart() // sessions are forgotten, and made anew
		expect("t2", 1)
		consumer.AddConsumeTopics("t3")
		s.sleep(time.Minute)
		expect("t3", 0)
	})
}

func TestFE13ATopicThatWasDeletedAndMadeAnewIsAnotherOne(t *testing.T) {
	run(t, 23, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		producer := s.client()
		s.produce(producer, numbered("events", 0, 0, 10, 10)...)
		old := s.topicID("events")
		try(s.admin().DeleteTopic(s.context(), "events")).orFail(t)
		s.createTopic("events", 1, nil)
		fresh := numbered("events", 0, 100, 5, 10)
		s.produce(s.client(), fresh...)
		if err := s.fetchOnce(old, 0); !errors.Is(err, kerr.UnknownTopicID) && !errors.Is(err, kerr.InconsistentTopicID) {
			t.Errorf("the old id was answered with %v", err)
		}
		must(t, s.fetchOnce(s.topicID("events"), 0))
		expectSame(t, s.read("events", 0, 0), fresh)
		s.restart()
		expectSame(t, s.read("events", 0, 0), fresh)
		s.sleep(2 * time.Minute) // file.delete.delay.ms
		if names := s.logFolders(); len(names) != 1 {
			t.Errorf("folders %v after the delay", names)
		}
	})
}

func (s *scenario) topicID(topic string) kadm.TopicID {
	s.t.Helper()
	return try(s.admin().ListTopics(s.context(), topic)).orFail(s.t)[topic].ID
}

// fetchOnce fetches partition 0 of a topic outside a session and returns the partition's error.
func (s *scenario) fetchOnce(id kadm.TopicID, offset int64) error {
	s.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = 10, 1<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.TopicID = id
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes = offset, 1<<20
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	client := s.client()
	defer client.Close()
	broker := client.Broker(1)
	res := try(broker.Request(s.context(), req)).orFail(s.t).(*kmsg.FetchResponse)
	must(s.t, kerr.ErrorForCode(res.ErrorCode))
	return kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode)
}

func TestFE02FetchesAtAndBeyondTheEnd(t *testing.T) {
	run(t, 24, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		s.produce(s.client(), numbered("events", 0, 0, 10, 10)...)
		id := s.topicID("events")
		for offset, want := range map[int64]error{
			0: nil, 9: nil, 10: nil, 11: kerr.OffsetOutOfRange, 1_000_000: kerr.OffsetOutOfRange, -1: kerr.OffsetOutOfRange,
		} {
			if err := s.fetchOnce(id, offset); !errors.Is(err, want) {
				t.Errorf("a fetch at %d was answered with %v, want %v", offset, err, want)
			}
		}
	})
}

// TestSeveralProducersOfOnePartition checks that what several clients send at once, each with its own codec and acks,
// is there in the order of each of them.
func TestSeveralProducersOfOnePartition(t *testing.T) {
	run(t, 25, nil, func(s *scenario) {
		s.createTopic("events", 1, map[string]string{"internal.segment.bytes": "10000"})
		names := []string{"none", "gzip", "snappy", "lz4", "zstd", "acks 1", "acks 0"}
		const each = 200
		done := make(chan error, len(names))
		for _, name := range names {
			options := []kgo.Opt{kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(9000)}
			if codec, ok := codecs[name]; ok {
				options = append(options, kgo.ProducerBatchCompression(codec))
			}
			switch name {
			case "acks 1":
				options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
			case "acks 0":
				options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
			}
			client := s.client(options...)
			go func() {
				for i := range each {
					client.Produce(context.Background(), &kgo.Record{
						Topic: "events", Key: []byte(name), Value: fmt.Appendf(nil, "%d", i),
					}, func(_ *kgo.Record, err error) {
						if err != nil {
							t.Errorf("%s: %v", name, err)
						}
					})
					time.Sleep(time.Millisecond)
				}
				done <- client.Flush(s.context())
			}()
		}
		for range names {
			must(t, <-done)
		}
		s.sleep(time.Second)
		next := map[string]int{}
		for _, record := range s.read("events", 0, 0) {
			name := string(record.Key)
			if want := fmt.Sprint(next[name]); string(record.Value) != want {
				t.Fatalf("offset %d has record %s of %s, want %s", record.Offset, record.Value, name, want)
			}
			next[name]++
		}
		for _, name := range names {
			if next[name] != each {
				t.Errorf("%d records of %s, want %d", next[name], name, each)
			}
		}
	})
}

func TestTheHTTPSideOfANode(t *testing.T) {
	run(t, 26, nil, func(s *scenario) {
		s.createTopic("events", 1, nil)
		s.produce(s.client(), numbered("events", 0, 0, 10, 10)...)
		for path, want := range map[string]string{
			"/healthz": "", "/readyz": "", "/metrics": "kafka_server_", view.PathTier: `"partitions"`,
		} {
			status, body := s.get(path)
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s is answered with %d and %.200s", path, status, body)
			}
		}
		if status, _ := s.get("/debug/pprof/"); status != http.StatusNotFound {
			t.Errorf("profiles are answered with %d although nobody asked for them", status)
		}
		status, body := s.get(view.PathTier + "/nothing")
		var answer view.Error
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusNotFound || answer.Error == "" {
			t.Errorf("an unknown topic is answered with %d, %s, %v", status, body, err)
		}
	})
}

// get does a GET at the node's HTTP listener.
func (s *scenario) get(path string) (status int, body string) {
	s.t.Helper()
	return s.ask(http.MethodGet, path)
}

func (s *scenario) post(path string) (status int, body string) {
	s.t.Helper()
	return s.ask(http.MethodPost, path)
}

// ask sends a request to the HTTP listener.
func (s *scenario) ask(method, path string) (status int, body string) {
	s.t.Helper()
	return s.send(method, path, "")
}

// send is ask with something to say.
func (s *scenario) send(method, path, document string) (status int, body string) {
	s.t.Helper()
	host := s.network.Host(clientHost)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return host.Dial(ctx, address)
	}}
	defer transport.CloseIdleConnections()
	req := try(http.NewRequestWithContext(s.context(), method, "http://"+httpAddress+path,
		strings.NewReader(document))).orFail(s.t)
	res := try(transport.RoundTrip(req)).orFail(s.t)
	defer res.Body.Close()
	return res.StatusCode, string(try(io.ReadAll(res.Body)).orFail(s.t))
}
