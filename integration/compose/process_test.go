//go:build integration

package compose

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/process"
)

// TestTheNodeOfTheComposeFileServesBothKindsOfClients starts the node with the environment of the compose file, but
// for the ports it binds and the store, which is versitygw. A client in a container and one on the machine each use
// their own address from then on; the first finds what the second has produced.
func TestTheNodeOfTheComposeFileServesBothKindsOfClients(t *testing.T) {
	store := process.ServeS3(t, "another")
	ports := freeAddresses(t, 2)
	var env []string
	for name, value := range readProject(t).service(t, "firn").Environment {
		env = append(env, name+"="+strings.ReplaceAll(value, "http://store:9000", store.Endpoint))
	}
	node := process.Serve(t, process.Options{
		Env: append(env, store.Environment()...),
		Set: []string{fmt.Sprintf("listeners=INSIDE://%s,HOST://%s", ports[0], ports[1])},
	})
	check := process.Command{Path: process.Firn(t), Args: []string{"healthcheck", "--http", node.HTTP}}
	if result := check.Run(t); result.Status != 0 {
		t.Errorf("not healthy: %s", result.Stderr)
	}
	inside := &names{at: map[string]string{"firn:9092": ports[0]}}
	host := &names{at: map[string]string{"127.0.0.1:9092": ports[1]}}
	const records = 500
	produceAll(t, host.client(t, "127.0.0.1:9092"), records)
	consumeAll(t, inside.client(t, "firn:9092", kgo.ConsumeTopics("events")), records)
	inside.wants(t, "firn:9092")
	host.wants(t, "127.0.0.1:9092")

	admin := kadm.NewClient(host.client(t, "127.0.0.1:9092"))
	described, err := admin.DescribeTopicConfigs(t.Context(), "events")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(described[0].Configs, func(c kadm.Config) bool {
		return c.Key == "remote.storage.enable" && *c.Value == "true"
	}) {
		t.Errorf("a new topic is not tiered: %+v", described[0].Configs)
	}
	node.Stop()
	if result := check.Run(t); result.Status == 0 {
		t.Error("a node that is gone is healthy")
	}
}

// names stands for the name service and the published ports: it leads each address of the compose file to a port.
type names struct {
	at map[string]string

	mu     sync.Mutex // guards the field below
	dialed []string
}

func (n *names) client(t *testing.T, seed string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seed), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("events"),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			n.mu.Lock()
			n.dialed = append(n.dialed, address)
			n.mu.Unlock()
			at, known := n.at[address]
			if !known {
				return nil, fmt.Errorf("%s cannot be reached from here", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, at)
		}),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// wants: a client has been nowhere else, and has gone there again for what it was told.
func (n *names) wants(t *testing.T, address string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(n.dialed, func(dialed string) bool { return dialed != address }) || len(n.dialed) < 2 {
		t.Errorf("clients have gone to %v, want %s only", n.dialed, address)
	}
}

func produceAll(t *testing.T, client *kgo.Client, records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range records {
		client.Produce(ctx, &kgo.Record{Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func consumeAll(t *testing.T, client *kgo.Client, records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for next := 0; next < records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(next) {
				t.Errorf("record %d is %s", next, r.Value)
			}
			next++
		})
	}
}

// freeAddresses are different ports that nobody listens on.
func freeAddresses(t *testing.T, count int) []string {
	t.Helper()
	addresses := make([]string, count)
	for i := range addresses {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		addresses[i] = listener.Addr().String()
	}
	return addresses
}
