//go:build integration

package differential

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firnlog/firn"
	"github.com/firnlog/firn/integration/launch"
)

// coordinators are set for both brokers: Kafka makes the topics of its coordinators on three brokers or not at all, and
// takes its time for many partitions.
var coordinators = []string{
	"group.initial.rebalance.delay.ms=0", "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=5",
	"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	"transaction.state.log.num.partitions=5",
}

// startKafka runs one node of Apache Kafka until the test ends and returns where it serves. What else it would set is in
// the answers of DescribeConfigs, and in the table of differences.
func startKafka(t *testing.T, settings ...string) *peer {
	t.Helper()
	lib := os.Getenv("FIRN_KAFKA_LIB")
	switch version, err := launch.KafkaVersion(lib); {
	case err == nil && strings.HasPrefix(version, "4.4."):
	case os.Getenv("FIRN_CI") != "":
		t.Fatalf("there must be an Apache Kafka 4.4 to compare with, not %q: %v", version, err)
	default:
		t.Skipf("no Apache Kafka 4.4 to compare with: %v", err)
	}
	kafka := launch.Kafka{
		Lib: lib, Dir: t.TempDir(), CPU: launch.AnyCPU,
		// It lives for a minute: what makes it fast later would make it slow now.
		Java:     []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx768m"},
		Settings: append(slices.Clone(coordinators), settings...),
	}
	broker, err := kafka.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Kill) // nobody reads its files again
	p := &peer{name: "kafka", address: broker.Address, logs: filepath.Join(kafka.Dir, "logs")}
	t.Cleanup(p.close)
	return p
}

// startFirn runs a node of firn in this process, with nothing else set but where it listens and keeps its data.
func startFirn(t *testing.T, settings ...string) *peer {
	t.Helper()
	dir := t.TempDir()
	cfg, err := firn.LoadConfig(firn.Sources{
		DataDir: dir,
		Set: slices.Concat([]string{"node.id=1", "listeners=PLAINTEXT://127.0.0.1:0", "firn.http.listener=127.0.0.1:0"},
			coordinators, settings),
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := firn.Start(t.Context(), cfg, firn.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	p := &peer{name: "firn", address: node.Addr(), http: node.HTTPAddr(), logs: filepath.Join(dir, "log")}
	t.Cleanup(p.close)
	return p
}
