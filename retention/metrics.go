package retention

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what retention does:
//
//	firn_retention_log_start_moves_total
//	firn_retention_failures_total
//	firn_retention_deleted_bytes_total{reason}      of logs: what lies below their new start
//	firn_retention_deleted_segments_total{reason}
//	firn_retention_retained_bytes                   of all logs, as of the last run over them
type metrics struct {
	logStartMoves   prometheus.Counter
	failures        prometheus.Counter
	deletedBytes    *prometheus.CounterVec
	deletedSegments *prometheus.CounterVec
	retainedBytes   prometheus.Gauge
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
		deletedBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "firn_retention_deleted_bytes_total",
			Help: "Bytes of the segments that retention let go, by what made them go.",
		}, []string{"reason"}),
		deletedSegments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "firn_retention_deleted_segments_total",
			Help: "Segments that retention let go, by what made them go.",
		}, []string{"reason"}),
		retainedBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firn_retention_retained_bytes",
			Help: "Bytes of all logs, what is both local and remote once, after the last run over all of them.",
		}),
	}
	for reason := range reasons {
		m.deletedBytes.WithLabelValues(Reason(reason).String())
		m.deletedSegments.WithLabelValues(Reason(reason).String())
	}
	if registry != nil {
		registry.MustRegister(m.logStartMoves, m.failures, m.deletedBytes, m.deletedSegments, m.retainedBytes)
	}
	return m
}

// deleted counts what has gone, and returns its bytes.
func (m *metrics) deleted(lost []Loss) (bytes int64) {
	for _, loss := range lost {
		bytes += loss.Bytes
		m.deletedBytes.WithLabelValues(loss.Reason.String()).Add(float64(loss.Bytes))
		m.deletedSegments.WithLabelValues(loss.Reason.String()).Add(float64(loss.Segments))
	}
	return bytes
}
