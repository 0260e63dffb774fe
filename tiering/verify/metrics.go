package verify

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	objects  prometheus.Counter
	bytes    prometheus.Counter
	findings *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	m := metrics{
		objects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_verify_objects_total", Help: "Objects in the bucket that were held against the manifest."}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_tier_verify_bytes_total", Help: "Bytes of objects that were read to check them."}),
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "firn_tier_verify_findings", Help: "What the last verification that came to its end has found, by kind."},
			[]string{"kind"}),
	}
	for _, kind := range Kinds() {
		m.findings.WithLabelValues(string(kind)).Set(0)
	}
	if registerer != nil {
		registerer.MustRegister(m.objects, m.bytes, m.findings)
	}
	return m
}

func (m *metrics) ended(progress Progress) {
	for _, kind := range Kinds() {
		m.findings.WithLabelValues(string(kind)).Set(float64(progress.Found[kind]))
	}
}
