package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// line prints an entry the way the expectations below are written.
func line(e Entry) string {
	text := fmt.Sprintf("%s = %s @%d", e.Name, shownText(e.Value), e.Source)
	for _, synonym := range e.Synonyms {
		text += fmt.Sprintf(" | %s=%s@%d", synonym.Name, shownText(synonym.Value), synonym.Source)
	}
	return text
}

func shownText(value *string) string {
	if value == nil {
		return "null"
	}
	return *value
}

func find(t *testing.T, entries []Entry, name string) Entry {
	t.Helper()
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("%s is not described", name)
	}
	return entries[i]
}

// The expectations are what a broker of Apache Kafka 4.4.0 answers with the same settings.
func TestDescribeTopicAsKafkaDoes(t *testing.T) {
	layers := BrokerLayers{
		Dynamic:        map[string]string{"message.max.bytes": "2000000"},
		DynamicDefault: map[string]string{"message.max.bytes": "3000000", "log.retention.bytes": "99999999"},
		Static: set(map[string]string{"log.retention.hours": "24", "log.roll.ms": "7200000", "compression.type": "lz4",
			"min.insync.replicas": "2", "log.flush.scheduler.interval.ms": "77"}),
	}
	overrides := map[string]string{"cleanup.policy": "delete", "min.insync.replicas": "1"}
	entries := DescribeTopic(overrides, layers)
	for _, want := range []string{
		"cleanup.policy = delete @1 | cleanup.policy=delete@1 | log.cleanup.policy=delete@5",
		"compression.type = lz4 @4 | compression.type=lz4@4 | compression.type=producer@5",
		"flush.ms = 77 @5",
		"follower.replication.throttled.replicas =  @5",
		"max.message.bytes = 2000000 @2 | message.max.bytes=2000000@2 | message.max.bytes=3000000@3 | " +
			"message.max.bytes=1048588@5",
		"min.insync.replicas = 1 @1 | min.insync.replicas=1@1 | min.insync.replicas=2@4 | min.insync.replicas=1@5",
		"remote.storage.enable = false @5",
		"retention.bytes = 99999999 @3 | log.retention.bytes=99999999@3 | log.retention.bytes=-1@5",
		"retention.ms = 86400000 @5",
		"segment.bytes = 1073741824 @5 | log.segment.bytes=1073741824@5",
		"segment.jitter.ms = 0 @5",
		"segment.ms = 7200000 @4 | log.roll.ms=7200000@4 | log.roll.hours=168@5",
	} {
		name, _, _ := strings.Cut(want, " ")
		if got := line(find(t, entries, name)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for i := 1; i < len(entries); i++ {
		if entries[i-1].Name >= entries[i].Name {
			t.Errorf("%s comes before %s", entries[i-1].Name, entries[i].Name)
		}
	}
	if len(entries) != 37 {
		t.Errorf("%d settings are described, in Kafka 37", len(entries))
	}
	if got := len(DescribeTopic(map[string]string{"internal.segment.bytes": "5"}, layers)); got != 38 {
		t.Errorf("an internal setting that is set is described: got %d settings, want 38", got)
	}
}

func TestDescribeBrokerAsKafkaDoes(t *testing.T) {
	static := map[string]string{"log.retention.hours": "24", "log.roll.ms": "7200000", "log.dirs": "/a , /b",
		"log.flush.scheduler.interval.ms": "77", "delegation.token.secret.key": "hush"}
	layers := BrokerLayers{
		DynamicDefault: map[string]string{"log.retention.bytes": "99999999"},
		Static: func(name string) (string, bool) {
			if value, ok := static[name]; ok {
				return value, true
			}
			return map[string]string{"log.dir": "/data/log"}[name], false
		},
	}
	entries := DescribeBroker(layers)
	for _, want := range []string{
		"advertised.listeners = null @5",
		"delegation.token.secret.key = null @4 | delegation.token.secret.key=null@4",
		"log.dir = /data/log @5 | log.dir=/data/log@5",
		"log.dirs = /a,/b @4 | log.dirs=/a,/b@4",
		"log.flush.interval.ms = null @5",
		"log.flush.scheduler.interval.ms = 77 @4 | log.flush.scheduler.interval.ms=77@4 | " +
			"log.flush.scheduler.interval.ms=9223372036854775807@5",
		"log.retention.bytes = 99999999 @3 | log.retention.bytes=99999999@3 | log.retention.bytes=-1@5",
		"log.retention.hours = 24 @4 | log.retention.hours=24@4 | log.retention.hours=168@5",
		"log.retention.ms = null @5",
		"log.roll.ms = 7200000 @4 | log.roll.ms=7200000@4 | log.roll.hours=168@5",
	} {
		name, _, _ := strings.Cut(want, " ")
		if got := line(find(t, entries, name)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for i := 1; i < len(entries); i++ {
		if entries[i-1].Name >= entries[i].Name {
			t.Errorf("%s comes before %s", entries[i-1].Name, entries[i].Name)
		}
	}
	if slices.ContainsFunc(entries, func(e Entry) bool { return e.Internal }) {
		t.Error("an internal setting that nobody has set is described")
	}
}

// AD-02: a value equal to the default is pinned, and taking it back follows the broker again.
func TestAD02AnOverrideEqualToTheDefaultIsPinned(t *testing.T) {
	overrides := map[string]string{"cleanup.policy": "delete"}
	layers := BrokerLayers{DynamicDefault: map[string]string{"log.cleanup.policy": "compact"}}
	pinned := find(t, DescribeTopic(overrides, layers), "cleanup.policy")
	if *pinned.Value != "delete" || pinned.Source != DynamicTopic {
		t.Errorf("got %s", line(pinned))
	}
	delete(overrides, "cleanup.policy")
	reverted := find(t, DescribeTopic(overrides, layers), "cleanup.policy")
	if *reverted.Value != "compact" || reverted.Source != DynamicDefaultBroker {
		t.Errorf("got %s", line(reverted))
	}
}

// AD-07: what nobody touched is a default, sensitive values are null, what cannot be changed is flagged.
func TestAD07UntouchedSettingsAreDefaults(t *testing.T) {
	for _, entry := range slices.Concat(DescribeTopic(nil, BrokerLayers{}), DescribeBroker(BrokerLayers{})) {
		if entry.Source != BuiltIn {
			t.Errorf("untouched: %s", line(entry))
		}
	}
	secret := BrokerLayers{Static: set(map[string]string{"ssl.keystore.password": "hush"})}
	for _, entry := range DescribeBroker(secret) {
		if entry.Sensitive && entry.Value != nil {
			t.Errorf("%s shows a sensitive value", entry.Name)
		}
		if entry.Sensitive != (entry.Type == Password) {
			t.Errorf("%s: type %s, sensitive %v", entry.Name, entry.Type, entry.Sensitive)
		}
	}
	broker := DescribeBroker(BrokerLayers{})
	for name, readOnly := range map[string]bool{"node.id": true, "log.dirs": true, "listeners": true,
		"log.retention.ms": false, "log.retention.hours": true, "message.max.bytes": false} {
		if got := find(t, broker, name).ReadOnly; got != readOnly {
			t.Errorf("%s: read-only is %v", name, got)
		}
	}
	for _, entry := range DescribeTopic(nil, BrokerLayers{}) {
		if entry.ReadOnly {
			t.Errorf("topic setting %s is read-only", entry.Name)
		}
	}
}

func TestDescribeBrokerDefaultsShowsOnlyWhatIsSet(t *testing.T) {
	entries := DescribeBrokerDefaults(map[string]string{"message.max.bytes": "5", "log.retention.bytes": "7"})
	if len(entries) != 2 || line(entries[0]) != "log.retention.bytes = 7 @3 | log.retention.bytes=7@3" {
		t.Errorf("got %v", entries)
	}
}

func TestCheckBrokerChange(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"log.retention.ms", "5", ""},
		{"log.retention.ms", "-1", ""},
		{"log.retention.ms", "0", "must be at least 1, or -1"},
		{"log.retention.ms", "abc", "LONG"},
		{"log.segment.bytes", "5", "1048576"},
		{"log.retention.hours", "5", "cannot be changed while the node runs"},
		{"node.id", "5", "cannot be changed while the node runs"},
		{"listeners", "PLAINTEXT://:1", "cannot be changed while the node runs"},
		{"listener.security.protocol.map", "X:PLAINTEXT", "cannot be changed while the node runs"},
		{"cordoned.log.dirs", "*", "cannot be changed while the node runs"},
		{"ssl.keystore.location", "/x", "cannot be changed while the node runs"},
		{"sasl.kerberos.min.time.before.relogin", "58000", ""},
		{"sasl.kerberos.min.time.before.relogin", "soon", "LONG"},
		{"num.io.threads", "5", ""},
		{"log.cleaner.threads", "2", ""},
		{"max.connections", "5", ""},
		{"max.connections", "0", "at least one"},
		{"max.connections.per.ip.overrides", "a:b", "max.connections.per.ip.overrides"},
		{"zookeeper.connect", "x", "there is no ZooKeeper"},
		{"log.retention.m", "5", "did you mean log.retention.ms?"},
	}
	for _, test := range tests {
		err := CheckBrokerChange(test.name, &test.value, false)
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want) || kafka.CodeOf(err) != kafka.InvalidRequest) {
			t.Errorf("%s=%s: got %v, want %q", test.name, test.value, err, test.want)
		}
	}
	value := "58000"
	err := CheckBrokerChange("sasl.kerberos.min.time.before.relogin", &value, true)
	if !errors.Is(err, kafka.InvalidRequest) {
		t.Errorf("a setting of single brokers for all of them: %v", err)
	}
	if err := CheckBrokerChange("log.retention.ms", &value, true); err != nil {
		t.Error(err)
	}
	if err := CheckBrokerChange("log.retention.ms", nil, false); err != nil {
		t.Errorf("taking a value back: %v", err)
	}
}
