//go:build integration

package process

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
)

// resident is the memory of the node's process in bytes, threads how many of the operating system's it has.
func (n *Node) resident() int64 { return n.status("VmRSS") << 10 }

func (n *Node) threads() int { return int(n.status("Threads")) }

// status is a number in /proc/PID/status.
func (n *Node) status(key string) int64 {
	n.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.running.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, found := strings.CutPrefix(line, key+":"); found {
			number, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return number
		}
	}
	n.t.Fatalf("/proc does not tell %s", key)
	return 0
}

// processorTime is what the node's process has used until now.
func (n *Node) processorTime() time.Duration {
	n.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.running.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(after)
	var ticks int64
	for _, field := range fields[11:13] {
		number, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		ticks += number
	}
	const ticksPerSecond = 100 // on every Linux that Go runs on
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// raw is a connection without a client library: what it sends has been encoded before, what it gets is thrown away.
type raw struct {
	net.Conn
	header [4]byte
}

func (n *Node) dial(t testing.TB) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", n.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &raw{Conn: conn}
}

// exchange sends a request and waits for its answer.
func (r *raw) exchange(request []byte) error {
	if _, err := r.Write(request); err != nil {
		return err
	}
	if _, err := io.ReadFull(r, r.header[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(r.header[:])))
	return err
}

func encode(request kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, request, 1)
}

func encodedApiVersions() []byte {
	request := kmsg.NewPtrApiVersionsRequest()
	request.SetVersion(0)
	return encode(request)
}

// encodedProduce appends one record of a size with acks=all.
func encodedProduce(topic string, partition int32, size int) []byte {
	builder := record.NewBuilder(record.PlainProducer())
	builder.Append(time.Now().UnixMilli(), nil, make([]byte, size))
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(9)
	request.Acks, request.TimeoutMillis = -1, 30_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, builder.Build()
	into := kmsg.NewProduceRequestTopic()
	into.Topic, into.Partitions = topic, append(into.Partitions, part)
	request.Topics = append(request.Topics, into)
	return encode(request)
}

// encodedFetch reads a partition from an offset.
func encodedFetch(topic string, partition int32, offset int64, maxWait time.Duration) []byte {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(12)
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(maxWait.Milliseconds()), 1, 1<<20
	request.SessionEpoch = -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, offset, 1<<20
	from := kmsg.NewFetchRequestTopic()
	from.Topic, from.Partitions = topic, append(from.Partitions, part)
	request.Topics = append(request.Topics, from)
	return encode(request)
}

// steady produces to the topic "beside" with a client of its own as long as body runs, one record every pause, and
// returns how long each took.
func (n *Node) steady(pause time.Duration, body func()) (latencies []time.Duration) {
	n.t.Helper()
	client := n.Client(kgo.DefaultProduceTopic("beside"), kgo.ProducerLinger(0))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(pause)
		defer ticks.Stop()
		for {
			began := time.Now()
			ctx, cancel := context.WithTimeout(n.t.Context(), patience) // a node that has ended is never reached
			err := client.ProduceSync(ctx, kgo.StringRecord("steady")).FirstErr()
			cancel()
			if err != nil {
				n.t.Errorf("produce beside it: %v", err)
				return
			}
			latencies = append(latencies, time.Since(began))
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
		}
	}()
	body()
	close(stop)
	<-done
	return latencies
}

// sample looks at something again and again for a while.
func sample(duration time.Duration, look func()) {
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(duration); time.Now().Before(end); <-ticks.C {
		look()
	}
}
