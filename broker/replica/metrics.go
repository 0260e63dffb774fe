package replica

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
)

// The metrics of this package have the names under which the JMX exporter publishes Kafka's own, so that dashboards
// made for Kafka show a firn broker:
//
//	kafka_server_brokertopicmetrics_{messagesin,bytesin,bytesout}_total{topic}
//	kafka_server_brokertopicmetrics_{totalproducerequests,failedproducerequests}_total{topic}
//	kafka_server_brokertopicmetrics_{totalfetchrequests,failedfetchrequests}_total{topic}
//	kafka_server_replicamanager_{partitioncount,leadercount,offlinereplicacount,underreplicatedpartitions,
//	    underminisrpartitioncount}
//	kafka_log_log_{size,logstartoffset,logendoffset,numlogsegments}{topic,partition}
//
// Series per partition are left out while there are more partitions than firn.metrics.partitions.max: a scrape of
// hundreds of megabytes helps nobody (MX-10).

// topicCounts is what is counted for one topic. The counters are its own, on lines of their own, as they are written by
// every request.
type topicCounts struct {
	messagesIn, bytesIn, bytesOut  atomic.Int64
	produceRequests, produceFailed atomic.Int64
	fetchRequests, fetchFailed     atomic.Int64
}

// topicSeries joins a counter with its name.
type topicSeries struct {
	description *prometheus.Desc
	value       func(*topicCounts) *atomic.Int64
}

// collector shows the manager's counters and the state of its partitions at the moment of a scrape: nothing is kept
// twice, and what is deleted is gone from the next scrape.
type collector struct {
	manager *Manager
	// maxPartitions bounds the series per partition.
	maxPartitions int

	topics []topicSeries

	partitions, leaders, offline, underReplicated, underMinISR *prometheus.Desc

	logSize, logStart, logEnd, logSegments *prometheus.Desc
}

func newCollector(m *Manager, maxPartitions int) *collector {
	topic := func(name, help string, value func(*topicCounts) *atomic.Int64) topicSeries {
		return topicSeries{prometheus.NewDesc(
			"kafka_server_brokertopicmetrics_"+name+"_total", help, []string{"topic"}, nil), value}
	}
	broker := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kafka_server_replicamanager_"+name, help, nil, nil)
	}
	log := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kafka_log_log_"+name, help, []string{"topic", "partition"}, nil)
	}
	return &collector{
		manager: m, maxPartitions: maxPartitions,
		topics: []topicSeries{
			topic("messagesin", "Records appended.", func(c *topicCounts) *atomic.Int64 { return &c.messagesIn }),
			topic("bytesin", "Bytes of batches appended.", func(c *topicCounts) *atomic.Int64 { return &c.bytesIn }),
			topic("bytesout", "Bytes of batches answered to fetches.",
				func(c *topicCounts) *atomic.Int64 { return &c.bytesOut }),
			topic("totalproducerequests", "Partitions of Produce requests.",
				func(c *topicCounts) *atomic.Int64 { return &c.produceRequests }),
			topic("failedproducerequests", "Partitions of Produce requests that were refused.",
				func(c *topicCounts) *atomic.Int64 { return &c.produceFailed }),
			topic("totalfetchrequests", "Partitions of Fetch answers.",
				func(c *topicCounts) *atomic.Int64 { return &c.fetchRequests }),
			topic("failedfetchrequests", "Partitions of Fetch answers with an error.",
				func(c *topicCounts) *atomic.Int64 { return &c.fetchFailed }),
		},
		partitions:      broker("partitioncount", "Partitions with a replica on this broker."),
		leaders:         broker("leadercount", "Partitions that this broker leads."),
		offline:         broker("offlinereplicacount", "Replicas on this broker whose log cannot be used."),
		underReplicated: broker("underreplicatedpartitions", "Led partitions with replicas that are not in sync."),
		underMinISR:     broker("underminisrpartitioncount", "Led partitions with too few replicas in sync for acks=all."),
		logSize:         log("size", "Bytes of the local log."),
		logStart:        log("logstartoffset", "Log start offset."),
		logEnd:          log("logendoffset", "Log end offset."),
		logSegments:     log("numlogsegments", "Local segments."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, series := range c.topics {
		descriptions <- series.description
	}
	for _, description := range []*prometheus.Desc{
		c.partitions, c.leaders, c.offline, c.underReplicated, c.underMinISR,
		c.logSize, c.logStart, c.logEnd, c.logSegments,
	} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	partitions := c.manager.Partitions()
	topics := map[string]*topicCounts{}
	var leaders, offline, underReplicated, underMinISR int
	for _, p := range partitions {
		topics[p.topicPartition.Topic] = p.counts
		if log, err := p.Log(); err != nil || log.Err() != nil {
			offline++
		}
		state := p.state.Load()
		if state.leader != c.manager.options.BrokerID {
			continue
		}
		leaders++
		if state.isr < state.replicas {
			underReplicated++
		}
		if p.checkInsyncReplicas() != nil {
			underMinISR++
		}
	}
	gauge := func(description *prometheus.Desc, value int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(c.partitions, int64(len(partitions)))
	gauge(c.leaders, int64(leaders))
	gauge(c.offline, int64(offline))
	gauge(c.underReplicated, int64(underReplicated))
	gauge(c.underMinISR, int64(underMinISR))
	for topic, counts := range topics {
		for _, series := range c.topics {
			metrics <- prometheus.MustNewConstMetric(series.description, prometheus.CounterValue,
				float64(series.value(counts).Load()), topic)
		}
	}
	if len(partitions) > c.maxPartitions {
		return
	}
	for _, p := range partitions {
		log, err := p.Log()
		if err != nil {
			continue
		}
		topic, partition := p.topicPartition.Topic, partitionLabel(p.topicPartition)
		gauge(c.logSize, log.Size(), topic, partition)
		gauge(c.logStart, log.LogStartOffset(), topic, partition)
		gauge(c.logEnd, log.EndOffset(), topic, partition)
		gauge(c.logSegments, int64(len(log.Segments())), topic, partition)
	}
}

func partitionLabel(tp kafka.TopicPartition) string { return strconv.Itoa(int(tp.Partition)) }

// countAppend counts one partition of a Produce request.
func (p *Partition) countAppend(records, bytes int, err error) {
	p.counts.produceRequests.Add(1)
	if err != nil {
		p.counts.produceFailed.Add(1)
		return
	}
	p.counts.messagesIn.Add(int64(records))
	p.counts.bytesIn.Add(int64(bytes))
}

// CountFetch counts one partition of a Fetch answer that has been sent.
func (p *Partition) CountFetch(result *FetchResult) {
	p.counts.fetchRequests.Add(1)
	if result.Err != nil {
		p.counts.fetchFailed.Add(1)
	}
	p.counts.bytesOut.Add(int64(result.Size()))
}
