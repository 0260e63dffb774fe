package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// standardRow is a line of testdata/kafka-4.4.tsv: what Apache Kafka 4.4.0 itself says about a setting.
type standardRow struct{ kind, name, typ, value, extra string }

func readStandard(t *testing.T) []standardRow {
	t.Helper()
	data, err := os.ReadFile("testdata/kafka-4.4.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []standardRow
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 5 {
			t.Fatalf("line %q has %d fields, not 5", line, len(fields))
		}
		rows = append(rows, standardRow{fields[0], fields[1], fields[2], fields[3], fields[4]})
	}
	return rows
}

func TestTablesAreThoseOfKafka44(t *testing.T) {
	standard := readStandard(t)
	seen := map[string]bool{}
	for _, want := range standard {
		lookup := LookupBroker
		switch want.kind {
		case "topic":
			lookup = LookupTopic
		case "group":
			lookup = LookupGroup
		}
		got, ok := lookup(want.name)
		if !ok || got.Effect == Removed {
			t.Errorf("%s setting %s of Kafka is not in the table", want.kind, want.name)
			continue
		}
		seen[want.kind+" "+want.name] = true
		if got.Type.String() != want.typ {
			t.Errorf("%s is a %s, in Kafka a %s", want.name, got.Type, want.typ)
		}
		if value := standardDefault(got); value != want.value && (want.value != required || value != null) {
			t.Errorf("%s records %q as Kafka's default, which is %q", want.name, value, want.value)
		}
		if want.kind == "topic" || want.kind == "group" {
			if synonyms := strings.Join(got.Synonyms, ","); synonyms != want.extra {
				t.Errorf("%s inherits from %q, in Kafka from %q", want.name, synonyms, want.extra)
			}
			continue
		}
		if update := updateName(got.Update); update != want.extra {
			t.Errorf("%s is %s, in Kafka %s", want.name, update, want.extra)
		}
	}
	for _, setting := range Topic() {
		if !setting.Own() && !seen["topic "+setting.Name] {
			t.Errorf("topic setting %s is not in Kafka", setting.Name)
		}
	}
	for _, setting := range Group() {
		if !seen["group "+setting.Name] {
			t.Errorf("setting %s of groups is not in Kafka", setting.Name)
		}
	}
	for _, setting := range Broker() {
		if !setting.Own() && !seen["broker "+setting.Name] && !seen["dynamic "+setting.Name] {
			t.Errorf("broker setting %s is not in Kafka", setting.Name)
		}
	}
}

func standardDefault(s Setting) string {
	if s.KafkaDefault == nil {
		return null
	}
	return *s.KafkaDefault
}

func updateName(u Update) string {
	return map[Update]string{ReadOnly: "read-only", PerBroker: "per-broker", ClusterWide: "cluster-wide"}[u]
}

func TestEveryDefaultThatIsNotKafkasHasAReason(t *testing.T) {
	var departures []string
	for _, setting := range Departures() {
		departures = append(departures, setting.Name)
	}
	want := []string{
		"controller.listener.names", "listeners", "log.dir", "metadata.log.dir", "node.id", "process.roles",
		"queued.max.request.bytes", "remote.log.storage.system.enable", "socket.receive.buffer.bytes",
		"socket.send.buffer.bytes",
	}
	if !slices.Equal(departures, want) {
		t.Errorf("the departures are %q, want %q", departures, want)
	}
	for _, setting := range Broker() {
		same := setting.HasDefault && setting.KafkaDefault != nil && setting.Default == *setting.KafkaDefault ||
			!setting.HasDefault && setting.KafkaDefault == nil
		if same == (setting.Reason != "") && !setting.Own() {
			t.Errorf("%s: default %q, Kafka's %q, reason %q", setting.Name, setting.Default, standardDefault(setting),
				setting.Reason)
		}
	}
}

func TestEverySettingIsDocumentedAndItsDefaultIsAllowed(t *testing.T) {
	for _, setting := range slices.Concat(Broker(), Topic(), Group()) {
		if setting.Doc == "" {
			t.Errorf("%s has no documentation", setting.Name)
		}
		if !setting.HasDefault {
			continue
		}
		if err := setting.Validate(setting.Default); err != nil {
			t.Errorf("the default is not allowed: %v", err)
		}
	}
}

func TestTheEnvironmentKnowsOneSettingPerName(t *testing.T) {
	for _, setting := range Broker() {
		rest, own := strings.CutPrefix(setting.Name, Prefix)
		if !own {
			continue
		}
		if other, clash := LookupBroker(rest); clash {
			t.Errorf("the environment cannot tell %s from %s", setting.Name, other.Name)
		}
	}
}

func TestSecurityIsRefusedAndNothingElse(t *testing.T) {
	other := []string{
		"authorizer.class.name", "delegation.token.secret.key", "principal.builder.class", "security.inter.broker.protocol",
		"security.providers",
	}
	renewals := []string{
		"sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
		"sasl.kerberos.ticket.renew.window.factor", "sasl.login.refresh.buffer.seconds",
		"sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
	}
	for _, setting := range Broker() {
		if slices.Contains(renewals, setting.Name) {
			if setting.Effect != NoEffect {
				t.Errorf("%s: effect %s", setting.Name, setting.Effect)
			}
			continue
		}
		security := strings.HasPrefix(setting.Name, "ssl.") || strings.HasPrefix(setting.Name, "sasl.") ||
			slices.Contains(other, setting.Name)
		if security != (setting.Effect == Refused) {
			t.Errorf("%s: effect %s", setting.Name, setting.Effect)
		}
	}
}

func TestLookupBroker(t *testing.T) {
	tests := []struct {
		name   string
		known  bool
		effect Effect
		doc    string
	}{
		{"log.dirs", true, Acts, ""},
		{"LOG.DIRS", false, 0, ""},
		{"zookeeper.connect", true, Removed, "there is no ZooKeeper"},
		{"zookeeper.ssl.client.enable", true, Removed, "there is no ZooKeeper"},
		{"inter.broker.protocol.version", true, Removed, "negotiated"},
		{"log.message.format.version", true, Removed, "negotiated"},
		{"host.name", true, Removed, "set listeners"},
		{"advertised.port", true, Removed, "set advertised.listeners"},
		{"delegation.token.master.key", true, Removed, "delegation.token.secret.key"},
		{"rsm.config.fetch.chunk.size", true, NoEffect, "firn.object.store"},
		{"rlmm.config.x", true, NoEffect, "metadata of the cluster"},
		{"listener.name.external.max.connections", true, NoEffect, ""},
		{"listener.name.external.ssl.keystore.location", true, Refused, "open the broker"},
		{"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", true, Refused, "open the broker"},
		{"broker.id", true, Acts, "node.id"},
		{"num.network.thread", false, 0, ""},
	}
	for _, test := range tests {
		got, ok := LookupBroker(test.name)
		if ok != test.known || ok && got.Effect != test.effect || !strings.Contains(got.Doc, test.doc) {
			t.Errorf("%s: known %v, effect %v, doc %q", test.name, ok, got.Effect, got.Doc)
		}
	}
}

func TestNearest(t *testing.T) {
	tests := map[string]string{
		"num.network.thread":       "num.network.threads",
		"log.dris":                 "log.dirs",
		"log.retention.hour":       "log.retention.hours",
		"LOG.RETENTION.MS":         "log.retention.ms",
		"firn.objectstore":         "firn.object.store",
		"firn.log.dris":            "log.dirs",
		"segment.ms":               "log.roll.ms",
		"advertised.listener":      "advertised.listeners",
		"something.else.entirely!": "",
		"":                         "",
	}
	for name, want := range tests {
		if got := Nearest(name); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
	if got := NearestTopic("retention"); got != "retention.ms" {
		t.Errorf("nearest topic setting to retention is %q", got)
	}
}
