//go:build linux

package replay

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/firnlog/firn"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loadEvents(t testing.TB) Events {
	t.Helper()
	events, err := LoadEvents("../../../cmd/firn/demo/data/flights-2013-01.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// broker runs a node in this process until the test ends and returns where it serves, and a client of it.
func broker(t *testing.T) (string, *kgo.Client) {
	t.Helper()
	cfg, err := firn.LoadConfig(firn.Sources{
		DataDir: t.TempDir(),
		Set:     []string{"listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0", "firn.log.flush.policy=os"},
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := firn.Start(t.Context(), cfg, firn.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return node.Addr(), client
}

func create(t *testing.T, client *kgo.Client, topic string, partitions int32) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func (e Events) mustEncode(t testing.TB, shape Shape) Batch {
	t.Helper()
	batch, err := e.Encode(shape, time.Now().UnixMilli(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func TestBatchesHaveTheShapeThatIsAskedFor(t *testing.T) {
	events := loadEvents(t)
	for _, codec := range []record.Codec{record.None, record.LZ4, record.Zstd} {
		for _, size := range []int{16 << 10, 128 << 10, 1 << 20} {
			for _, value := range []int{100, 200, 1 << 10, 10 << 10} {
				shape := Shape{RecordBytes: value, RequestBytes: size, Codec: codec}
				batch := events.mustEncode(t, shape)
				checked, _, err := record.NewValidator().Validate(record.Batch(batch.Data), record.AnyOptions())
				if err != nil {
					t.Fatalf("%+v: %v", shape, err)
				}
				if got := checked.Count(); int64(got) != batch.Records || checked.Codec() != codec {
					t.Errorf("%+v: %d records with %v, want %d", shape, got, checked.Codec(), batch.Records)
				}
				if got := len(batch.Data); got > size || got < size*5/8 {
					t.Errorf("%+v: the batch has %d bytes", shape, got)
				}
				ratio := float64(batch.Uncompressed) / float64(len(batch.Data))
				if codec != record.None && (ratio < 1.8 || ratio > 5.5) {
					t.Errorf("%+v: compressed %.2f times, unlike what people send", shape, ratio)
				}
				t.Logf("%+v: %.2f", shape, ratio)
			}
		}
	}
	if _, err := events.Encode(Shape{RecordBytes: 10 << 10, RequestBytes: 1 << 10}, 0, 1); err == nil {
		t.Error("a request smaller than its record is not refused")
	}
}

func TestWhatIsReplayedArrivesOnceAndInFull(t *testing.T) {
	address, client := broker(t)
	events := loadEvents(t)
	for name, p := range map[string]Produce{
		"large": {Partitions: 1, Acks: AcksLeader, Connections: 1, InFlight: 4, Requests: 13},
		"small": {Partitions: 6, Acks: AcksAll, Connections: 3, InFlight: 5, Requests: 301},
		"open":  {Partitions: 2, Acks: AcksLeader, Connections: 4, InFlight: 5, Requests: 50, PerSecond: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			create(t, client, name, int32(p.Partitions))
			p.Address, p.Topic = address, name
			p.Batch = events.mustEncode(t, Shape{RecordBytes: 1 << 10, RequestBytes: 16 << 10, Codec: record.LZ4})
			began := time.Now()
			produced, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if produced.Requests != p.Requests || produced.Latency.Count() != p.Requests {
				t.Errorf("%d requests and %d latencies of %d", produced.Requests, produced.Latency.Count(), p.Requests)
			}
			if least := time.Duration(p.PerSecond/1000*49) * time.Millisecond; time.Since(began) < least {
				t.Errorf("%d requests took %v, ahead of their times", p.Requests, time.Since(began))
			}
			ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			total := int64(0)
			ends.Each(func(end kadm.ListedOffset) { total += end.Offset })
			if want := p.Requests * p.Batch.Records; total != want {
				t.Errorf("%d records have arrived of %d", total, want)
			}
		})
	}
}

func TestAnErrorOfTheBrokerEndsTheRun(t *testing.T) {
	address, _ := broker(t)
	batch := loadEvents(t).mustEncode(t, Shape{RecordBytes: 100, RequestBytes: 1 << 10})
	_, err := Produce{
		Address: address, Topic: "nowhere", Partitions: 1, Acks: AcksLeader, Batch: batch, Connections: 1, InFlight: 2,
		Requests: 1000,
	}.Run(t.Context())
	if !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("produce ended with %v", err)
	}
	_, err = Fetch{
		Address: address, Topic: "nowhere", Consumers: 1, Batch: batch, Batches: 1, MaxBytes: 1 << 20, Bytes: 1,
	}.Run(t.Context())
	if !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("fetch ended with %v", err)
	}
	if err := ProduceAll(t.Context(), address, []string{"nowhere"}, 1, batch.Data); !errors.Is(err,
		kafka.UnknownTopicOrPartition) {
		t.Errorf("produce to all ended with %v", err)
	}
}

func TestFetchReadsEveryBatchAndRandomOffsets(t *testing.T) {
	address, client := broker(t)
	create(t, client, "t", 2)
	batch := loadEvents(t).mustEncode(t, Shape{RecordBytes: 1 << 10, RequestBytes: 128 << 10})
	const batches = 20
	if err := ProduceAll(t.Context(), address, []string{"t"}, 2, batch.Data); err != nil {
		t.Fatal(err)
	}
	if _, err := (Produce{
		Address: address, Topic: "t", Partitions: 2, Acks: AcksLeader, Batch: batch, Connections: 2, InFlight: 4,
		Requests: 2*batches - 2,
	}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := int64(batches * len(batch.Data))
	fetch := Fetch{
		Address: address, Topic: "t", Consumers: 2, Batch: batch, Batches: batches, MaxBytes: 1 << 20, Bytes: 3 * all,
	}
	fetched, err := fetch.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if fetched.Bytes < 6*all || fetched.Bytes > 6*all+4<<20 {
		t.Errorf("%d bytes were read, want %d", fetched.Bytes, 6*all)
	}
	fetch.Random, fetch.MaxBytes = rand.New(rand.NewPCG(1, 2)), 16<<10
	if fetched, err = fetch.Run(t.Context()); err != nil || fetched.Latency.Count() < 6*batches {
		t.Errorf("%d random fetches: %v", fetched.Latency.Count(), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	fetch.Bytes = 0
	if fetched, err = fetch.Run(ctx); err != nil || fetched.Bytes == 0 {
		t.Errorf("%d bytes until the end of the time: %v", fetched.Bytes, err)
	}
}

func TestEndToEndSeesEachRequestArriveAfterItWasDue(t *testing.T) {
	address, client := broker(t)
	create(t, client, "t", 4)
	p := Produce{
		Address: address, Topic: "t", Partitions: 4, Acks: AcksLeader, Connections: 2, InFlight: 5, Requests: 101,
		PerSecond: 500, Batch: loadEvents(t).mustEncode(t, Shape{RecordBytes: 1 << 10, RequestBytes: 16 << 10}),
	}
	produced, arrived, err := p.EndToEnd(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if produced.Requests != p.Requests || arrived.Count() != p.Requests {
		t.Errorf("%d requests were sent and %d have arrived of %d", produced.Requests, arrived.Count(), p.Requests)
	}
	if fastest := arrived.Quantile(0); fastest < 10*time.Microsecond {
		t.Errorf("a request was there %v after it was due", fastest)
	}
}
