package firn

import (
	"context"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/config"
)

// TestEachSettingThatMayChangeIsTakenOver: a setting that DescribeConfigs shows as one that can be changed, and that
// acts, must be followed, by the topics or by the node.
func TestEachSettingThatMayChangeIsTakenOver(t *testing.T) {
	inherited := map[string]bool{}
	for _, setting := range config.Topic() {
		for _, synonym := range setting.Synonyms {
			inherited[synonym] = true
		}
	}
	for _, setting := range config.Broker() {
		value := "12345"
		if setting.Type == config.Boolean {
			value = "true"
		}
		if setting.Type == config.String {
			value = "192.0.2.1:5"
		}
		var live liveSettings
		if err := live.take(setting.Name, value); err != nil {
			t.Errorf("%s: %v", setting.Name, err)
		}
		taken := !reflect.DeepEqual(live, liveSettings{})
		if want := !setting.ReadOnly && setting.Effect == config.Acts && !inherited[setting.Name]; taken != want {
			t.Errorf("%s: taken over %v, want %v", setting.Name, taken, want)
		}
	}
}

func alterBroker(t *testing.T, client *kgo.Client, broker string, validateOnly bool, name string, value *string) int16 {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, broker
	op := kmsg.IncrementalAlterConfigOpSet
	if value == nil {
		op = kmsg.IncrementalAlterConfigOpDelete
	}
	resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: value}}
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Resources[0].ErrorCode
}

// sources tells where DescribeConfigs says that a broker setting comes from, the strongest first.
func sources(t *testing.T, client *kgo.Client, name string) (value string, from []kmsg.ConfigSource) {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, "1", []string{name}
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil || len(resp.Resources[0].Configs) != 1 {
		t.Fatalf("describe %s: %v %+v", name, err, resp)
	}
	one := resp.Resources[0].Configs[0]
	if one.ReadOnly {
		t.Errorf("%s is shown as read-only", name)
	}
	for _, synonym := range one.ConfigSynonyms {
		from = append(from, synonym.Source)
	}
	return *one.Value, from
}

// admitted tells whether the node lets another connection in.
func admitted(t *testing.T, address string) bool {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := append([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7}, 0xff, 0xff)
	_, _ = conn.Write(request)
	n, _ := conn.Read(make([]byte, 100))
	return n > 0
}

func TestBrokerSettingsChangeWhileTheNodeRunsAndStayAfterIt(t *testing.T) {
	start := func(dir string) (*Node, *kgo.Client) {
		cfg, err := LoadConfig(Sources{DataDir: dir, Set: []string{
			"listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0", "remote.log.reader.threads=4",
		}})
		if err != nil {
			t.Fatal(err)
		}
		node, err := Start(t.Context(), cfg, Dependencies{})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(node.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		return node, client
	}
	value := func(text string) *string { return &text }
	dir := t.TempDir()
	node, client := start(dir)
	for _, change := range []struct {
		broker, name string
		value        *string
		validateOnly bool
		code         int16
	}{
		{"", "remote.fetch.max.wait.ms", value("700"), false, 0},
		{"", "remote.log.reader.threads", value("6"), false, 0},
		{"1", "remote.log.reader.threads", value("8"), false, 0},
		{"1", "producer.id.expiration.ms", value("5000"), true, 0},
		{"", "remote.list.offsets.request.timeout.ms", value("soon"), false, 42},
		{"", "max.connections", value("0"), false, 42},
		{"1", "max.connections.per.ip.overrides", value("127.0.0.1:0"), false, 0},
	} {
		if code := alterBroker(t, client, change.broker, change.validateOnly, change.name, change.value); code != change.code {
			t.Errorf("broker %q: %s=%s: error %d, want %d", change.broker, change.name, *change.value, code, change.code)
		}
	}
	if admitted(t, node.Addr()) {
		t.Error("an address that may have no connection gets one")
	}
	if code := alterBroker(t, client, "1", false, "max.connections.per.ip.overrides", nil); code != 0 {
		t.Error(code)
	}
	if !admitted(t, node.Addr()) {
		t.Error("an address that may have connections again gets none")
	}
	for _, when := range []string{"at once", "after a restart"} {
		live := node.live.Load()
		if live.remoteFetchMaxWait != 700*time.Millisecond || live.remoteReads != 8 || live.uploads.Concurrency != 10 ||
			live.producerExpiration != 24*time.Hour || live.listOffsetsTimeout != 30*time.Second {
			t.Errorf("%s: %+v", when, live)
		}
		if got, from := sources(t, client, "remote.log.reader.threads"); got != "8" ||
			!slices.Equal(from, []kmsg.ConfigSource{2, 3, 4, 5}) {
			t.Errorf("%s: remote.log.reader.threads=%s from %v", when, got, from)
		}
		client.Close()
		if err := node.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if when == "at once" {
			node, client = start(dir)
		}
	}
}
