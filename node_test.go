package firn

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestANodeServesARealClient is the shortest way through the whole house: over TCP, on real files.
func TestANodeServesARealClient(t *testing.T) {
	cfg, err := LoadConfig(Sources{DataDir: t.TempDir(), Set: []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	node, err := Start(t.Context(), cfg, Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
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
	if err := node.Stop(t.Context()); err != nil {
		t.Error(err)
	}
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
