package manifest

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	loads   prometheus.Counter
	corrupt prometheus.Counter
	cached  prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) metrics {
	m := metrics{
		loads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_manifest_loads_total", Help: "Sealed parts of manifests that were loaded from the object store."}),
		corrupt: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_manifest_corrupt_total", Help: "Sealed parts of manifests that were found damaged."}),
		cached: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_manifest_cache_bytes", Help: "Memory for manifests and sealed parts of them."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.loads, m.corrupt, m.cached)
	}
	return m
}
