package replica

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// The metrics of this package have the names under which the JMX exporter publishes Kafka's own, so that dashboards
// made for Kafka show a firn broker:
//
//	kafka_server_brokertopicmetrics_{messagesin,bytesin,bytesout,bytesrejected}_total{topic}
//	kafka_server_brokertopicmetrics_{totalproducerequests,failedproducerequests}_total{topic}
//	kafka_server_brokertopicmetrics_{totalfetchrequests,failedfetchrequests}_total{topic}
//	kafka_server_replicamanager_{partitioncount,leadercount,offlinereplicacount,underreplicatedpartitions,
//	    underminisrpartitioncount,atminisrpartitioncount}
//	kafka_cluster_partition_{replicascount,insyncreplicascount,underreplicated,underminisr,laststableoffsetlag}
//	    {topic,partition}
//	kafka_log_log_{size,logstartoffset,logendoffset,numlogsegments}{topic,partition}
//
// What is counted by topic is counted for all topics as well: under the topic "", which to Prometheus is no label, as
// Kafka's own is. Series per partition are left out while there are more partitions than firn.metrics.partitions.max,
// and series per topic while there are more topics: a scrape of hundreds of megabytes helps nobody (MX-10).

// topicCounts is what is counted for one topic. The counters are its own, on lines of their own, as they are written by
// every request.
type topicCounts struct {
	all *topicCounts // what is counted for all topics together; nil there

	messagesIn, bytesIn, bytesOut  atomic.Int64
	bytesRejected                  atomic.Int64
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
	// maxPartitions bounds the series per partition, and those per topic.
	maxPartitions int

	topics []topicSeries

	partitions, leaders, offline, underReplicated, underMinISR, atMinISR *prometheus.Desc

	replicas, inSync, isUnderReplicated, isUnderMinISR, lastStableLag *prometheus.Desc

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
	partition := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"topic", "partition"}, nil)
	}
	return &collector{
		manager: m, maxPartitions: maxPartitions,
		topics: []topicSeries{
			topic("messagesin", "Records appended.", func(c *topicCounts) *atomic.Int64 { return &c.messagesIn }),
			topic("bytesin", "Bytes of batches appended.", func(c *topicCounts) *atomic.Int64 { return &c.bytesIn }),
			topic("bytesout", "Bytes of batches answered to fetches.",
				func(c *topicCounts) *atomic.Int64 { return &c.bytesOut }),
			topic("bytesrejected", "Bytes of batches that were too large.",
				func(c *topicCounts) *atomic.Int64 { return &c.bytesRejected }),
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
		atMinISR:        broker("atminisrpartitioncount", "Led partitions that may lose no replica in sync."),

		replicas:          partition("kafka_cluster_partition_replicascount", "Replicas of a led partition."),
		inSync:            partition("kafka_cluster_partition_insyncreplicascount", "Replicas in sync of a led partition."),
		isUnderReplicated: partition("kafka_cluster_partition_underreplicated", "1 if some replica is not in sync."),
		isUnderMinISR:     partition("kafka_cluster_partition_underminisr", "1 if too few are in sync for acks=all."),
		lastStableLag: partition("kafka_cluster_partition_laststableoffsetlag",
			"How far the last stable offset is behind the high watermark."),

		logSize:     partition("kafka_log_log_size", "Bytes of the local log."),
		logStart:    partition("kafka_log_log_logstartoffset", "Log start offset."),
		logEnd:      partition("kafka_log_log_logendoffset", "Log end offset."),
		logSegments: partition("kafka_log_log_numlogsegments", "Local segments."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, series := range c.topics {
		descriptions <- series.description
	}
	for _, description := range []*prometheus.Desc{
		c.partitions, c.leaders, c.offline, c.underReplicated, c.underMinISR, c.atMinISR,
		c.replicas, c.inSync, c.isUnderReplicated, c.isUnderMinISR, c.lastStableLag,
		c.logSize, c.logStart, c.logEnd, c.logSegments,
	} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	partitions := c.manager.Partitions()
	topics := map[string]*topicCounts{}
	for _, p := range partitions {
		topics[p.topicPartition.Topic] = p.counts
	}
	if len(topics) > c.maxPartitions {
		clear(topics)
	}
	topics[""] = &c.manager.totals
	for topic, counts := range topics {
		for _, series := range c.topics {
			metrics <- prometheus.MustNewConstMetric(series.description, prometheus.CounterValue,
				float64(series.value(counts).Load()), topic)
		}
	}
	c.collectTotals(partitions, metrics)
	if len(partitions) > c.maxPartitions {
		return
	}
	for _, p := range partitions {
		c.collectPartition(p, metrics)
	}
}

func gauge(metrics chan<- prometheus.Metric, description *prometheus.Desc, value int64, labels ...string) {
	metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(value), labels...)
}

// collectTotals exports what is counted over all partitions.
func (c *collector) collectTotals(partitions []*Partition, metrics chan<- prometheus.Metric) {
	var leaders, offline, underReplicated, underMinISR, atMinISR int64
	for _, p := range partitions {
		if log, err := p.Log(); err != nil || log.Err() != nil {
			offline++
		}
		health := p.health()
		if !health.leads {
			continue
		}
		leaders++
		underReplicated += health.underReplicated
		underMinISR += health.underMinISR
		atMinISR += health.atMinISR
	}
	gauge(metrics, c.partitions, int64(len(partitions)))
	gauge(metrics, c.leaders, leaders)
	gauge(metrics, c.offline, offline)
	gauge(metrics, c.underReplicated, underReplicated)
	gauge(metrics, c.underMinISR, underMinISR)
	gauge(metrics, c.atMinISR, atMinISR)
}

// collectPartition exports the series of one partition: of its replicas where it is led, of its log where it lies.
func (c *collector) collectPartition(p *Partition, metrics chan<- prometheus.Metric) {
	topic, partition := p.topicPartition.Topic, strconv.Itoa(int(p.topicPartition.Partition))
	log, err := p.Log()
	if health := p.health(); health.leads {
		gauge(metrics, c.replicas, health.replicas, topic, partition)
		gauge(metrics, c.inSync, health.inSync, topic, partition)
		gauge(metrics, c.isUnderReplicated, health.underReplicated, topic, partition)
		gauge(metrics, c.isUnderMinISR, health.underMinISR, topic, partition)
		if err == nil {
			stable := log.LastStableOffset() // before the other, which only grows
			gauge(metrics, c.lastStableLag, log.HighWatermark()-stable, topic, partition)
		}
	}
	if err != nil {
		return
	}
	gauge(metrics, c.logSize, log.Size(), topic, partition)
	gauge(metrics, c.logStart, log.LogStartOffset(), topic, partition)
	gauge(metrics, c.logEnd, log.EndOffset(), topic, partition)
	gauge(metrics, c.logSegments, int64(len(log.Segments())), topic, partition)
}

// partitionHealth is the state of a partition's replicas; conditions are 1 or 0, as they are exported.
type partitionHealth struct {
	leads                                  bool
	replicas, inSync                       int64
	underReplicated, underMinISR, atMinISR int64
}

func (p *Partition) health() partitionHealth {
	state := p.state.Load()
	h := partitionHealth{
		leads:    state.leader == p.manager.options.BrokerID,
		replicas: int64(state.replicas), inSync: int64(state.isr),
	}
	required := p.requiredInSync(state)
	switch {
	case state.isr < required:
		h.underMinISR = 1
	case state.isr == required:
		h.atMinISR = 1
	}
	if state.isr < state.replicas {
		h.underReplicated = 1
	}
	return h
}

// countAppend counts one partition of a Produce request, which came with so many bytes.
func (p *Partition) countAppend(summary record.Summary, bytes int, err error) {
	for counts := p.counts; counts != nil; counts = counts.all {
		counts.produceRequests.Add(1)
		if err == nil {
			counts.messagesIn.Add(int64(summary.Count))
			counts.bytesIn.Add(int64(summary.Size))
			continue
		}
		counts.produceFailed.Add(1)
		if errors.Is(err, kafka.MessageTooLarge) {
			counts.bytesRejected.Add(int64(bytes))
		}
	}
}

// CountFetch counts one partition of a Fetch answer that has been sent.
func (p *Partition) CountFetch(result *FetchResult) {
	for counts := p.counts; counts != nil; counts = counts.all {
		counts.fetchRequests.Add(1)
		if result.Err != nil {
			counts.fetchFailed.Add(1)
		}
		counts.bytesOut.Add(int64(result.Size()))
	}
}
