package retention

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what retention does.
type metrics struct {
	logStartMoves prometheus.Counter
	failures      prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		logStartMoves: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_retention_log_start_moves_total",
			Help: "Times that retention moved a log start offset.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_retention_failures_total",
			Help: "Runs over one log that ended with an error and are tried again.",
		}),
	}
	if registry != nil {
		registry.MustRegister(m.logStartMoves, m.failures)
	}
	return m
}
