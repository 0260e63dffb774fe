package tiering

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/tiering/upload"
)

// lagCollector computes how far the tier lags behind at each scrape, from where logs and metadata stand: figures that
// events add up would be wrong exactly when something fails.
type lagCollector struct{ manager *Manager }

var (
	lagBytesDesc = prometheus.NewDesc("kafka_server_brokertopicmetrics_remotecopylagbytes",
		"Bytes of sealed local segments that are not in the object store yet.", []string{"topic"}, nil)
	lagSegmentsDesc = prometheus.NewDesc("kafka_server_brokertopicmetrics_remotecopylagsegments",
		"Sealed local segments that are not in the object store yet.", []string{"topic"}, nil)
	remoteBytesDesc = prometheus.NewDesc("kafka_server_brokertopicmetrics_remotelogsizebytes",
		"Bytes of the objects that are part of the log.", []string{"topic"}, nil)
)

// Describe implements prometheus.Collector.
func (c *lagCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- lagBytesDesc
	descriptions <- lagSegmentsDesc
	descriptions <- remoteBytesDesc
}

// topicLag sums up the partitions of one topic that this broker leads.
type topicLag struct {
	upload.Lag
	remoteBytes int64
}

// Collect implements prometheus.Collector.
func (c *lagCollector) Collect(metrics chan<- prometheus.Metric) {
	topics := map[string]topicLag{}
	img := c.manager.options.Metadata.Image()
	for id, want := range c.manager.snapshot() {
		sum := topics[want.partition.Name.Topic]
		var remoteEnd int64
		if partition, found := img.PartitionByID(id); found && partition.Tier != nil {
			remoteEnd = partition.Tier.End
			sum.remoteBytes += partition.Tier.Bytes
		}
		if log, err := c.manager.options.Logs.Log(want.partition.Name); err == nil {
			lag := upload.LagOf(log.Segments(), remoteEnd)
			sum.Segments += lag.Segments
			sum.Bytes += lag.Bytes
		}
		topics[want.partition.Name.Topic] = sum
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		for desc, value := range map[*prometheus.Desc]int64{
			lagBytesDesc: topics[topic].Bytes, lagSegmentsDesc: topics[topic].Segments,
			remoteBytesDesc: topics[topic].remoteBytes,
		} {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), topic)
		}
	}
}
