package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// series answers every series of a scrape, as name{labels} → value.
func (n *testNode) series() map[string]float64 {
	n.t.Helper()
	families, err := n.registry.Gather()
	check(n.t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += fmt.Sprintf(" %s=%s", label.GetName(), label.GetValue())
			}
			found[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return found
}

func TestMetricsUnderTheNamesOfKafkasExporter(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 2)
	n.produce("a", 1, "x", "y")
	n.produce("a", 1, "z")
	n.produceCode(produceRequest("a", kafka.TopicID{}, 0, acksAll, []byte("junk")), 9)
	got := n.fetchAll("a", 1, 0)
	n.fetchAll("a", 1, 99)
	n.createTopic("gone", 1)
	n.produce("gone", 0, "x")
	n.deleteTopic("gone", 0)
	large := batch(strings.Repeat("x", 2<<20))
	n.produceCode(produceRequest("a", kafka.TopicID{}, 0, acksAll, large), 9)
	series := n.series()
	for name, want := range map[string]float64{
		"kafka_server_brokertopicmetrics_messagesin_total topic=a":            3,
		"kafka_server_brokertopicmetrics_bytesin_total topic=a":               float64(len(got.RecordBatches)),
		"kafka_server_brokertopicmetrics_bytesout_total topic=a":              float64(len(got.RecordBatches)),
		"kafka_server_brokertopicmetrics_messagesin_total topic=":             4, // of all topics, the deleted one included
		"kafka_server_brokertopicmetrics_bytesrejected_total topic=a":         float64(len(large)),
		"kafka_server_brokertopicmetrics_totalproducerequests_total topic=a":  4,
		"kafka_server_brokertopicmetrics_failedproducerequests_total topic=a": 2,
		"kafka_server_brokertopicmetrics_totalfetchrequests_total topic=a":    2,
		"kafka_server_brokertopicmetrics_failedfetchrequests_total topic=a":   1,
		"kafka_server_replicamanager_partitioncount":                          2,
		"kafka_server_replicamanager_leadercount":                             2,
		"kafka_server_replicamanager_offlinereplicacount":                     0,
		"kafka_server_replicamanager_underreplicatedpartitions":               0,
		"kafka_server_replicamanager_atminisrpartitioncount":                  2,
		"kafka_cluster_partition_replicascount partition=1 topic=a":           1,
		"kafka_cluster_partition_insyncreplicascount partition=1 topic=a":     1,
		"kafka_cluster_partition_underreplicated partition=1 topic=a":         0,
		"kafka_cluster_partition_underminisr partition=1 topic=a":             0,
		"kafka_cluster_partition_laststableoffsetlag partition=1 topic=a":     0,
		"kafka_log_log_logendoffset partition=1 topic=a":                      3,
		"kafka_log_log_logstartoffset partition=1 topic=a":                    0,
		"kafka_log_log_size partition=1 topic=a":                              float64(len(got.RecordBatches)),
	} {
		if value, ok := series[name]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), want %v", name, value, ok, want)
		}
	}
}

func TestMX05SeriesGoWithTheTopic(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	n.produce("a", 0, "x")
	n.deleteTopic("a", 0)
	for name := range n.series() {
		if name == "kafka_server_brokertopicmetrics_messagesin_total topic=a" ||
			name == "kafka_log_log_size partition=0 topic=a" {
			t.Errorf("%s is still there", name)
		}
	}
	n.createTopic("a", 1)
	if got := n.series()["kafka_server_brokertopicmetrics_messagesin_total topic=a"]; got != 0 {
		t.Errorf("a topic created again begins with %v messages", got)
	}
}

func TestMX10ManyPartitionsHaveNoSeriesOfTheirOwn(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 10)
	if _, ok := n.series()["kafka_log_log_size partition=9 topic=a"]; !ok {
		t.Error("ten partitions have no series, and ten are allowed")
	}
	n.createTopic("b", 1)
	series := n.series()
	if _, ok := series["kafka_log_log_size partition=9 topic=a"]; ok {
		t.Error("eleven partitions have series, and ten are allowed")
	}
	if series["kafka_server_replicamanager_partitioncount"] != 11 {
		t.Error("the totals are gone")
	}
	if _, ok := series["kafka_server_brokertopicmetrics_bytesin_total topic=b"]; !ok {
		t.Error("two topics have no series, and ten are allowed")
	}
	for i := range 9 {
		n.createTopic(fmt.Sprint("more-", i), 1)
	}
	series = n.series()
	if _, ok := series["kafka_server_brokertopicmetrics_bytesin_total topic=b"]; ok {
		t.Error("eleven topics have series, and ten are allowed")
	}
	if _, ok := series["kafka_server_brokertopicmetrics_bytesin_total topic="]; !ok {
		t.Error("the sum over all topics is gone")
	}
}
