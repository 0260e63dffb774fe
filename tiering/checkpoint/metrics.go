package checkpoint

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	written    prometheus.Counter
	errors     prometheus.Counter
	bytes      prometheus.Counter
	index      prometheus.Gauge
	lastTime   prometheus.Gauge
	superseded prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) metrics {
	m := metrics{
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_checkpoints_total", Help: "Checkpoints of the cluster that were written to the bucket."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_checkpoint_errors_total", Help: "Checkpoints that failed and will be tried again."}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_checkpoint_bytes_total", Help: "Bytes of checkpoints written to the bucket."}),
		index: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_checkpoint_index", Help: "Index of the metadata log up to which the newest checkpoint goes."}),
		lastTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_checkpoint_last_timestamp_seconds",
			Help: "Unix time at which the bucket was last known to have a checkpoint of everything that matters."}),
		superseded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_superseded",
			Help: "1 while another cluster owns this cluster's part of the bucket, so that nothing is copied to it."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.written, m.errors, m.bytes, m.index, m.lastTime, m.superseded)
	}
	return m
}
