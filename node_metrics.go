package firn

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// The metrics of the node as a whole and of the cluster as its controller sees it, under the names of Kafka's own:
//
//	kafka_server_kafkaserver_brokerstate                           1 starting, 3 running, 6 stopping
//	kafka_controller_kafkacontroller_activecontrollercount         1 on the controller
//	kafka_controller_kafkacontroller_{globaltopiccount,globalpartitioncount,offlinepartitionscount,
//	    preferredreplicaimbalancecount,activebrokercount}          0 elsewhere
type nodeCollector struct {
	node *Node

	brokerState, activeController, topics, partitions, offline, imbalance, brokers *prometheus.Desc
}

func newNodeCollector(n *Node) *nodeCollector {
	controller := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kafka_controller_kafkacontroller_"+name, help, nil, nil)
	}
	return &nodeCollector{
		node: n,
		brokerState: prometheus.NewDesc("kafka_server_kafkaserver_brokerstate",
			"1 while the broker starts, 3 while it runs, 6 while it stops.", nil, nil),
		activeController: controller("activecontrollercount", "1 on the broker that is the controller."),
		topics:           controller("globaltopiccount", "Topics of the cluster."),
		partitions:       controller("globalpartitioncount", "Partitions of the cluster."),
		offline:          controller("offlinepartitionscount", "Partitions that nobody leads."),
		imbalance:        controller("preferredreplicaimbalancecount", "Partitions not led by their first replica."),
		brokers:          controller("activebrokercount", "Registered brokers."),
	}
}

// Describe implements prometheus.Collector.
func (c *nodeCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		c.brokerState, c.activeController, c.topics, c.partitions, c.offline, c.imbalance, c.brokers,
	} {
		descriptions <- description
	}
}

// The states of a broker, in Kafka's numbers.
const (
	brokerStarting = 1
	brokerRunning  = 3
	brokerStopping = 6
)

// Collect implements prometheus.Collector.
func (c *nodeCollector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value int) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(value))
	}
	gauge(c.brokerState, c.node.brokerState())
	img := c.node.meta.Image()
	var seen clusterCounts
	active := 0
	if img.Controller == c.node.config.NodeID {
		active, seen = 1, countCluster(img)
	}
	gauge(c.activeController, active)
	gauge(c.topics, seen.topics)
	gauge(c.partitions, seen.partitions)
	gauge(c.offline, seen.offline)
	gauge(c.imbalance, seen.imbalance)
	gauge(c.brokers, seen.brokers)
}

func (n *Node) brokerState() int {
	switch {
	case n.stopping.Load():
		return brokerStopping
	case n.ready.Load():
		return brokerRunning
	}
	return brokerStarting
}

// clusterCounts is what a controller counts over the whole cluster.
type clusterCounts struct{ topics, partitions, offline, imbalance, brokers int }

func countCluster(img *image.Image) clusterCounts {
	counts := clusterCounts{topics: img.TopicCount(), brokers: len(img.Brokers)}
	for topic := range img.Topics() {
		counts.partitions += len(topic.Partitions)
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			switch {
			case p.Leader == kafka.NoBroker:
				counts.offline++
				counts.imbalance++
			case len(p.Replicas) > 0 && p.Leader != p.Replicas[0]:
				counts.imbalance++
			}
		}
	}
	return counts
}
