package gc

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	deleted  prometheus.Counter
	pending  prometheus.Gauge
	pins     prometheus.Gauge
	requests prometheus.Counter
	errors   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) metrics {
	m := metrics{
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_gc_deleted_objects_total", Help: "Objects deleted because no log refers to them."}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_gc_pending", Help: "Objects, and uploads that may have left one, that wait to be deleted."}),
		pins: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_tier_gc_pins", Help: "Bulk reads that keep objects from being deleted, at the controller."}),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_server_brokertopicmetrics_remotedeleterequests_total",
			Help: "Requests to delete objects; one may delete many."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_server_brokertopicmetrics_remotedeleteerrors_total",
			Help: "Collections that failed and will be tried again."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.deleted, m.pending, m.pins, m.requests, m.errors)
	}
	return m
}
