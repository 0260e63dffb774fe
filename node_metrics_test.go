package firn

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

const metricsGolden = "testdata/metrics.golden"

// Dashboards and alerts know metrics by their names and labels: none is renamed or lost unseen.
func TestTheNamesOfMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startMemoryNode(t, newRoomyFS(), pebblevfs.NewMem(), "remote.log.storage.system.enable=true")
		n.createTopic("t", 1)
		if err := n.produce("t", 0, "something"); err != nil {
			t.Fatal(err)
		}
		if _, err := n.consume("t", 0); err != nil {
			t.Fatal(err)
		}
		got := n.describeMetrics()
		if *rewrite {
			if err := os.WriteFile(metricsGolden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(metricsGolden)
		if err != nil {
			t.Fatal(err)
		}
		if want := string(golden); got != want {
			gone, new := missing(want, got), missing(got, want)
			t.Errorf("metrics that are gone:\n%s\nand new:\n%s\n"+
				"Docs name them, too: see docs/operations.md. Then go test -run %s -rewrite .", gone, new, t.Name())
		}
	})
}

// describeMetrics lists all metrics of ours with their labels, and their types as far as there are series.
func (n *memoryNode) describeMetrics() string {
	n.t.Helper()
	families, err := n.deps.Registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	types := map[string]string{}
	for _, family := range families {
		types[family.GetName()] = " " + strings.ToLower(family.GetType().String())
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		n.deps.Registry.Describe(descriptions)
	}()
	form := regexp.MustCompile(`fqName: "((?:kafka|firn)_[^"]*)".*constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	var lines []string
	for description := range descriptions {
		if found := form.FindStringSubmatch(description.String()); found != nil {
			line := found[1] + types[found[1]]
			if labels := strings.Trim(found[2]+","+found[3], ","); labels != "" {
				line += " {" + labels + "}"
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

// missing are the lines of one text that the other does not have.
func missing(of, in string) string {
	there := strings.Split(in, "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(of, "\n"), func(line string) bool {
		return slices.Contains(there, line)
	}), "\n")
}

func TestMetricsOfTheClusterAreThoseOfItsController(t *testing.T) {
	img := image.Empty().WithBroker(&image.Broker{ID: 1}).WithBroker(&image.Broker{ID: 2}).WithTopic(&image.Topic{
		ID: kafka.TopicID{1}, Name: "t", Partitions: []image.Partition{
			{Leader: 1, Replicas: []kafka.BrokerID{1, 2}},
			{Leader: 1, Replicas: []kafka.BrokerID{2, 1}},
			{Leader: kafka.NoBroker, Replicas: []kafka.BrokerID{2}},
		},
	})
	want := clusterCounts{topics: 1, partitions: 3, offline: 1, imbalance: 2, brokers: 2}
	if got := countCluster(img); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	synctest.Test(t, func(t *testing.T) {
		n := startMemoryNode(t, newRoomyFS(), pebblevfs.NewMem())
		n.createTopic("t", 3)
		for name, want := range map[string]float64{
			"kafka_controller_kafkacontroller_activecontrollercount": 1,
			"kafka_controller_kafkacontroller_globalpartitioncount":  3,
			"kafka_controller_kafkacontroller_activebrokercount":     1,
			"kafka_server_kafkaserver_brokerstate":                   3,
		} {
			if got := n.gauge(name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		n.stopAll()
		if got := n.brokerState(); got != brokerStopping {
			t.Errorf("stopped, the state is %d", got)
		}
	})
}

func (n *memoryNode) gauge(name string) float64 {
	n.t.Helper()
	families, err := n.deps.Registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	n.t.Fatalf("there is no %s", name)
	return 0
}
