package cache

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	hits, misses, fills, evictions, corrupt, failures prometheus.Counter
	bytes, off                                        prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "firn_tier_cache_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "firn_tier_cache_" + name, Help: help})
	}
	m := metrics{
		hits:      counter("hits_total", "Parts of objects that were on the local disk when they were asked for."),
		misses:    counter("misses_total", "Parts of objects that were not on the local disk."),
		fills:     counter("fills_total", "Parts of objects that were written to the local disk."),
		evictions: counter("evictions_total", "Parts of objects that were removed from the local disk to make room."),
		corrupt:   counter("corrupt_total", "Parts of objects on the local disk that were damaged, and dropped."),
		failures:  counter("failures_total", "Failures of the disk that have turned the cache off for a minute."),
		bytes:     gauge("bytes", "Room that parts of objects take up on the local disk."),
		off:       gauge("off", "1 while nothing is written to the cache because the disk has failed or is full."),
	}
	if registerer != nil {
		registerer.MustRegister(m.hits, m.misses, m.fills, m.evictions, m.corrupt, m.failures, m.bytes, m.off)
	}
	return m
}
