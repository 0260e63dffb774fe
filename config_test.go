package firn

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/firnlog/firn/internal/config"
)

// load loads a configuration that must be accepted.
func load(t *testing.T, sources Sources) Config {
	t.Helper()
	cfg, err := LoadConfig(sources)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return cfg
}

// set loads a configuration of --set words.
func set(t *testing.T, words ...string) Config {
	t.Helper()
	return load(t, Sources{Set: words})
}

// noticesOf joins the notices, a warning with a ! before it.
func noticesOf(cfg Config) string {
	var lines []string
	for _, notice := range cfg.Settings.Notices() {
		mark := ""
		if notice.Warning {
			mark = "! "
		}
		lines = append(lines, mark+notice.Text)
	}
	return strings.Join(lines, "\n")
}

func originOf(t *testing.T, cfg Config, name string) string {
	t.Helper()
	views := cfg.Settings.All()
	i := slices.IndexFunc(views, func(v SettingView) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("%s is not shown", name)
	}
	return views[i].Origin
}

func TestDefaultsAreAWorkingNode(t *testing.T) {
	cfg := Defaults()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	bucket, err := filepath.Abs("firn-data/bucket")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		cfg.NodeID, cfg.DataDir, cfg.LogDirs, cfg.MetadataDir, cfg.ObjectStore, cfg.Listeners,
		cfg.HTTPListener, cfg.PProf, cfg.Tier.Enabled, cfg.Log.FlushPolicy, cfg.Log.RetentionCheckInterval,
		cfg.Tier.Grace, cfg.Topics, noticesOf(cfg),
	}
	want := []any{
		cfg.NodeID, "./firn-data", []string{"firn-data/log"}, "firn-data/metadata", "file://" + bucket,
		[]Listener{{"PLAINTEXT", "127.0.0.1:9092", nil}}, "127.0.0.1:9644", false, true, FlushAuto,
		5 * time.Minute, 15 * time.Minute, TopicsConfig{1, 1, true, true, false}, "",
	}
	if diff := cmp.Diff(want, got); diff != "" || cfg.NodeID != 1 {
		t.Errorf("node %d: %s", cfg.NodeID, diff)
	}
}

func TestKafkasOwnServerPropertiesStartsANode(t *testing.T) {
	var sources Sources
	if err := sources.ReadFile("testdata/server.properties"); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, sources)
	if len(cfg.Listeners) != 1 || cfg.Listeners[0].Address != ":9092" ||
		*cfg.Listeners[0].Advertised != (HostPort{"localhost", 9092}) ||
		!slices.Equal(cfg.LogDirs, []string{"/tmp/kraft-combined-logs"}) || cfg.Server.SendBuffer != 102400 {
		t.Errorf("got %+v", cfg)
	}
	if got := originOf(t, cfg, "log.dirs"); got != "testdata/server.properties line 19" {
		t.Errorf("log.dirs comes from %q", got)
	}
	want := strings.Join([]string{
		"accepted, but not acting yet: inter.broker.listener.name",
		"accepted, without effect here: controller.quorum.bootstrap.servers, num.io.threads, num.network.threads, " +
			"num.recovery.threads.per.data.dir, process.roles, share.coordinator.state.topic.min.isr, " +
			"share.coordinator.state.topic.replication.factor",
		"controller listener CONTROLLER://:9093 is not opened: a single node has nobody to talk to on it",
		"! listener PLAINTEXT://:9092 is open to other machines, and there is no authentication: anybody who reaches " +
			"it may read, write and delete everything",
	}, "\n")
	if diff := cmp.Diff(want, noticesOf(cfg)); diff != "" {
		t.Error(diff)
	}
}

func TestPrecedence(t *testing.T) {
	all := Sources{
		FileName: "server.properties", File: []byte("\n\nnum.partitions=1\nnum.partitions=2\n"),
		Environ: []string{"KAFKA_CFG_NUM_PARTITIONS=3", "KAFKA_NUM_PARTITIONS=4", "FIRN_NUM_PARTITIONS=5"},
		Set:     []string{"num.partitions=6", "num.partitions=7"},
	}
	tests := []struct {
		name       string
		weaken     func(*Sources)
		partitions int32
		origin     string
	}{
		{"the last --set is the strongest", func(*Sources) {}, 7, "--set"},
		{"then FIRN_", func(s *Sources) { s.Set = nil }, 5, "FIRN_NUM_PARTITIONS"},
		{"then KAFKA_", func(s *Sources) { s.Environ = s.Environ[:2] }, 4, "KAFKA_NUM_PARTITIONS"},
		{"then KAFKA_CFG_", func(s *Sources) { s.Environ = s.Environ[:1] }, 3, "KAFKA_CFG_NUM_PARTITIONS"},
		{"then the last line of the file", func(s *Sources) { s.Environ = nil }, 2, "server.properties line 4"},
		{"then the default", func(s *Sources) { s.File = nil }, 1, "default"},
	}
	for _, test := range tests {
		test.weaken(&all)
		cfg := load(t, all)
		if cfg.Topics.DefaultPartitions != test.partitions || originOf(t, cfg, "num.partitions") != test.origin {
			t.Errorf("%s: got %d from %s", test.name, cfg.Topics.DefaultPartitions, originOf(t, cfg, "num.partitions"))
		}
	}
}

func TestEnvironmentNames(t *testing.T) {
	// What Kafka's image makes of the same variables.
	for variable, want := range map[string]string{
		"LOG_RETENTION_MS": "log.retention.ms", "A__B_C": "a_b.c", "A___B": "a-b", "A____B": "a-.b", "A_____B": "a-_b",
		"Foo_BAR": "foo.bar", "KAFKA_METRICS_REPORTERS": "kafka.metrics.reporters",
		"LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION": "listener.name.internal.ssl.keystore.location",
	} {
		if got := settingName(variable); got != want {
			t.Errorf("%s is %s, want %s", variable, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	cfg := load(t, Sources{Environ: []string{
		"FIRN_LOG_DIRS=/a,/b", "FIRN_HTTP_LISTENER=127.0.0.1:1", "KAFKA_FIRN_HTTP_PPROF=true", "KAFKA_LOG_RETENTION_MS=5",
		"KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_OPTS=x", "KAFKA_JMX_OPTS=x", "KAFKA_LOG4J_OPTS=x", "FIRN_BROKERS=h:1",
		"FIRN_PORT=tcp://10.0.0.1:9092", "FIRN_SERVICE_HOST=10.0.0.1", "FIRN_LOG_DRIS=/x", "OTHER=1", "broken",
		"KAFKA_ZOOKEEPER_CONNECT=z:2181",
	}})
	if !slices.Equal(cfg.LogDirs, []string{"/a", "/b"}) || cfg.HTTPListener != "127.0.0.1:1" || !cfg.PProf {
		t.Errorf("got %+v", cfg)
	}
	if value, explicit := cfg.Settings.Lookup("log.retention.ms"); value != "5" || !explicit {
		t.Errorf("log.retention.ms is %q", value)
	}
	want := strings.Join([]string{
		"! zookeeper.connect (KAFKA_ZOOKEEPER_CONNECT) is ignored, Kafka 4.4 no longer has it: there is no ZooKeeper: " +
			"the metadata lies under metadata.log.dir; drop the line",
		"! FIRN_LOG_DRIS is ignored: firn.log.dris is not a setting; did you mean log.dirs?",
		"! FIRN_PORT is ignored: firn.port is not a setting",
		"! FIRN_SERVICE_HOST is ignored: firn.service.host is not a setting",
	}, "\n")
	if diff := cmp.Diff(want, noticesOf(cfg)); diff != "" {
		t.Error(diff)
	}
}

func TestPropertiesFile(t *testing.T) {
	text := "# comment \\\r\n! another\r\n\r\n" +
		"num.partitions : 3\n" +
		"  log.dirs=/a,\\\n     /b,\\\n     /c\n" +
		"firn.object.store=s3://bucket/${prefix}?endpoint=http://h:1\n" +
		"broker.rack=caf\\u00e9 \\\\\n" +
		"fetch.max.bytes 2048"
	cfg := load(t, Sources{FileName: "f", File: []byte(text)})
	if cfg.Topics.DefaultPartitions != 3 || !slices.Equal(cfg.LogDirs, []string{"/a", "/b", "/c"}) ||
		cfg.ObjectStore != "s3://bucket/${prefix}?endpoint=http://h:1" || cfg.Rack != `café \` || cfg.Fetch.MaxBytes != 2048 {
		t.Errorf("got %+v", cfg)
	}
	for name, want := range map[string]string{
		"num.partitions": "f line 4", "log.dirs": "f line 5", "firn.object.store": "f line 8", "broker.rack": "f line 9",
		"fetch.max.bytes": "f line 10", "node.id": "default",
	} {
		if got := originOf(t, cfg, name); got != want {
			t.Errorf("%s comes from %q, want %q", name, got, want)
		}
	}
}

func FuzzPropertiesFile(f *testing.F) {
	f.Add([]byte("a=b\n"))
	f.Add([]byte("# c\na:b\\\n  c\r\nd\\u00e9 e\re=${f}"))
	f.Add([]byte("\\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		assignments, err := parseFile("f", data)
		if err != nil {
			return
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, a := range assignments {
			var line int
			if _, err := fmt.Sscanf(a.origin, "f line %d", &line); err != nil || line < 1 || line > lines {
				t.Errorf("%q of %d lines comes from %q", a.name, lines, a.origin)
			}
		}
	})
}

func TestReadFileSaysWhichFileIsMissing(t *testing.T) {
	var sources Sources
	err := sources.ReadFile(filepath.Join(t.TempDir(), "none.properties"))
	if err == nil || !strings.Contains(err.Error(), "none.properties") || !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("got %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || os.IsNotExist(err) {
			return err
		}
		err = inner.Unwrap()
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name, words string // words of --set, separated by blanks
		want        string
	}{
		{"an unknown name", "num.partition=1", "--set: num.partition is not a setting; did you mean num.partitions?"},
		{"a topic setting", "retention.ms=1", "did you mean log.retention.ms?"},
		{"no value", "num.partitions", "KEY=VALUE is expected"},
		{"no number", "num.partitions=x", `--set: invalid value "x" for num.partitions: must be a whole number`},
		{"a number out of range", "fetch.max.bytes=100", "must be at least 1024"},
		{"no retention at all", "log.retention.ms=0", "must be at least 1, or -1"},
		{"a setting without effect is still read", "num.io.threads=many", "num.io.threads"},
		{"two ids", "node.id=1 broker.id=2", "must have the same value (1), not 2"},
		{"a negative id", "node.id=-1", "must be at least 0"},
		{"an authorizer", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"authorizer.class.name is refused: TLS, SASL and authorization are not supported yet"},
		{"a key store", "ssl.keystore.location=/k", "ssl.keystore.location is refused"},
		{"a key store of one listener", "listener.name.x.ssl.keystore.location=/k", "is refused"},
		{"SASL", "sasl.enabled.mechanisms=PLAIN", "sasl.enabled.mechanisms is refused"},
		{"super users", "super.users=User:admin", "super.users is refused"},
		{"SSL among brokers", "security.inter.broker.protocol=SSL", "is refused"},
		{"an SSL listener", "listeners=SSL://:9092", "SSL is a SSL listener: TLS, SASL"},
		{"a listener mapped to SASL", "listeners=A://:9092 listener.security.protocol.map=A:SASL_PLAINTEXT",
			"A is a SASL_PLAINTEXT listener"},
		{"a second listener mapped to SSL",
			"listeners=A://:9092,B://:9093 listener.security.protocol.map=A:PLAINTEXT,B:SSL", "B is a SSL listener"},
		{"a listener without a protocol", "listeners=FOO://:9092", "no security protocol for FOO"},
		{"an unknown protocol", "listener.security.protocol.map=PLAINTEXT:QUIC", `"PLAINTEXT:QUIC" is not NAME:PROTOCOL`},
		{"no listener for clients", "listeners=C://:9093 controller.listener.names=C", "no listener for clients"},
		{"a listener without a port", "listeners=PLAINTEXT://h", "is not NAME://HOST:PORT"},
		{"a listener without a name", "listeners=h:9092", "is not NAME://HOST:PORT"},
		{"a port too large", "listeners=PLAINTEXT://h:65536", "between 0 and 65535"},
		{"the same listener twice", "listeners=PLAINTEXT://h:1,PLAINTEXT://h:2", "is there twice"},
		{"no listener", "listeners=", "listeners: must not be empty"},
		{"an advertised listener that is none", "advertised.listeners=FOO://h:1", "FOO is not among the listeners"},
		{"an advertised listener without a host", "advertised.listeners=PLAINTEXT://:9092", "needs a host and a port"},
		{"an upload longer than its name", "firn.tier.upload.deadline.ms=900000", "must be less than"},
		{"more ahead than memory", "firn.tier.read.ahead.bytes=999999999999", "must not exceed"},
		{"a heartbeat as long as a session", "group.consumer.heartbeat.interval.ms=15000 group.consumer.session.timeout.ms=15000 " +
			"group.consumer.min.session.timeout.ms=15000", "must be less than group.consumer.session.timeout.ms"},
		{"a session beyond its bound", "group.consumer.session.timeout.ms=60001", "at most group.consumer.max.session.timeout.ms"},
		{"bounds the wrong way round", "group.consumer.min.assignment.interval.ms=20000", "must be at least group.consumer.min"},
		{"an assignor that does not exist", "group.consumer.assignors=uniform,sticky", "must be one of uniform, range"},
		{"no assignor", "group.consumer.assignors=", "at least one of uniform, range"},
		{"an unknown flush policy", "firn.log.flush.policy=never", "must be one of auto, os, group"},
		{"an HTTP listener without a port", "firn.http.listener=localhost", "firn.http.listener"},
		{"logs beside the metadata", "log.dirs=/x metadata.log.dir=/x/", "/x is the place of two things"},
		{"limits of addresses", "max.connections.per.ip.overrides=x", "ADDRESS:COUNT"},
		{"no replicas", "default.replication.factor=0", "must be between 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := LoadConfig(Sources{Set: strings.Fields(test.words)})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestEveryFaultIsNamedAtOnceWithItsPlace(t *testing.T) {
	file := "nope=1\nnum.partitions=x\nssl.key.password=hush\n"
	_, err := LoadConfig(Sources{FileName: "f", File: []byte(file), Set: []string{"fetch.max.bytes=1"}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"f line 1: nope", "f line 2: invalid value", "f line 3: ssl.key.password",
		"--set: invalid value \"1\" for fetch.max.bytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hush") {
		t.Error("a password is shown")
	}
}

func TestAccepted(t *testing.T) {
	tests := []struct {
		name, words string
		check       func(Config) bool
	}{
		{"security settings that say what holds anyway", "ssl.client.auth=none ssl.keystore.location= " +
			"security.inter.broker.protocol=PLAINTEXT authorizer.class.name= sasl.enabled.mechanisms=GSSAPI",
			func(c Config) bool { return noticesOf(c) == "" }},
		{"broker.id alone", "broker.id=7", func(c Config) bool { return c.NodeID == 7 }},
		{"broker.id and node.id alike", "broker.id=7 node.id=7", func(c Config) bool { return c.NodeID == 7 }},
		{"log.dir", "log.dir=/c,/d", func(c Config) bool { return slices.Equal(c.LogDirs, []string{"/c", "/d"}) }},
		{"log.dirs before log.dir", "log.dir=/c log.dirs=/a,/b,/a",
			func(c Config) bool { return slices.Equal(c.LogDirs, []string{"/a", "/b"}) }},
		{"everything under the data directory", "firn.data.dir=/data", func(c Config) bool {
			return slices.Equal(c.LogDirs, []string{"/data/log"}) && c.MetadataDir == "/data/metadata" &&
				c.ObjectStore == "file:///data/bucket"
		}},
		{"logs elsewhere", "firn.data.dir=/data log.dirs=/logs", func(c Config) bool {
			return slices.Equal(c.LogDirs, []string{"/logs"}) && c.MetadataDir == "/data/metadata"
		}},
		{"a listener of another name", "listeners=a://127.0.0.1:0 listener.security.protocol.map=A:PLAINTEXT",
			func(c Config) bool { return c.Listeners[0] == Listener{"A", "127.0.0.1:0", nil} }},
		{"an IPv6 listener", "listeners=PLAINTEXT://[::1]:9092", func(c Config) bool {
			return c.Listeners[0].Address == "[::1]:9092" && noticesOf(c) == ""
		}},
		{"two client listeners", "listeners=A://localhost:1,B://localhost:2 " +
			"listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT advertised.listeners=A://h:1,B://h:2",
			func(c Config) bool {
				a, b := c.Listeners[0], c.Listeners[1]
				return a.Name == "A" && *a.Advertised == HostPort{"h", 1} && a.Address == "localhost:1" &&
					b.Name == "B" && *b.Advertised == HostPort{"h", 2} && b.Address == "localhost:2" && noticesOf(c) == ""
			}},
		{"a controller listener with TLS, which is not opened", "listeners=PLAINTEXT://localhost:1,C://:2 " +
			"controller.listener.names=C listener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:SSL",
			func(c Config) bool { return len(c.Listeners) == 1 && c.Listeners[0].Name == "PLAINTEXT" }},
		{"no limit of idle time", "connections.max.idle.ms=-1",
			func(c Config) bool { return c.Server.IdleTimeout == longest }},
		{"no limit of memory", "queued.max.request.bytes=-1",
			func(c Config) bool { return c.Server.MaxInFlightBytes > 1<<62 }},
		{"a time-out beyond all time", "log.retention.check.interval.ms=9223372036854775807",
			func(c Config) bool { return c.Log.RetentionCheckInterval == longest }},
		{"settings of the user's naming", "rsm.config.x=1 listener.name.a.max.connections=5", func(c Config) bool {
			return noticesOf(c) == "accepted, without effect here: listener.name.a.max.connections, rsm.config.x"
		}},
		{"settings of ZooKeeper's time", "zookeeper.connect=z:2181 inter.broker.protocol.version=3.9",
			func(c Config) bool {
				return strings.Count(noticesOf(c), "Kafka 4.4 no longer has it") == 2
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if cfg := set(t, strings.Fields(test.words)...); !test.check(cfg) {
				t.Errorf("got %+v with notices %q", cfg, noticesOf(cfg))
			}
		})
	}
}

func TestBlanksAroundValuesDoNotCount(t *testing.T) {
	cfg := set(t, " num.partitions = 3 ", "log.dirs= /a , /b ", "delete.topic.enable= FALSE")
	if cfg.Topics.DefaultPartitions != 3 || !slices.Equal(cfg.LogDirs, []string{"/a", "/b"}) || cfg.Topics.DeleteEnable {
		t.Errorf("got %+v", cfg)
	}
}

// ME-11: nobody can connect to 0.0.0.0, so it is never advertised; listening on it is fine.
func TestME11UnspecifiedAddresses(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "[::]", "[::ffff:0.0.0.0]"} {
		_, err := LoadConfig(Sources{Set: []string{"advertised.listeners=PLAINTEXT://" + host + ":9092"}})
		if err == nil || !strings.Contains(err.Error(), "advertised.listeners") {
			t.Errorf("advertised %s: %v", host, err)
		}
		cfg := set(t, "listeners=PLAINTEXT://"+host+":9092")
		if cfg.Listeners[0].Advertised != nil || !strings.Contains(noticesOf(cfg), "open to other machines") {
			t.Errorf("listening on %s: advertised %v, notices %q", host, cfg.Listeners, noticesOf(cfg))
		}
	}
}

func TestAStoreThatIsNamedGetsEveryNewTopic(t *testing.T) {
	for _, test := range []struct {
		words []string
		want  bool
	}{
		{nil, false},
		{[]string{"firn.object.store=s3://b"}, true},
		{[]string{"firn.object.store=file:///d"}, true},
		{[]string{"firn.object.store=s3://b", "firn.remote.storage.default=false"}, false},
		{[]string{"firn.remote.storage.default=true"}, true},
	} {
		cfg := set(t, test.words...)
		if shown, _ := cfg.Settings.Lookup("firn.remote.storage.default"); cfg.Topics.RemoteStorage != test.want ||
			shown != fmt.Sprint(test.want) {
			t.Errorf("%q: %v, shown as %s", test.words, cfg.Topics.RemoteStorage, shown)
		}
	}
}

func TestDataDirFlag(t *testing.T) {
	cfg := load(t, Sources{DataDir: "/d", Set: []string{"firn.data.dir=/e"}})
	if cfg.DataDir != "/d" || originOf(t, cfg, "firn.data.dir") != "--data-dir" {
		t.Errorf("got %s from %s", cfg.DataDir, originOf(t, cfg, "firn.data.dir"))
	}
}

func TestSensitiveValuesAreHidden(t *testing.T) {
	settings, err := readSources(Sources{Set: []string{"num.partitions=3"}})
	if err != nil {
		t.Fatal(err)
	}
	settings.values["ssl.key.password"] = settingValue{"hush", "--set"}
	for _, view := range settings.All() {
		if view.Value != nil && strings.Contains(*view.Value, "hush") {
			t.Errorf("%s shows its value", view.Name)
		}
	}
}

// changed has another value for every setting that acts, so that each can be seen to act.
func changed() map[string]string {
	return map[string]string{
		"advertised.listeners": "PLAINTEXT://h:1", "broker.id": "2", "broker.rack": "r", "compression.type": "zstd",
		"compression.gzip.level": "5", "compression.lz4.level": "5", "compression.zstd.level": "5",
		"connections.max.idle.ms": "5", "controller.listener.names": "PLAINTEXT", "default.replication.factor": "2",
		"auto.create.topics.enable": "false", "delete.topic.enable": "false", "fetch.max.bytes": "2048", "firn.data.dir": "/d", "firn.http.listener": ":1",
		"firn.http.pprof": "true", "firn.log.dirs.reserve.bytes": "5", "firn.metrics.partitions.max": "5", "firn.log.flush.policy": "os",
		"firn.object.store": "s3://b", "firn.remote.storage.default": "true", "firn.record.validation": "header", "firn.socket.max.answer.bytes": "5",
		"firn.socket.max.requests.in.flight": "5", "firn.tier.fetch.memory.bytes": "999999999",
		"firn.tier.cache.bytes":            "5",
		"firn.tier.checkpoint.interval.ms": "5000", "firn.tier.gc.grace.ms": "5", "firn.tier.scrub.interval.ms": "5",
		"firn.tier.scrub.depth": "data", "firn.tier.verify.max.bytes.per.second": "5", "firn.tier.read.ahead.bytes": "5", "firn.tier.reservation.ms": "999999",
		"firn.tier.upload.deadline.ms": "5000", "listener.security.protocol.map": "PLAINTEXT:SSL",
		"log.cleaner.backoff.ms": "5", "log.cleaner.dedupe.buffer.size": "5000000", "log.cleaner.delete.retention.ms": "5",
		"log.cleaner.enable": "false", "log.cleaner.io.buffer.load.factor": "0.5",
		"log.cleaner.io.max.bytes.per.second": "5", "log.cleaner.max.compaction.lag.ms": "5",
		"log.cleaner.min.cleanable.ratio": "0.1", "log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.threads": "2",
		"listeners": "PLAINTEXT://h:1", "log.cleanup.policy": "compact", "log.dir": "/x", "log.dirs": "/x",
		"log.flush.interval.messages": "5", "log.flush.interval.ms": "5", "log.flush.scheduler.interval.ms": "5",
		"log.index.interval.bytes": "5", "log.index.size.max.bytes": "5", "log.local.retention.bytes": "5",
		"log.local.retention.ms": "5", "log.message.timestamp.after.max.ms": "5",
		"log.message.timestamp.before.max.ms": "5", "log.message.timestamp.type": "LogAppendTime",
		"log.remote.copy.lag.bytes": "5", "log.remote.copy.lag.ms": "5",
		"log.retention.bytes": "5", "log.retention.check.interval.ms": "5", "log.retention.hours": "5",
		"log.retention.minutes": "5", "log.retention.ms": "5", "log.roll.hours": "5", "log.roll.jitter.hours": "5",
		"log.roll.jitter.ms": "5", "log.roll.ms": "5", "log.segment.bytes": "2000000", "log.segment.delete.delay.ms": "5",
		"max.connection.creation.rate": "5",
		"max.connections":              "5", "max.connections.per.ip": "5", "max.connections.per.ip.overrides": "h:5",
		"max.incremental.fetch.session.cache.slots": "5", "message.max.bytes": "5", "metadata.log.dir": "/x",
		"group.consumer.assignors": "range", "group.consumer.heartbeat.interval.ms": "6000",
		"group.consumer.max.size": "5", "group.consumer.migration.policy": "DISABLED",
		"group.consumer.session.timeout.ms": "50000", "group.initial.rebalance.delay.ms": "5",
		"group.consumer.assignment.interval.ms": "5", "group.consumer.min.assignment.interval.ms": "5",
		"group.consumer.max.assignment.interval.ms": "5000", "group.consumer.min.heartbeat.interval.ms": "5",
		"group.consumer.max.heartbeat.interval.ms": "5000", "group.consumer.min.session.timeout.ms": "5",
		"group.consumer.max.session.timeout.ms": "50000", "offsets.commit.timeout.ms": "5",
		"group.max.session.timeout.ms": "5000000", "group.max.size": "5", "group.min.session.timeout.ms": "5",
		"offset.metadata.max.bytes": "5", "offsets.retention.check.interval.ms": "5", "offsets.retention.minutes": "5",
		"offsets.topic.compression.codec": "1", "offsets.topic.num.partitions": "5", "offsets.topic.replication.factor": "5",
		"offsets.topic.segment.bytes": "5", "transaction.state.log.min.isr": "5",
		"transaction.partition.verification.enable": "false", "transaction.max.timeout.ms": "5", "transactional.id.expiration.ms": "5",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "5",
		"transaction.remove.expired.transaction.cleanup.interval.ms":  "5",
		"transaction.state.log.num.partitions":                        "5", "transaction.state.log.replication.factor": "5",
		"transaction.state.log.segment.bytes": "5",
		"min.insync.replicas":                 "5", "node.id": "2", "num.partitions": "5", "producer.id.expiration.ms": "5",
		"queued.max.request.bytes": "5", "remote.fetch.max.wait.ms": "5", "remote.list.offsets.request.timeout.ms": "5",
		"remote.log.manager.copier.thread.pool.size": "5", "firn.tier.roll.ms": "5000",
		"remote.log.manager.copy.max.bytes.per.second": "5", "remote.log.manager.task.interval.ms": "5",
		"remote.log.reader.max.pending.tasks": "5", "remote.log.reader.threads": "5",
		"remote.log.storage.system.enable": "false", "socket.receive.buffer.bytes": "5", "socket.request.max.bytes": "5",
		"socket.send.buffer.bytes": "5", "max.decompressed.message.bytes": "5",
	}
}

// A setting that acts changes the configuration, or what topics inherit, or whether the node starts at all. One that
// is said not to act changes neither.
func TestExactlyTheSettingsThatActAct(t *testing.T) {
	defaults := Defaults()
	defaultTopic, err := config.ResolveTopic(nil, defaults.Settings.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range config.Broker() {
		value, ok := changed()[setting.Name]
		if setting.Effect != config.Acts {
			if ok && setting.Effect == config.Refused {
				t.Errorf("%s is refused and cannot act", setting.Name)
			}
			continue
		}
		if !ok {
			t.Errorf("there is no other value for %s in this test", setting.Name)
			continue
		}
		cfg, err := LoadConfig(Sources{Set: []string{setting.Name + "=" + value}})
		// These alone decide that there is no listener to open, and so whether the node starts.
		if decides := []string{"listener.security.protocol.map", "controller.listener.names"}; err != nil {
			if !slices.Contains(decides, setting.Name) {
				t.Errorf("%s: %v", setting.Name, err)
			}
			continue
		}
		topic, err := config.ResolveTopic(nil, cfg.Settings.Lookup)
		if err != nil {
			t.Errorf("%s: %v", setting.Name, err)
		}
		if topic == defaultTopic && cmp.Equal(cfg, defaults, cmpopts.IgnoreFields(Config{}, "Settings")) {
			t.Errorf("%s is said to act, and nothing reads it", setting.Name)
		}
	}
}

func TestTheLoaderReadsExactlyWhatActs(t *testing.T) {
	settings, err := readSources(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{settings: settings, read: map[string]bool{}}
	r.config()
	topicDefaults := map[string]bool{} // topics read them all, also those that do not act yet
	for _, setting := range config.Topic() {
		for _, synonym := range setting.Synonyms {
			topicDefaults[synonym] = true
		}
	}
	for _, setting := range config.Broker() {
		if acts := setting.Effect == config.Acts; r.read[setting.Name] != acts && (acts || !topicDefaults[setting.Name]) {
			t.Errorf("%s: effect %s, read %v", setting.Name, setting.Effect, r.read[setting.Name])
		}
	}
}
