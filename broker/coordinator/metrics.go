package coordinator

import "github.com/prometheus/client_golang/prometheus"

// metrics are what a runtime tells about its shards.
type metrics struct {
	runtime *Runtime
	shards  *prometheus.Desc
}

func newMetrics(r *Runtime, registerer prometheus.Registerer) *metrics {
	m := &metrics{runtime: r, shards: prometheus.NewDesc("firn_coordinator_partitions",
		"Partitions of an internal topic that this broker coordinates, by what they are doing.",
		[]string{"state"}, prometheus.Labels{"topic": r.options.Topic})}
	if registerer != nil {
		registerer.MustRegister(m)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descs chan<- *prometheus.Desc) { descs <- m.shards }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(collected chan<- prometheus.Metric) {
	states := []string{loading: "loading", serving: "serving", failed: "failed"}
	counts := make([]int, len(states))
	for _, shard := range m.runtime.all() {
		if status := shard.status.Load(); int(status) < len(counts) {
			counts[status]++
		}
	}
	for status, state := range states {
		collected <- prometheus.MustNewConstMetric(m.shards, prometheus.GaugeValue, float64(counts[status]), state)
	}
}
