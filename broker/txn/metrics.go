package txn

import "github.com/prometheus/client_golang/prometheus"

// metrics are what is told about transactions:
//
//	firn_transactions_ended_total{outcome}   committed, aborted
//	firn_transactions_timed_out_total
type metrics struct {
	committed, aborted prometheus.Counter
	timedOut           prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "firn_transactions_ended_total",
		Help: "Transactions that this broker has coordinated and whose partitions all have their marker, by outcome.",
	}, []string{"outcome"})
	m := &metrics{
		committed: ended.WithLabelValues("committed"),
		aborted:   ended.WithLabelValues("aborted"),
		timedOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "firn_transactions_timed_out_total",
			Help: "Transactions that were aborted because their time was over.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(ended, m.timedOut)
	}
	return m
}

// ended counts a transaction by the state that its markers were written in.
func (m *metrics) ended(state State) {
	if state == PrepareCommit {
		m.committed.Inc()
		return
	}
	m.aborted.Inc()
}
