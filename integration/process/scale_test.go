//go:build integration

package process

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The bounds below are goals for a quiet machine times what a busy one takes; what was measured is logged.

func percentile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)*percent/100]
}

func enoughDescriptors(t *testing.T, wanted uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < wanted { // Go has raised it as far as the system allows
		Missing(t, fmt.Sprintf("a limit of %d descriptors", wanted), fmt.Errorf("it is %d", limit.Cur))
	}
}

func TestTenThousandIdleAndAThousandActiveConnectionsNeedFewThreads(t *testing.T) {
	const idle, active, threads = 10_000, 1_000, 64
	enoughDescriptors(t, idle+active+500)
	node := Serve(t, Options{})
	node.CreateTopic("t", 20)
	before := node.resident()
	versions := encodedApiVersions()
	for range idle {
		if err := node.dial(t).exchange(versions); err != nil {
			t.Fatal(err)
		}
	}
	perConnection := (node.resident() - before) / idle
	t.Logf("%d idle connections: %d bytes of memory each, %d threads", idle, perConnection, node.threads())
	if perConnection > 32<<10 {
		t.Errorf("an idle connection takes %d bytes", perConnection)
	}
	var (
		workers  sync.WaitGroup
		stop     atomic.Bool
		requests atomic.Int64
	)
	for i := range int32(active) {
		conn := node.dial(t)
		request := encodedProduce("t", i%20, 1<<10)
		if i%2 == 1 {
			request = encodedFetch("t", i%20, 0, 100*time.Millisecond)
		}
		workers.Go(func() {
			for !stop.Load() {
				if err := conn.exchange(request); err != nil {
					t.Errorf("an active connection: %v", err)
					return
				}
				requests.Add(1)
			}
		})
	}
	most := 0
	sample(5*time.Second, func() { most = max(most, node.threads()) })
	stop.Store(true)
	workers.Wait()
	t.Logf("%d active connections: %d requests in 5 s, %d threads, %d MiB resident", active, requests.Load(), most,
		node.resident()>>20)
	if most >= threads {
		t.Errorf("%d threads", most)
	}
	node.Stop()
}

// hostile are clients that are none. Each returns when the server has closed the connection or stop is closed.
var hostile = []func(conn net.Conn, random *rand.Rand, stop <-chan struct{}){
	func(conn net.Conn, random *rand.Rand, _ <-chan struct{}) { // garbage
		for {
			noise := make([]byte, 1+random.IntN(4000))
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			if _, err := conn.Write(noise); err != nil {
				return
			}
		}
	},
	func(conn net.Conn, _ *rand.Rand, _ <-chan struct{}) {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	},
	func(conn net.Conn, _ *rand.Rand, _ <-chan struct{}) {
		_ = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake()
	},
	func(conn net.Conn, random *rand.Rand, _ <-chan struct{}) { // a length that is not true
		_, _ = conn.Write(binary.BigEndian.AppendUint32(nil, random.Uint32()))
		_, _ = io.Copy(io.Discard, conn)
	},
	func(conn net.Conn, _ *rand.Rand, stop <-chan struct{}) { // one that is allowed, and little of it
		frame := append(binary.BigEndian.AppendUint32(nil, 100<<20), encodedProduce("t", 0, 50<<10)[4:]...)
		_, _ = conn.Write(frame)
		<-stop
	},
	func(_ net.Conn, _ *rand.Rand, stop <-chan struct{}) { <-stop }, // half open: not a byte
	func(conn net.Conn, _ *rand.Rand, stop <-chan struct{}) { // a byte at a time
		request := encodedApiVersions()
		for i := range request {
			if _, err := conn.Write(request[i : i+1]); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	},
	func(conn net.Conn, _ *rand.Rand, stop <-chan struct{}) { // asks and asks, and never takes an answer
		fetch := encodedFetch("t", 0, 0, 0)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := conn.Write(fetch); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
		}
	},
}

func TestAThousandHostileConnectionsCostNothingAndHarmNobody(t *testing.T) {
	node := Serve(t, Options{})
	node.CreateTopic("t", 1)
	node.CreateTopic("beside", 1)
	filler := node.dial(t)
	for range 30 { // something to fetch
		if err := filler.exchange(encodedProduce("t", 0, 500<<10)); err != nil {
			t.Fatal(err)
		}
	}
	before, most := node.resident(), int64(0)
	latencies := node.steady(20*time.Millisecond, func() {
		stop := make(chan struct{})
		var clients sync.WaitGroup
		var conns []net.Conn
		for i := range 1000 {
			conn, err := net.Dial("tcp", node.Kafka)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			clients.Go(func() {
				hostile[i%len(hostile)](conn, rand.New(rand.NewPCG(1, uint64(i))), stop)
			})
		}
		sample(5*time.Second, func() { most = max(most, node.resident()) })
		close(stop)
		for _, conn := range conns {
			_ = conn.Close() // some would wait for long
		}
		clients.Wait()
	})
	t.Logf("memory %d MiB before, %d MiB at most; %d requests beside it, p50 %v, p99 %v", before>>20, most>>20,
		len(latencies), percentile(latencies, 50), percentile(latencies, 99))
	if grown := most - before; grown > 64<<20 {
		t.Errorf("1000 hostile connections cost %d MiB", grown>>20)
	}
	if p99 := percentile(latencies, 99); p99 > time.Second {
		t.Errorf("others wait for %v", p99)
	}
	if log := node.Log(); strings.Count(log, "\n") > 200 {
		t.Errorf("%d lines were logged", strings.Count(log, "\n"))
	}
	node.Stop()
}

func TestAFetchLoopWithoutWaitDoesNotStarveOthers(t *testing.T) {
	node := Serve(t, Options{})
	node.CreateTopic("empty", 1)
	node.CreateTopic("beside", 1)
	quiet := node.steady(5*time.Millisecond, func() { sample(2*time.Second, func() {}) })
	conn := node.dial(t)
	loops := 0
	beside := node.steady(5*time.Millisecond, func() {
		fetch := encodedFetch("empty", 0, 0, 0)
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); loops++ {
			if err := conn.exchange(fetch); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("produce alone: p50 %v, p99 %v; beside %d fetches: p50 %v, p99 %v", percentile(quiet, 50),
		percentile(quiet, 99), loops, percentile(beside, 50), percentile(beside, 99))
	if p99 := percentile(beside, 99); p99 > 10*percentile(quiet, 99)+100*time.Millisecond {
		t.Errorf("others wait for %v", p99)
	}
	node.Stop()
}

// expectSmallScrape checks that many partitions make no large page of metrics.
func (n *Node) expectSmallScrape() {
	n.t.Helper()
	began := time.Now()
	status, page := n.Get("/metrics")
	took := time.Since(began)
	n.t.Logf("a scrape of %d KiB takes %v", len(page)>>10, took)
	if status != 200 || took > 2*time.Second || len(page) > 1<<20 ||
		!strings.Contains(page, "kafka_server_replicamanager_partitioncount 10000\n") {
		n.t.Errorf("a scrape answers %d, %d bytes, after %v", status, len(page), took)
	}
}

func TestTenThousandPartitions(t *testing.T) {
	const topics, partitions = 100, 100
	node := Serve(t, Options{})
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 60_000
	for i := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("t%d", i), partitions, 1
		create.Topics = append(create.Topics, topic)
	}
	began := time.Now()
	created, err := create.RequestWith(t.Context(), node.Client())
	if err != nil || slices.ContainsFunc(created.Topics, func(topic kmsg.CreateTopicsResponseTopic) bool {
		return topic.ErrorCode != 0
	}) {
		t.Fatal(err, created)
	}
	t.Logf("10 000 partitions created in %v", time.Since(began))
	var records []*kgo.Record
	for i := range topics {
		for p := range int32(partitions) {
			records = append(records, &kgo.Record{Topic: fmt.Sprintf("t%d", i), Partition: p, Value: []byte("x")})
		}
	}
	client := node.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(len(records)))
	began = time.Now()
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the first record of each acknowledged after %v", time.Since(began))
	client.Close()
	restart := func(how string, stop func(), limit time.Duration) {
		t.Helper()
		began := time.Now()
		stop()
		stopped := time.Since(began)
		began = time.Now()
		node = Serve(t, Options{Dir: node.Dir})
		took := time.Since(began)
		t.Logf("%s: stopped in %v, ready after %v and %v of processor time, %d MiB, %d threads", how, stopped, took,
			node.processorTime(), node.resident()>>20, node.threads())
		if used := node.processorTime(); used > limit {
			t.Errorf("%s: the start has used %v of processor time", how, used)
		}
		if resident := node.resident(); resident > 200<<20 {
			t.Errorf("%s: %d MiB are resident", how, resident>>20)
		}
	}
	restart("clean stop", node.Stop, 4*time.Second)
	restart("kill", node.Kill, 8*time.Second)
	node.expectSmallScrape() // MX-10
	t.Logf("idle: %.1f %% of a core", node.load(5*time.Second))
	names := make([]string, topics)
	for i := range names {
		names[i] = fmt.Sprintf("t%d", i)
	}
	consumer := node.Client(kgo.ConsumeTopics(names...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for read := 0; read < len(records); {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read += fetches.NumRecords()
	}
	sample(time.Second, func() {}) // until the last offsets are told
	polled := node.load(5 * time.Second)
	t.Logf("idle, with a consumer that polls them all: %.1f %% of a core", polled)
	if polled > 4 { // the goal is 2
		t.Errorf("a consumer that polls 10 000 quiet partitions takes %.1f %% of a core", polled)
	}
	node.Stop()
}

// load is how much of a core the node uses over a while, in percent.
func (n *Node) load(duration time.Duration) float64 {
	used := n.processorTime()
	sample(duration, func() {})
	return 100 * float64(n.processorTime()-used) / float64(duration)
}
