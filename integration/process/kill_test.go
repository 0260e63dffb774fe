//go:build integration

package process

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// loader produces to one topic for as long as the test lasts, with acks=all, across the ends of nodes.
type loader struct {
	t       testing.TB
	topic   string
	client  *kgo.Client
	acked   atomic.Int64
	reached chan struct{} // gets a token with each acknowledgement, if nobody has taken the last one
	cut     atomic.Int64  // produce requests that were written and never answered, as their connection broke
	stop    context.CancelFunc
	done    chan struct{}
	sent    []*kgo.Record // to be read once done is closed
}

func startLoader(t testing.TB, node *Node, topic string, codec kgo.CompressionCodec) *loader {
	l := &loader{t: t, topic: topic, reached: make(chan struct{}, 1), done: make(chan struct{})}
	l.client = node.Client(
		kgo.WithHooks(l), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(500), kgo.ProducerBatchMaxBytes(20_000),
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.run(ctx)
	return l
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (l *loader) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, exchange kgo.BrokerE2E) {
	if key == int16(kmsg.Produce) && exchange.WriteErr == nil && exchange.ReadErr != nil {
		l.cut.Add(1)
	}
}

func (l *loader) run(ctx context.Context) {
	defer close(l.done)
	for i := 0; ctx.Err() == nil; i++ {
		record := &kgo.Record{Key: fmt.Appendf(nil, "%d", i%100), Value: fmt.Appendf(make([]byte, 300), " %s %d", l.topic, i)}
		l.sent = append(l.sent, record)
		l.client.Produce(context.Background(), record, func(record *kgo.Record, err error) { // waits while many are buffered
			if err != nil {
				l.t.Errorf("record %d of %s was not acknowledged: %v", i, l.topic, err)
				return
			}
			l.acked.Add(1)
			select {
			case l.reached <- struct{}{}:
			default:
			}
		})
	}
}

// waitFor waits until so many records have been acknowledged.
func (l *loader) waitFor(count int64) {
	l.t.Helper()
	timeout := time.After(patience)
	for l.acked.Load() < count {
		select {
		case <-l.reached:
		case <-timeout:
			l.t.Fatalf("%s: %d records are acknowledged, want %d", l.topic, l.acked.Load(), count)
		}
	}
}

// finish ends the load and waits until everything is acknowledged.
func (l *loader) finish() {
	l.t.Helper()
	l.stop()
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.client.Flush(ctx); err != nil {
		l.t.Fatal(err)
	}
}

// TestCR05NothingAcknowledgedIsLostByKilling kills a node with SIGKILL, again and again, while it takes in what a
// producer with acks=all sends: to a topic that stays local, and to one that sinks into the bucket. Nearly every kill
// must cut a request off, or it would test a quiet node.
func TestCR05NothingAcknowledgedIsLostByKilling(t *testing.T) {
	const kills, mostQuiet = 50, 5
	set := []string{"log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200"}
	node := Serve(t, Options{Set: set})
	set = append(set, "listeners=PLAINTEXT://"+node.Kafka) // clients come back to where they were
	node.CreateTopic("stays", 1, "segment.bytes=1048576")
	node.CreateTopic("sinks", 1, "internal.segment.bytes=300000", "remote.storage.enable=true", "local.retention.ms=1")
	loaders := []*loader{
		startLoader(t, node, "stays", kgo.ZstdCompression()), startLoader(t, node, "sinks", kgo.NoCompression()),
	}
	quiet := 0
	began := time.Now()
	for round := range int64(kills) {
		for _, l := range loaders {
			l.waitFor(l.acked.Load() + 300 + 11*round)
		}
		before := loaders[0].cut.Load() + loaders[1].cut.Load()
		node.Kill()
		node = Serve(t, Options{Dir: node.Dir, Set: set})
		for _, l := range loaders {
			l.waitFor(l.acked.Load() + 1) // after an answer the client knows what became of the requests before
		}
		if loaders[0].cut.Load()+loaders[1].cut.Load() == before {
			quiet++
		}
	}
	t.Logf("%d kills in %v, %d of them with no request in flight", kills, time.Since(began), quiet)
	if quiet > mostQuiet {
		t.Errorf("%d kills found no request in flight", quiet)
	}
	for _, l := range loaders {
		l.finish()
		expectAll(t, node, l)
	}
	if objects := len(tierObjects(t, node, "sinks").Entries); objects < 10 {
		t.Errorf("only %d objects", objects)
	}
	node.Stop()
	for _, folder := range []string{"log", "bucket"} {
		Command{Path: Firn(t), Args: []string{"log", "verify", filepath.Join(node.Dir, folder)}}.Output(t)
	}
	if left, err := filepath.Glob(filepath.Join(node.Dir, "log", "*-stray")); err != nil || len(left) != 0 {
		t.Errorf("folders %v were put aside: %v", left, err)
	}
}

// expectAll reads a topic and compares it with what was sent: each record once, in order, at the offset that was
// acknowledged.
func expectAll(t *testing.T, node *Node, l *loader) {
	t.Helper()
	consumer := node.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: {0: kgo.NewOffset().At(0)}}))
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for next := 0; next < len(l.sent); {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, record := range fetches.Records() {
			want := l.sent[next]
			if record.Offset != int64(next) || record.Offset != want.Offset || string(record.Value) != string(want.Value) {
				t.Fatalf("%s: after %d records comes offset %d with %.80q, want %.80q acknowledged at %d",
					l.topic, next, record.Offset, record.Value, want.Value, want.Offset)
			}
			if next++; next == len(l.sent) {
				break
			}
		}
	}
	t.Logf("%s: %d records", l.topic, len(l.sent))
}
