//go:build integration

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// patience ends what hangs; nothing here takes as long.
const patience = time.Minute

// peer is a client, as it is used here: it writes to partition 0 of a topic, and reads that partition to its end.
type peer interface {
	produce(t *testing.T, topic, codec string, records []record)
	// consume reads from each start.
	consume(t *testing.T, topic string, starts []start) [][]record
	// setsTimes tells whether the times of records are those that produce was given.
	setsTimes() bool
}

// start is where reading begins: at an offset, or at the first record that is not older than a time.
type start struct {
	kind string // "offset" or "time"
	at   int64
}

func (s start) String() string { return fmt.Sprintf("%s:%d", s.kind, s.at) }

// franz is franz-go.
type franz struct{ node *process.Node }

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (f franz) setsTimes() bool { return true }

func (f franz) produce(t *testing.T, topic, codec string, records []record) {
	t.Helper()
	client := f.node.Client(
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(franzCodecs[codec]),
		kgo.ProducerBatchMaxBytes(1_048_588), kgo.ProducerLinger(20*time.Millisecond),
	)
	defer client.Close()
	sent := make([]*kgo.Record, len(records))
	for i, r := range records {
		sent[i] = &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
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

func (f franz) consume(t *testing.T, topic string, starts []start) [][]record {
	t.Helper()
	var all [][]record
	for _, from := range starts {
		all = append(all, f.consumeFrom(t, topic, from))
	}
	return all
}

func (f franz) consumeFrom(t *testing.T, topic string, from start) []record {
	t.Helper()
	offset := kgo.NewOffset().At(from.at)
	if from.kind == "time" {
		offset = kgo.NewOffset().AfterMilli(from.at)
	}
	client := f.node.Client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: offset}}), kgo.KeepControlRecords(),
	)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var read []record
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			got := record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				got.Headers = append(got.Headers, header{h.Key, h.Value})
			}
			read = append(read, got)
		}
		end := int64(-1)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) { end = max(end, p.HighWatermark) })
		if len(read) > 0 && read[len(read)-1].Offset+1 >= end {
			return read
		}
	}
}

// confluent is confluent-kafka for Python, which is librdkafka.
type confluent struct {
	node   *process.Node
	python string
}

func newConfluent(t *testing.T, node *process.Node) peer {
	t.Helper()
	fallback := filepath.Join("..", "..", ".cache", "python", "bin", "python")
	return confluent{node, process.Program(t, "FIRN_PYTHON", fallback)}
}

func (c confluent) setsTimes() bool { return true }

func (c confluent) produce(t *testing.T, topic, codec string, records []record) {
	t.Helper()
	var lines bytes.Buffer
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	process.Command{
		Path: c.python, Args: []string{"exchange.py", "produce", c.node.Kafka, topic, codec}, Stdin: lines.String(),
	}.Output(t)
}

func (c confluent) consume(t *testing.T, topic string, starts []start) [][]record {
	t.Helper()
	args := []string{"exchange.py", "consume", c.node.Kafka, topic}
	for _, from := range starts {
		args = append(args, from.String())
	}
	all := [][]record{nil}
	for line := range strings.Lines(process.Command{Path: c.python, Args: args}.Output(t)) {
		if line == "\n" {
			all = append(all, nil)
			continue
		}
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all[len(all)-1] = append(all[len(all)-1], r)
	}
	return all[:len(all)-1]
}

// kcat is kcat, an older librdkafka.
type kcat struct {
	node *process.Node
	path string
}

func newKcat(t *testing.T, node *process.Node) peer {
	t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		process.Missing(t, "kcat", err)
	}
	return kcat{node, path}
}

func (k kcat) setsTimes() bool { return false }

// produce runs kcat once for each run of records that need the same arguments.
func (k kcat) produce(t *testing.T, topic, codec string, records []record) {
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
		"-P", "-q", "-b", k.node.Kafka, "-t", topic, "-p", "0", "-z", codec, "-X", "message.max.bytes=2000000",
		"-X", "linger.ms=20",
	}
	for _, r := range records {
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

func (k kcat) consume(t *testing.T, topic string, starts []start) [][]record {
	t.Helper()
	var all [][]record
	for _, from := range starts {
		offset := strconv.FormatInt(from.at, 10)
		if from.kind == "time" {
			offset = "s@" + offset
		}
		all = append(all, parseKcat(t, process.Command{Path: k.path, Args: []string{
			"-C", "-q", "-e", "-b", k.node.Kafka, "-t", topic, "-p", "0", "-o", offset, "-X", "fetch.wait.max.ms=50",
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
