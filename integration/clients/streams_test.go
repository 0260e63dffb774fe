//go:build integration

package clients

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// TestKafkaStreamsCountsExactlyOnce has an application of Kafka Streams count words, exactly once, while its process
// and the broker are killed again and again in the middle of it: each word's counts are 1, 2, 3 and so on up to how
// often it was written, each told once. FIRN_STREAMS_KILLS is how often each of the two is killed.
func TestKafkaStreamsCountsExactlyOnce(t *testing.T) {
	t.Parallel()
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("FIRN_STREAMS_KILLS"), "2"))
	if err != nil {
		t.Fatal(err)
	}
	w := startWordCount(t)
	w.expectProgress()
	for range kills {
		w.application.Kill()
		w.startApplication()
		w.expectProgress()
		w.killBroker()
		w.expectProgress()
	}
	w.stop()
	<-w.stopped
	for w.counted < w.words.Load() {
		w.read()
	}
	w.application.End()
	t.Logf("%d words were counted over %d kills of the application and the broker each", w.counted, kills)
	for word, times := range w.written {
		if w.counts[word] != times {
			t.Errorf("%s was counted %d times, and written %d times", word, w.counts[word], times)
		}
	}
}

const input, output = "lines", "counts"

// wordCount is the application, the broker that it needs, and who writes its input and reads its output.
type wordCount struct {
	t           *testing.T
	node        *process.Node
	folder      string
	application *process.Session

	stop    context.CancelFunc // of the writer
	stopped chan struct{}
	words   atomic.Int64     // that were written
	written map[string]int64 // how often each; to be read when the writer has stopped

	reader  *kgo.Client
	counts  map[string]int64 // the last one of each word
	counted int64
}

func startWordCount(t *testing.T) *wordCount {
	t.Helper()
	w := &wordCount{
		t: t, node: serveGroups(t), folder: t.TempDir(), stopped: make(chan struct{}),
		written: map[string]int64{}, counts: map[string]int64{},
	}
	w.node.CreateTopic(input, 2)
	w.node.CreateTopic(output, 2)
	w.reader = w.node.Client(
		kgo.ConsumeTopics(output), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(50*time.Millisecond), retrySoon(),
	)
	writer := w.node.Client(kgo.DefaultProduceTopic(input), kgo.MetadataMinAge(50*time.Millisecond), retrySoon())
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	t.Cleanup(func() {
		stop()
		writer.Close() // ends what still waits for an answer
		<-w.stopped
	})
	go w.write(ctx, writer)
	w.startApplication()
	return w
}

func retrySoon() kgo.Opt {
	return kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })
}

// write appends lines of words, of which some come more often than others, for as long as it may.
func (w *wordCount) write(ctx context.Context, client *kgo.Client) {
	defer close(w.stopped)
	const inLine, pause = 10, 5 * time.Millisecond
	random := rand.New(rand.NewPCG(9, 10))
	now := time.NewTicker(pause)
	defer now.Stop()
	for ctx.Err() == nil {
		line := make([]string, inLine)
		for i := range line {
			line[i] = fmt.Sprintf("word%d", random.IntN(1+random.IntN(100)))
			w.written[line[i]]++
		}
		if err := client.ProduceSync(context.Background(), kgo.StringRecord(strings.Join(line, " "))).FirstErr(); err != nil {
			if !errors.Is(err, kgo.ErrClientClosed) {
				w.t.Errorf("a line was not written: %v", err)
			}
			return
		}
		w.words.Add(inLine)
		select {
		case <-now.C:
		case <-ctx.Done():
		}
	}
}

func (w *wordCount) startApplication() {
	w.t.Helper()
	command := java(w.t, "256m", "WordCount", w.node.Kafka, input, output, w.folder)
	w.application = command.Start(w.t, func(context.Context, []byte) {})
}

// killBroker ends the broker in the midst of what it does, and starts it again.
func (w *wordCount) killBroker() {
	w.t.Helper()
	if os.Getenv("FIRN_ORACLE") == "1" {
		return
	}
	w.node.Kill()
	w.node = process.Serve(w.t, process.Options{
		Dir: w.node.Dir, Set: append(groupSettings(), "listeners=PLAINTEXT://"+w.node.Kafka), // where clients look for it
	})
}

// expectProgress waits until words are counted that have not been written yet.
func (w *wordCount) expectProgress() {
	w.t.Helper()
	for written := w.words.Load(); w.counted <= written; {
		w.read()
	}
}

// read takes what is committed of the output: the count of a word is one more than its last one.
func (w *wordCount) read() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	fetches := w.reader.PollFetches(ctx)
	if err := ctx.Err(); err != nil {
		w.t.Fatalf("no more words are counted after %d of %d: %v", w.counted, w.words.Load(), err)
	}
	for _, r := range fetches.Records() {
		count := int64(binary.BigEndian.Uint64(r.Value))
		if want := w.counts[string(r.Key)] + 1; count != want {
			w.t.Fatalf("%s is counted as %d at offset %d of partition %d, want %d", r.Key, count, r.Offset, r.Partition, want)
		}
		w.counts[string(r.Key)] = count
		w.counted++
	}
}
