package fetch

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/pertopic"
)

type metrics struct {
	bytes    *pertopic.Counter
	requests *pertopic.Counter
	errors   *pertopic.Counter
	gets     *prometheus.CounterVec
	queued   prometheus.Gauge
	hits     prometheus.Counter
	wasted   prometheus.Counter
	cached   prometheus.Gauge
	held     prometheus.Gauge
	missing  prometheus.Counter
	corrupt  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, maxTopics int) metrics {
	perTopic := func(name, help string) *pertopic.Counter {
		return pertopic.NewCounter("kafka_server_brokertopicmetrics_"+name, help, maxTopics)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "firn_tier_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := metrics{
		bytes:    perTopic("remotefetchbytes_total", "Bytes of records answered from the object store or its cache."),
		requests: perTopic("remotefetchrequests_total", "Reads of what is only in the object store."),
		errors:   perTopic("remotefetcherrors_total", "Reads of what is only in the object store that failed."),
		gets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "firn_tier_fetch_gets_total", Help: "Requests to the object store for the sake of reads."}, []string{"part"}),
		queued: gauge("kafka_log_remote_remotestoragethreadpool_remotelogreadertaskqueuesize",
			"Reads of what is only in the object store that are under way or wait."),
		hits:    counter("fetch_chunk_hits_total", "Chunks that were in memory, or on their way, when they were asked for."),
		wasted:  counter("fetch_chunks_wasted_total", "Chunks that were read ahead and evicted before anybody wanted them."),
		cached:  gauge("firn_tier_fetch_cache_bytes", "Memory reserved for chunks."),
		held:    gauge("firn_tier_fetch_held_bytes", "Bytes that answers under way keep in memory."),
		missing: counter("missing_objects_total", "Reads that missed an object which the manifest has."),
		corrupt: counter("corrupt_objects_total", "Reads that found an object damaged."),
	}
	if registerer != nil {
		registerer.MustRegister(m.bytes, m.requests, m.errors, m.gets, m.queued, m.hits, m.wasted, m.cached, m.held,
			m.missing, m.corrupt)
	}
	return m
}

// forget lets the series of a deleted topic go.
func (m *metrics) forget(topic string) {
	for _, counter := range []*pertopic.Counter{m.bytes, m.requests, m.errors} {
		counter.Forget(topic)
	}
}
