package metastore

import (
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/firnlog/firn/metastore/command"
)

// metrics are the store's; their names are listed in the package comment.
type metrics struct {
	commands     *prometheus.CounterVec
	propose      prometheus.Histogram
	appliedIndex prometheus.Gauge
	leader       prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	factory := promauto.With(registry)
	return &metrics{
		commands: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "firn_metastore_commands_total",
			Help: "Commands of the metadata log applied by this node, by type.",
		}, []string{"type"}),
		propose: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "firn_metastore_propose_seconds",
			Help:    "Time from proposing a command until it was applied and every part of the node knew.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		appliedIndex: factory.NewGauge(prometheus.GaugeOpts{
			Name: "firn_metastore_applied_index",
			Help: "Index of the last command of the metadata log that this node has applied.",
		}),
		leader: factory.NewGauge(prometheus.GaugeOpts{
			Name: "firn_metastore_leader",
			Help: "1 while this node leads the metadata quorum, else 0.",
		}),
	}
}

func (m *metrics) applied(entry *raft.Log) {
	m.commands.WithLabelValues(command.Type(entry.Data[0]).String()).Inc()
}

func (m *metrics) proposed(start time.Time) { m.propose.Observe(time.Since(start).Seconds()) }
