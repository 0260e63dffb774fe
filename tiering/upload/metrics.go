package upload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/pertopic"
)

type metrics struct {
	bytes      *pertopic.Counter
	requests   *pertopic.Counter
	errors     *pertopic.Counter
	seconds    prometheus.Histogram
	inFlight   prometheus.Gauge
	stuck      prometheus.Counter
	lastCommit prometheus.Gauge
	throttled  prometheus.Counter
	sealed     prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, maxTopics int) metrics {
	perTopic := func(name, help string) *pertopic.Counter {
		return pertopic.NewCounter("kafka_server_brokertopicmetrics_"+name, help, maxTopics)
	}
	m := metrics{
		bytes:    perTopic("remotecopybytes_total", "Bytes of the objects that became part of the log."),
		requests: perTopic("remotecopyrequests_total", "Attempts to copy a segment to the object store."),
		errors:   perTopic("remotecopyerrors_total", "What failed while copying segments, and will be tried again."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "firn_tier_upload_seconds", Help: "How long it takes to copy one segment.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_uploads_in_flight", Help: "Uploads under way."}),
		stuck: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_uploads_stuck_total", Help: "Uploads that did not end although their deadline was over."}),
		sealed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_manifest_sealed_total", Help: "Parts of manifests that were sealed into objects."}),
		lastCommit: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_last_commit_seconds", Help: "When the last object became part of a log, in Unix time."}),
		throttled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_upload_throttled_seconds_total",
			Help: "Seconds that uploads have waited for remote.log.manager.copy.max.bytes.per.second."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.bytes, m.requests, m.errors, m.seconds, m.inFlight, m.stuck, m.sealed, m.lastCommit,
			m.throttled)
	}
	return m
}

// forget lets the series of a deleted topic go.
func (m *metrics) forget(topic string) {
	for _, counter := range []*pertopic.Counter{m.bytes, m.requests, m.errors} {
		counter.Forget(topic)
	}
}
