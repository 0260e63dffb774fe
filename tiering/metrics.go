package tiering

import (
	"maps"
	"slices"
	"time"

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
	remoteCountDesc = prometheus.NewDesc("kafka_server_brokertopicmetrics_remotelogmetadatacount",
		"Segments in the object store that are part of the log.", []string{"topic"}, nil)
	pendingBytesDesc = prometheus.NewDesc("firn_tier_pending_bytes",
		"Bytes of local segments that are not in the object store yet, active segments included.", []string{"topic"}, nil)
	lagSecondsDesc = prometheus.NewDesc("firn_tier_upload_lag_seconds",
		"For how long the oldest record has waited for the object store; 0 without one.", []string{"topic"}, nil)
	oldestDesc = prometheus.NewDesc("firn_tier_oldest_pending_timestamp_seconds",
		"When the oldest record that is not in the object store was appended, in Unix time; 0 without one.",
		[]string{"topic"}, nil)
)

// Describe implements prometheus.Collector.
func (c *lagCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- lagBytesDesc
	descriptions <- lagSegmentsDesc
	descriptions <- remoteBytesDesc
	descriptions <- remoteCountDesc
	descriptions <- pendingBytesDesc
	descriptions <- lagSecondsDesc
	descriptions <- oldestDesc
}

// topicLag sums up the partitions of one topic that this broker leads.
type topicLag struct {
	upload.Lag
	remoteBytes, remoteSegments int64
}

// add takes a partition's lag into the sum of its topic.
func (t *topicLag) add(lag upload.Lag) {
	t.Segments += lag.Segments
	t.Bytes += lag.Bytes
	t.PendingBytes += lag.PendingBytes
	if lag.Oldest >= 0 && (t.Oldest < 0 || lag.Oldest < t.Oldest) {
		t.Oldest = lag.Oldest
	}
}

// seconds is when the oldest record was appended, in Unix time, and for how long it has waited; 0 without one.
func (t *topicLag) seconds(now time.Time) (oldest, waited float64) {
	if t.Oldest < 0 {
		return 0, 0
	}
	return float64(t.Oldest) / 1000, max(0, now.Sub(time.UnixMilli(t.Oldest)).Seconds())
}

// Collect implements prometheus.Collector.
func (c *lagCollector) Collect(metrics chan<- prometheus.Metric) {
	topics := map[string]*topicLag{}
	img := c.manager.options.Metadata.Image()
	for id, want := range c.manager.snapshot() {
		if want.settings.Off {
			continue
		}
		sum := topics[want.partition.Name.Topic]
		if sum == nil {
			sum = &topicLag{Lag: upload.Lag{Oldest: -1}}
			topics[want.partition.Name.Topic] = sum
		}
		var remoteEnd int64
		if partition, found := img.PartitionByID(id); found && partition.Tier != nil {
			remoteEnd = partition.Tier.End
			sum.remoteBytes += partition.Tier.Bytes
			sum.remoteSegments += partition.Tier.Segments
		}
		if log, err := c.manager.options.Logs.Log(want.partition.Name); err == nil {
			sum.add(upload.LagOf(log.Segments(), remoteEnd))
		}
	}
	all := topicLag{Lag: upload.Lag{Oldest: -1}}
	for _, lag := range topics {
		all.add(lag.Lag)
		all.remoteBytes += lag.remoteBytes
		all.remoteSegments += lag.remoteSegments
	}
	if len(topics) > c.manager.options.MaxTopicSeries {
		clear(topics)
	}
	topics[""] = &all // as Kafka's metrics without a topic
	collectLag(topics, metrics)
}

func collectLag(topics map[string]*topicLag, metrics chan<- prometheus.Metric) {
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		sum := topics[topic]
		oldest, waited := sum.seconds(time.Now())
		for desc, value := range map[*prometheus.Desc]float64{
			lagBytesDesc: float64(sum.Bytes), lagSegmentsDesc: float64(sum.Segments),
			remoteBytesDesc: float64(sum.remoteBytes), remoteCountDesc: float64(sum.remoteSegments),
			pendingBytesDesc: float64(sum.PendingBytes), lagSecondsDesc: waited, oldestDesc: oldest,
		} {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, topic)
		}
	}
}
