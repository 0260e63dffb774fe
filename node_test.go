package firn

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestANodeServesARealClient is the shortest way through the whole house: over TCP, on real files.
func TestANodeServesARealClient(t *testing.T) {
	node := startNode(t, "listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0")
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Addr()), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, client, "t")
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fetches := client.PollFetches(t.Context())
	if got := fetches.Records(); len(got) != 1 || string(got[0].Value) != "hello" || fetches.Err() != nil {
		t.Errorf("consumed %v, error %v", got, fetches.Err())
	}
	client.Close()
}

func createTopic(t *testing.T, client *kgo.Client, name string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create %s: %v %+v", name, err, resp)
	}
}

// TestEachListenerTellsItsOwnAddress has a client in the house and one that comes through a forwarded port.
func TestEachListenerTellsItsOwnAddress(t *testing.T) {
	node := startNode(t, "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0", "firn.http.listener=127.0.0.1:0",
		"listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
		"advertised.listeners=OUTSIDE://kafka.example:1234")
	for i, want := range []string{node.Addrs()[0], "kafka.example:1234"} {
		client, err := kgo.NewClient(kgo.SeedBrokers(node.Addrs()[i]))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		broker := resp.Brokers[0]
		if got := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))); got != want {
			t.Errorf("listener %d tells its clients %s, want %s", i, got, want)
		}
		client.Close()
	}
}

// startNode runs a node on a temporary directory until the test ends.
func startNode(t *testing.T, set ...string) *Node {
	t.Helper()
	cfg, err := LoadConfig(Sources{DataDir: t.TempDir(), Set: set})
	if err != nil {
		t.Fatal(err)
	}
	node, err := Start(t.Context(), cfg, Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return node
}
