//go:build integration

package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// patience ends what hangs; nothing here takes as long.
const patience = 2 * time.Minute

// peer is a client, as it is used here: it writes to partition 0 of topics, and reads that partition to its end.
type peer interface {
	produce(t *testing.T, topics []written)
	// consume reads from each start.
	consume(t *testing.T, starts []start) [][]record
}

// written is what a client writes to one topic.
type written struct {
	name    string
	codec   feature
	records []record
}

// start is where reading begins: at an offset, or at the first record that is not older than a time.
type start struct {
	topic string
	kind  string // "offset" or "time"
	at    int64
}

// maxMessageBytes is the limit of every client.
const maxMessageBytes = 12_000_000

// franz is franz-go.
type franz struct{ node *process.Node }

var franzCodecs = map[feature]kgo.CompressionCodec{
	plain: kgo.NoCompression(), gzip: kgo.GzipCompression(), snappy: kgo.SnappyCompression(), lz4: kgo.Lz4Compression(),
	zstd: kgo.ZstdCompression(),
}

func (f franz) produce(t *testing.T, topics []written) {
	t.Helper()
	for _, topic := range topics {
		f.produceTo(t, topic)
	}
}

func (f franz) produceTo(t *testing.T, topic written, options ...kgo.Opt) {
	t.Helper()
	client := f.node.Client(append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(franzCodecs[topic.codec]),
		kgo.ProducerBatchMaxBytes(maxMessageBytes), kgo.ProducerLinger(20 * time.Millisecond),
	}, options...)...)
	defer client.Close()
	sent := make([]*kgo.Record, len(topic.records))
	for i, r := range topic.records {
		sent[i] = &kgo.Record{Topic: topic.name, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			sent[i].Headers = append(sent[i].Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (f franz) consume(t *testing.T, starts []start) [][]record {
	t.Helper()
	all := make([][]record, len(starts))
	for i, from := range starts {
		all[i] = f.consumeFrom(t, from)
	}
	return all
}

func (f franz) consumeFrom(t *testing.T, from start) []record {
	t.Helper()
	var read []record
	for _, r := range f.fetch(t, from) {
		got := record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			got.Headers = append(got.Headers, header{h.Key, h.Value})
		}
		read = append(read, got)
	}
	return read
}

func (f franz) fetch(t *testing.T, from start) []*kgo.Record {
	t.Helper()
	offset := kgo.NewOffset().At(from.at)
	if from.kind == "time" {
		offset = kgo.NewOffset().AfterMilli(from.at)
	}
	client := f.node.Client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{from.topic: {0: offset}}), kgo.KeepControlRecords(),
	)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var read []*kgo.Record
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read = append(read, fetches.Records()...)
		end := int64(-1)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) { end = max(end, p.HighWatermark) })
		if len(read) > 0 && read[len(read)-1].Offset+1 >= end {
			return read
		}
	}
}

// kcat is kcat, an older librdkafka.
type kcat struct {
	node *process.Node
	path string
}

func (k kcat) produce(t *testing.T, topics []written) {
	t.Helper()
	for _, topic := range topics {
		k.produceTo(t, topic)
	}
}

// produceTo runs kcat once for each run of records that need the same arguments.
func (k kcat) produceTo(t *testing.T, topic written) {
	t.Helper()
	last, stdin := "", ""
	var args []string
	flush := func() {
		if args != nil {
			process.Command{Path: k.path, Args: args, Stdin: stdin}.Output(t)
		}
		args, stdin = nil, ""
	}
	common := []string{
		"-P", "-q", "-b", k.node.Kafka, "-t", topic.name, "-p", "0", "-z", string(topic.codec),
		"-X", fmt.Sprintf("message.max.bytes=%d", maxMessageBytes), "-X", "linger.ms=20",
	}
	for _, r := range topic.records {
		own, line := k.arguments(t, r)
		if now := fmt.Sprintf("%q", own); now != last || line == "" {
			flush()
			last = now
		}
		args = append(append([]string(nil), common...), own...)
		stdin += line
	}
	flush()
}

// arguments are what kcat needs to write a record, and its line at stdin. What is binary is in a file of its own.
func (k kcat) arguments(t *testing.T, r record) (args []string, line string) {
	t.Helper()
	for _, h := range r.Headers {
		if h.Value == nil {
			args = append(args, "-H", h.Name)
		} else {
			args = append(args, "-H", h.Name+"="+string(h.Value))
		}
	}
	if len(r.Value) > 10_000 {
		file := filepath.Join(t.TempDir(), "value")
		if err := os.WriteFile(file, r.Value, 0o600); err != nil {
			t.Fatal(err)
		}
		return append(args, "-k", string(r.Key), file), ""
	}
	if r.Value == nil {
		args = append(args, "-Z") // what is empty is null
	}
	if r.Key == nil && r.Value != nil { // kcat leaves out an empty line
		return args, string(r.Value) + "\n"
	}
	return append(args, "-K", "\t"), string(r.Key) + "\t" + string(r.Value) + "\n"
}

func (k kcat) consume(t *testing.T, starts []start) [][]record {
	t.Helper()
	var all [][]record
	for _, from := range starts {
		offset := strconv.FormatInt(from.at, 10)
		if from.kind == "time" {
			offset = "s@" + offset
		}
		all = append(all, parseKcat(t, process.Command{Path: k.path, Args: []string{
			"-C", "-q", "-e", "-b", k.node.Kafka, "-t", from.topic, "-p", "0", "-o", offset, "-X", "fetch.wait.max.ms=50",
			"-f", `%o %T %K %S\n%k%s\n%h\n`,
		}}.Output(t)))
	}
	return all
}

// parseKcat reads what kcat prints: offset, time and sizes (-1 is null), then key and value, then the headers.
func parseKcat(t *testing.T, output string) []record {
	t.Helper()
	var all []record
	for output != "" {
		var r record
		var keySize, valueSize int
		head, rest, _ := strings.Cut(output, "\n")
		if _, err := fmt.Sscan(head, &r.Offset, &r.Timestamp, &keySize, &valueSize); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		take := func(size int) []byte {
			if size < 0 {
				return nil
			}
			data := []byte(rest[:size])
			rest = rest[size:]
			return data
		}
		r.Key, r.Value = take(keySize), take(valueSize)
		headers, rest, found := strings.Cut(strings.TrimPrefix(rest, "\n"), "\n")
		if !found {
			t.Fatalf("the headers of offset %d are missing", r.Offset)
		}
		for text := range strings.SplitSeq(headers, ",") {
			name, value, found := strings.Cut(text, "=")
			if !found {
				continue
			}
			r.Headers = append(r.Headers, header{name, []byte(value)})
			if value == "NULL" {
				r.Headers[len(r.Headers)-1].Value = nil
			}
		}
		all, output = append(all, r), rest
	}
	return all
}
