package bench

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	node "github.com/firnlog/firn"
	"github.com/firnlog/firn/internal/latency"
	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic = "benched"
	// oneWay is how far the broker is away, so that an answer takes twice as long and nothing else takes any time.
	oneWay    = 50 * time.Millisecond
	roundTrip = 2 * oneWay
)

// cluster is a real node in fake time, some way off.
type cluster struct {
	t     *testing.T
	hosts *network.Memory
}

// inBubble runs a test against a node with a topic of two partitions.
func inBubble(t *testing.T, settings map[string]*string, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := node.LoadConfig(node.Sources{Set: []string{
			"listeners=PLAINTEXT://broker:9092", "firn.http.listener=broker:9644", "firn.data.dir=data",
			"firn.log.dirs.reserve.bytes=0",
		}})
		if err != nil {
			t.Fatal(err)
		}
		c := &cluster{t: t, hosts: network.NewMemory()}
		running, err := node.Start(t.Context(), cfg, node.Dependencies{
			FS: vfs.NewMem(), PebbleFS: pebblevfs.NewMem(), Network: c.hosts.Host("broker"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := running.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		client := c.client()
		if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 2, 1, settings, topic); err != nil {
			t.Fatal(err)
		}
		c.hosts.Delay("broker", "client", oneWay)
		test(t, c)
	})
}

// client is closed before the node is stopped.
func (c *cluster) client(options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	host := c.hosts.Host("client")
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers("broker:9092"), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0),
		kgo.MaxProduceRequestsInflightPerBroker(100),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) }),
	}, options...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// producer knows the topic, and has a connection: its first record takes no longer than the others.
func (c *cluster) producer(options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client := c.client(append([]kgo.Opt{kgo.RecordPartitioner(kgo.RoundRobinPartitioner())}, options...)...)
	for range 2 {
		if err := client.ProduceSync(c.t.Context(), &kgo.Record{Topic: topic}).FirstErr(); err != nil {
			c.t.Fatal(err)
		}
	}
	return client
}

// records is how many the topic holds.
func (c *cluster) records() (total int64) {
	c.t.Helper()
	ends, err := kadm.NewClient(c.client()).ListEndOffsets(c.t.Context(), topic)
	if err != nil {
		c.t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) { total += end.Offset })
	return total
}

func load(clients ...*kgo.Client) Load {
	return Load{Clients: clients, Topic: topic, Values: [][]byte{make([]byte, 100), make([]byte, 100)}, Timeout: 30 * time.Second}
}

// about tells whether a histogram's value, which has three digits, is so long.
func about(got, want time.Duration) bool { return got >= want*998/1000 && got <= want*1002/1000 }

func TestRecordsAreSentWhenTheyAreDueByWhicheverClient(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l := load(c.producer(), c.producer(), c.producer())
		l.PerSecond, l.Duration, l.WarmUp = 100, 2*time.Second, time.Second
		l.Keys = [][]byte{[]byte("four")}
		before, began := c.records(), time.Now()
		got, err := l.Run(t.Context(), t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Records != 200 || got.Bytes != 200*104 || got.Failed+got.Unknown+got.Unsent != 0 {
			t.Errorf("%+v", got)
		}
		// The last is due 10 ms before the end, and its answer takes a round trip; so does the last of the warm-up.
		if want := 1990*time.Millisecond + roundTrip; got.Elapsed != want {
			t.Errorf("it took %v, want %v", got.Elapsed, want)
		}
		if took, want := time.Since(began), 2980*time.Millisecond+2*roundTrip; took != want {
			t.Errorf("with its warm-up it took %v, want %v", took, want)
		}
		if got.Latency.Count() != 200 || !about(got.Latency.Quantile(0), roundTrip) || !about(got.Latency.Max(), roundTrip) {
			t.Errorf("latency is %v to %v, want %v", got.Latency.Quantile(0), got.Latency.Max(), roundTrip)
		}
		if got.StartDelay.Count() != 200 || got.StartDelay.Max() > 2*time.Microsecond {
			t.Errorf("records are given to clients up to %v late", got.StartDelay.Max())
		}
		if added := c.records() - before; added != 300 {
			t.Errorf("the topic got %d records, want those of the warm-up, too", added)
		}
	})
}

// TestWaitingBehindASlowAnswerCounts: a client that takes one record at a time falls further behind with each. What it
// would say itself, a round trip for each, is not what the records had to wait.
func TestWaitingBehindASlowAnswerCounts(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l := load(c.producer(kgo.MaxBufferedRecords(1)))
		l.PerSecond, l.Records = 100, 20
		got, err := l.Run(t.Context(), t.Context())
		if err != nil || got.Records != 20 {
			t.Fatalf("%+v, error %v", got, err)
		}
		// Record i is due at i·10 ms, acknowledged at (i+1) round trips, and given away once i−1 was let in.
		if want := 20*roundTrip - 190*time.Millisecond; !about(got.Latency.Max(), want) {
			t.Errorf("the last was acknowledged %v after it was due, want %v", got.Latency.Max(), want)
		}
		if want := 10*roundTrip - 90*time.Millisecond; !about(got.Latency.Quantile(0.5), want) {
			t.Errorf("the tenth was acknowledged %v after it was due, want %v", got.Latency.Quantile(0.5), want)
		}
		if want := 18*roundTrip - 190*time.Millisecond; !about(got.StartDelay.Max(), want) {
			t.Errorf("the last was sent %v after it was due, want %v", got.StartDelay.Max(), want)
		}
	})
}

func TestWhatCannotBeSentInTimeIsSaid(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l := load(c.producer(kgo.MaxBufferedRecords(1)))
		l.PerSecond, l.Duration = 100, time.Second
		got, err := l.Run(t.Context(), t.Context())
		// One goes out each round trip until the overrun has passed; the last is then waiting.
		if sent := int64((l.Duration+overrun)/roundTrip) + 2; err != nil || got.Records != sent || got.Unsent != 100-sent {
			t.Errorf("%d were acknowledged, %d not sent, error %v, want %d of 100", got.Records, got.Unsent, err, sent)
		}
	})
}

func TestAClosedLoopGoesAsFastAsItIsAnswered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l := load(c.producer(kgo.MaxBufferedRecords(1)), c.producer(kgo.MaxBufferedRecords(1)))
		l.Duration = time.Second
		got, err := l.Run(t.Context(), t.Context())
		if err != nil || got.Records < 20 || got.Records > 24 || got.Unsent != 0 || got.StartDelay.Count() != 0 {
			t.Errorf("%+v, error %v", got, err)
		}
		l.Duration, l.Records = 0, 7
		if got, err = l.Run(t.Context(), t.Context()); err != nil || got.Records != 7 || got.Latency.Count() != 7 {
			t.Errorf("%+v, error %v", got, err)
		}
	})
}

func TestAnInterruptLeavesWhatWasMeasured(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l := load(c.producer())
		l.PerSecond, l.Duration, l.WarmUp = 100, time.Hour, time.Second
		var seen []Progress
		l.Observe = func(p Progress) { seen = append(seen, p) }
		interrupt, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		got, err := l.Run(t.Context(), interrupt)
		if err != nil || got.Records < 235 || got.Records > 250 || got.Unsent+got.Unknown+got.Failed != 0 {
			t.Errorf("%+v, error %v", got, err)
		}
		want := []Progress{
			{WarmUp: true, Elapsed: time.Second, Records: 90, RecentBytes: 9000},
			{Elapsed: time.Second, Records: 90, RecentBytes: 9000},
			{Elapsed: 2 * time.Second, Records: 190, RecentBytes: 10000},
		}
		for i := range seen { // whether what arrives at the very moment is seen is left open
			if i < len(want) && seen[i].Records == want[i].Records+1 {
				want[i].Records++
				want[i].RecentBytes += 100
			}
		}
		if len(seen) != len(want) || !seen[0].WarmUp || seen[1].WarmUp {
			t.Fatalf("progress was %+v", seen)
		}
		for i := range seen {
			if seen[i].Elapsed != want[i].Elapsed || seen[i].Records != want[i].Records {
				t.Errorf("progress %d was %+v, want %+v", i, seen[i], want[i])
			}
		}
		interrupt, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if got, err = l.Run(t.Context(), interrupt); err != nil || got.Records != 0 || got.Latency.Count() != 0 {
			t.Errorf("interrupted in the warm-up: %+v, error %v", got, err)
		}
	})
}

func TestRefusedRecordsAreCountedAndTheFirstReasonKept(t *testing.T) {
	limit := "1000"
	inBubble(t, map[string]*string{"max.message.bytes": &limit}, func(t *testing.T, c *cluster) {
		l := load(c.producer())
		l.Values = [][]byte{make([]byte, 100), make([]byte, 2000)}
		l.PerSecond, l.Records = 10, 10
		got, err := l.Run(t.Context(), t.Context())
		if err != nil || got.Records != 5 || got.Failed != 5 || !errors.Is(got.FirstFailure, kerr.MessageTooLarge) {
			t.Errorf("%+v, error %v", got, err)
		}
	})
}

func TestAClusterThatDoesNotAnswerEndsTheRun(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l := load(c.producer())
		l.PerSecond, l.Duration, l.Timeout = 10, time.Hour, 5*time.Second
		l.Observe = func(p Progress) {
			if p.Elapsed == 2*time.Second {
				c.hosts.Partition("broker", "client")
			}
		}
		began := time.Now()
		got, err := l.Run(t.Context(), t.Context())
		if err == nil || !strings.Contains(err.Error(), "acknowledged nothing for 5s") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took < 7*time.Second || took > 9*time.Second {
			t.Errorf("it took %v", took)
		}
		if got.Records < 18 || got.Records > 20 || got.Unknown < 49 || got.Failed+got.Unsent != 0 {
			t.Errorf("%+v", got)
		}
		c.hosts.Heal("broker", "client")
	})
}

func TestAWaitForTheNextRecordIsNoStall(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l := load(c.producer())
		l.PerSecond, l.Records, l.Timeout = 0.1, 3, 5*time.Second
		got, err := l.Run(t.Context(), t.Context())
		if want := 20*time.Second + roundTrip; err != nil || got.Records != 3 || got.Elapsed != want {
			t.Errorf("%+v, error %v, want it to take %v", got, err, want)
		}
	})
}

// reader consumes both partitions from now on.
func (c *cluster) reader() *kgo.Client {
	end := kgo.NewOffset().At(c.records() / 2)
	return c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: end, 1: end}}))
}

func TestEndToEndEveryRecordIsReceivedAndTimed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		e := EndToEnd{Load: load(c.producer(), c.producer()), ID: 77}
		e.PerSecond, e.Duration, e.WarmUp = 100, 2*time.Second, time.Second
		e.Readers = []*kgo.Client{c.reader()}
		got, err := e.Run(t.Context(), t.Context())
		if err != nil || got.Received != 200 || got.Produced.Records != 200 || got.Lost+got.Duplicates != 0 ||
			got.Bytes != 200*100 || got.Latency.Count() != 200 {
			t.Fatalf("%+v, error %v", got, err)
		}
		// One way to the broker, and one to the reader, whose fetch is waiting there unless another came just before.
		if shortest := got.Latency.Quantile(0); !about(shortest, roundTrip) {
			t.Errorf("the shortest way takes %v, want %v", shortest, roundTrip)
		}
		if longest := got.Latency.Max(); longest > 2*roundTrip+oneWay {
			t.Errorf("the longest way takes %v", longest)
		}
	})
}

// TestALedgerKnowsWhatIsMissingAndWhatCameTwice: a cluster that loses records cannot be had, so that its answers are made
// up.
func TestALedgerKnowsWhatIsMissingAndWhatCameTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const run = 7
		book := newLedger(run, phase{schedule: latency.NewSchedule(time.Now(), 1), total: 200})
		receive := func(values ...[]byte) {
			var records []*kgo.Record
			for _, value := range values {
				records = append(records, &kgo.Record{Value: value})
			}
			book.take(kgo.Fetches{{Topics: []kgo.FetchTopic{{Partitions: []kgo.FetchPartition{{Records: records}}}}}}, time.Now())
		}
		stamped := func(id uint64, number int64) []byte {
			return append(appendStamp(nil, id, number), "the rest"...)
		}
		for _, number := range []int64{0, 1, 2, 64, 199} {
			book.acknowledged(number)
		}
		time.Sleep(2 * time.Second)
		receive(stamped(run, 1), stamped(run, 2), stamped(run, 2), stamped(run+1, 0), stamped(run, 200), []byte("{"), nil)
		receive(stamped(run, 3), stamped(run, 199), stamped(run, 1), make([]byte, 2*StampBytes))
		type counts struct{ received, lost, duplicates, bytes int64 }
		got := counts{book.count, book.missing, book.duplicates, book.bytes}
		want := counts{received: 4, lost: 2, duplicates: 2, bytes: 4 * int64(StampBytes+len("the rest"))}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
			t.Error(diff)
		}
		began := time.Now()
		if err := book.settle(t.Context(), 5*time.Second); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("waiting for two that are lost took %v, error %v", time.Since(began), err)
		}
		book.acknowledged(3) // its receipt was earlier
		receive(stamped(run, 0), stamped(run, 64))
		began = time.Now()
		if err := book.settle(t.Context(), 5*time.Second); err != nil || time.Since(began) != 0 || book.missing != 0 {
			t.Errorf("%d are missing, waiting for none took %v, error %v", book.missing, time.Since(began), err)
		}
	})
}
