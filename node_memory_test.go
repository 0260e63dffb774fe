package firn

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/internal/vfs"
)

// memoryNode is a node in fake time whose disks and network are in memory, with a client.
type memoryNode struct {
	*Node
	t      *testing.T
	hosts  *network.Memory
	client *kgo.Client
	admin  *kadm.Client
	failed string // what the stop will complain about
}

// startMemoryNode starts a node, which is stopped at the end of the test if the test has not done it.
func startMemoryNode(t *testing.T, files vfs.FS, databases pebblevfs.FS, settings ...string) *memoryNode {
	t.Helper()
	cfg, err := LoadConfig(Sources{Set: append([]string{
		"listeners=PLAINTEXT://broker:9092", "firn.http.listener=broker:9644", "firn.data.dir=data",
		"firn.log.dirs.reserve.bytes=8388608",
	}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	hosts := network.NewMemory()
	n := &memoryNode{t: t, hosts: hosts}
	n.Node, err = Start(t.Context(), cfg, Dependencies{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		FS:     files, PebbleFS: databases, Network: hosts.Host("broker"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stopAll)
	client := hosts.Host("client")
	n.client, err = kgo.NewClient(kgo.SeedBrokers("broker:9092"), kgo.RecordRetries(0),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return client.Dial(ctx, address) }),
		kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	n.admin = kadm.NewClient(n.client)
	return n
}

// stopAll stops client and node; a second call does nothing.
func (n *memoryNode) stopAll() {
	if n.client != nil {
		n.client.Close()
	}
	err := n.Stop(context.Background())
	if (err != nil) != (n.failed != "") || err != nil && !strings.Contains(err.Error(), n.failed) {
		n.t.Errorf("the stop says %v, and should say something of %q", err, n.failed)
	}
}

func (n *memoryNode) createTopic(name string, partitions int32) {
	n.t.Helper()
	if _, err := n.admin.CreateTopic(n.t.Context(), partitions, 1, nil, name); err != nil {
		n.t.Fatal(err)
	}
}

func (n *memoryNode) produce(topic string, partition int32, value string) error {
	record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	return n.client.ProduceSync(n.t.Context(), record).FirstErr()
}

// consume reads one record from the start of a partition.
func (n *memoryNode) consume(topic string, partition int32) (string, error) {
	n.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}})
	defer n.client.RemoveConsumePartitions(map[string][]int32{topic: {partition}})
	fetches := n.client.PollFetches(n.t.Context())
	if records := fetches.Records(); len(records) > 0 {
		return string(records[0].Value), nil
	}
	return "", fetches.Err()
}
