package storage

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of all local logs:
//
//	firn_storage_flush_seconds            how long a flush of one log took
//	firn_storage_segment_rolls_total      segments begun
//	firn_storage_recovery_cut_bytes_total bytes that recovery cut off after an unclean stop
//	firn_storage_index_rebuilds_total     indexes made anew because they were missing or did not fit
//	firn_storage_offline_logs             logs that do not serve because of damage
//	firn_storage_offline_directories      log directories that have failed
//	firn_storage_reserve_refusals_total   appends refused to keep the disk from filling up
//	firn_storage_reserve_bytes            what must stay free in each directory
//	firn_storage_free_bytes{directory}    what is free there: alert while it is still above the reserve
type metrics struct {
	flushSeconds       prometheus.Histogram
	rolls              prometheus.Counter
	recoveryCutBytes   prometheus.Counter
	indexRebuilds      prometheus.Counter
	offlineLogs        prometheus.Gauge
	offlineDirectories prometheus.Gauge
	reserveRefusals    prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		flushSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "firn_storage_flush_seconds",
			Help:    "How long a flush of one log took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16), // 0.1 ms to 3 s
		}),
		rolls:              counter("firn_storage_segment_rolls_total", "Segments begun."),
		recoveryCutBytes:   counter("firn_storage_recovery_cut_bytes_total", "Bytes cut off by recovery."),
		indexRebuilds:      counter("firn_storage_index_rebuilds_total", "Indexes made anew."),
		offlineLogs:        gauge("firn_storage_offline_logs", "Logs that do not serve because of damage."),
		offlineDirectories: gauge("firn_storage_offline_directories", "Log directories that have failed."),
		reserveRefusals:    counter("firn_storage_reserve_refusals_total", "Appends refused because the disk is full."),
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{
		m.flushSeconds, m.rolls, m.recoveryCutBytes, m.indexRebuilds, m.offlineLogs, m.offlineDirectories,
		m.reserveRefusals,
	} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// registerSpace shows how much room there is, as of the moment of a scrape.
func (m *Manager) registerSpace(registry prometheus.Registerer, metadataDir string) error {
	watched := []string{}
	for _, dir := range m.dirs {
		watched = append(watched, dir.path)
	}
	if metadataDir != "" && !slices.Contains(watched, metadataDir) {
		watched = append(watched, metadataDir)
	}
	gauges := []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "firn_storage_reserve_bytes", Help: "Bytes that appends must leave free in each directory.",
	}, func() float64 { return float64(m.env.reserve) })}
	for _, dir := range watched {
		gauges = append(gauges, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "firn_storage_free_bytes", Help: "Bytes that are free in a log directory, or in that of the metadata.",
			ConstLabels: prometheus.Labels{"directory": dir},
		}, func() float64 {
			space, err := m.env.fs.Space(dir)
			if err != nil {
				return math.NaN()
			}
			return float64(space.FreeBytes)
		}))
	}
	for _, gauge := range gauges {
		if err := registry.Register(gauge); err != nil {
			return err
		}
	}
	return nil
}
