//go:build integration

package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const mib = 1 << 20

// greedy asks for more than a connection may have in flight, and takes nothing of it.
func greedy(conn net.Conn, request []byte, stop <-chan struct{}) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(bytes.Repeat(request, 30)) // the server may not take it all, or close the connection
	<-stop
}

// encodedMetadata asks for all topics.
func encodedMetadata() []byte {
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(9)
	request.Topics = nil
	return encode(request)
}

// TestClientsThatTakeNothingStayWithinTheSettings: a thousand connections ask for what takes memory (metadata of
// thousands of partitions, history out of the bucket), or begin large requests, and take and end nothing. The node's
// memory stays near what the settings allow, and producers do not notice.
func TestClientsThatTakeNothingStayWithinTheSettings(t *testing.T) {
	const (
		requests, cold = 32 * mib, 16 * mib
		// Twice the settings' memory, as Go's collector waits for the heap to double; 40 KiB for each connection.
		bound = 2*(2*requests+2*cold) + 1000*40<<10
	)
	node := Serve(t, Options{Set: []string{
		fmt.Sprint("queued.max.request.bytes=", requests), fmt.Sprint("firn.tier.fetch.memory.bytes=", cold),
		fmt.Sprint("firn.tier.read.ahead.bytes=", 4*mib),
		"log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200",
	}})
	node.CreateTopic("beside", 1)
	node.CreateTopic("wide", 3000)
	node.CreateTopic("cold", 1, "segment.bytes=1048576", "remote.storage.enable=true", "local.retention.ms=1")
	filler := node.Client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 60 {
		record := &kgo.Record{Topic: "cold", Value: make([]byte, 500<<10)}
		if err := filler.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	sunk(t, node, "cold")
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
			if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil { // the kernel shall not take it for us
				t.Fatal(err)
			}
			conns = append(conns, conn)
			clients.Go(func() {
				switch {
				case i%10 == 0:
					greedy(conn, encodedMetadata(), stop)
				case i%2 == 0:
					greedy(conn, encodedFetch("cold", 0, int64(i%50), 500*time.Millisecond), stop)
				default: // a claim of a megabyte, of which little comes
					_, _ = conn.Write(encodedProduce("beside", 0, 1*mib)[:10<<10])
					<-stop
				}
			})
		}
		sample(6*time.Second, func() { most = max(most, node.resident()) })
		close(stop)
		for _, conn := range conns {
			_ = conn.Close()
		}
		clients.Wait()
	})
	t.Logf("memory %d MiB before, %d MiB at most, %d more are allowed; %d requests beside it, p50 %v, p99 %v",
		before>>20, most>>20, bound>>20, len(latencies), percentile(latencies, 50), percentile(latencies, 99))
	if most-before > bound {
		t.Errorf("clients that take nothing cost %d MiB", (most-before)>>20)
	}
	if p50 := percentile(latencies, 50); p50 > time.Second {
		t.Errorf("producers wait for %v", p50)
	}
	if lines := strings.Count(node.Log(), "\n"); lines > 200 {
		t.Errorf("%d lines were logged", lines)
	}
	Eventually(t, "all memory is given back", func(context.Context) bool {
		_, metrics := node.Get("/metrics")
		return strings.Contains(metrics, "\nfirn_server_answer_bytes 0\n") &&
			strings.Contains(metrics, "\nkafka_network_socketserver_memorypoolused 0\n") &&
			strings.Contains(metrics, "\nfirn_tier_fetch_held_bytes 0\n")
	})
	node.Stop()
}
