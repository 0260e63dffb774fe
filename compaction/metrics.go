package compaction

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what dashboards for Kafka ask of its cleaner, under the names that exporters give them, and our own:
//
//	kafka_log_logcleaner_{cleaner_recopy_percent,max_clean_time_secs,max_buffer_utilization_percent,
//	    max_compaction_delay_secs,deadthreadcount}
//	kafka_log_logcleanermanager_{max_dirty_percent,time_since_last_run_ms,uncleanable_partitions_count,uncleanable_bytes}
//	firn_compaction_*
type metrics struct {
	cleaner *Cleaner

	passes                   *prometheus.CounterVec
	bytesRead, bytesWritten  prometheus.Counter
	recordsRead, recordsKept prometheus.Counter

	recopy, maxTime, buffer, delay, dead              *prometheus.Desc
	maxDirty, sinceLast, uncleanable, uncleanableSize *prometheus.Desc
	ratio, since                                      *prometheus.Desc

	mu         sync.Mutex // guards the fields below
	last       Stats      // of the last pass that was finished
	lastTook   time.Duration
	finishedAt time.Time
}

func newMetrics(cleaner *Cleaner, registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "firn_compaction_" + name, Help: help})
	}
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m := &metrics{
		cleaner: cleaner,
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "firn_compaction_passes_total", Help: "Passes over a log, by whether they came to their end.",
		}, []string{"result"}),
		bytesRead:    counter("bytes_read_total", "Bytes that passes have read, for the map of keys and to write anew."),
		bytesWritten: counter("bytes_written_total", "Bytes that passes have written."),
		recordsRead:  counter("records_read_total", "Records in the segments that were written anew."),
		recordsKept:  counter("records_kept_total", "Records of them that were kept."),

		recopy: describe("kafka_log_logcleaner_cleaner_recopy_percent",
			"Bytes written to bytes read of the last pass, in percent."),
		maxTime: describe("kafka_log_logcleaner_max_clean_time_secs", "Seconds that the last pass took."),
		buffer: describe("kafka_log_logcleaner_max_buffer_utilization_percent",
			"Share of the memory for keys that the last pass filled, in percent."),
		delay: describe("kafka_log_logcleaner_max_compaction_delay_secs",
			"Seconds that a record has waited beyond max.compaction.lag.ms."),
		dead: describe("kafka_log_logcleaner_deadthreadcount", "Workers that have died: 0, as none does."),
		maxDirty: describe("kafka_log_logcleanermanager_max_dirty_percent",
			"The largest dirty share of a log, in percent."),
		sinceLast: describe("kafka_log_logcleanermanager_time_since_last_run_ms",
			"Milliseconds since the last pass ended."),
		uncleanable: describe("kafka_log_logcleanermanager_uncleanable_partitions_count",
			"Logs that were set aside because they cannot be compacted.", "logDirectory"),
		uncleanableSize: describe("kafka_log_logcleanermanager_uncleanable_bytes",
			"Bytes of those logs that wait for being compacted.", "logDirectory"),
		ratio: describe("firn_compaction_dirty_ratio", "Share of a log that waits for being compacted, 0 to 1.",
			"topic", "partition"),
		since: describe("firn_compaction_last_pass_timestamp_seconds",
			"When the last pass over a log ended, in seconds since 1970.", "topic", "partition"),
	}
	if registry != nil {
		registry.MustRegister(m.passes, m.bytesRead, m.bytesWritten, m.recordsRead, m.recordsKept, m)
	}
	return m
}

// passed counts a pass.
func (m *metrics) passed(stats Stats, took time.Duration, finished bool) {
	result := "failed"
	if finished {
		result = "finished"
	}
	m.passes.WithLabelValues(result).Inc()
	m.bytesRead.Add(float64(stats.MapBytesRead + stats.BytesRead))
	m.bytesWritten.Add(float64(stats.BytesWritten))
	m.recordsRead.Add(float64(stats.RecordsRead))
	m.recordsKept.Add(float64(stats.RecordsKept))
	m.mu.Lock()
	defer m.mu.Unlock()
	if finished {
		m.last, m.lastTook, m.finishedAt = stats, took, time.Now()
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		m.recopy, m.maxTime, m.buffer, m.delay, m.dead, m.maxDirty, m.sinceLast, m.uncleanable, m.uncleanableSize,
		m.ratio, m.since,
	} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(series chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		series <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	m.mu.Lock()
	last, took, finishedAt := m.last, m.lastTook, m.finishedAt
	m.mu.Unlock()
	recopy := 0.0
	if last.BytesRead > 0 {
		recopy = 100 * float64(last.BytesWritten) / float64(last.BytesRead)
	}
	gauge(m.recopy, recopy)
	gauge(m.maxTime, took.Seconds())
	gauge(m.buffer, 100*last.BufferUsed)
	gauge(m.dead, 0)
	sinceLast := 0.0
	if !finishedAt.IsZero() {
		sinceLast = float64(time.Since(finishedAt).Milliseconds())
	}
	gauge(m.sinceLast, sinceLast)
	m.collectLogs(gauge)
}

// collectLogs looks at each log.
func (m *metrics) collectLogs(gauge func(description *prometheus.Desc, value float64, labels ...string)) {
	partitions := m.cleaner.options.Partitions()
	single := len(partitions) <= m.cleaner.options.MaxPartitionSeries
	counts, sizes := map[string]float64{}, map[string]float64{}
	maxDirty, maxDelay := 0.0, 0.0
	for _, tp := range partitions {
		status, err := m.cleaner.Status(tp)
		if err != nil {
			continue // it is offline, or has gone this moment
		}
		directory := m.cleaner.options.Directory(tp)
		counts[directory] += 0 // a directory without any has a series, too
		sizes[directory] += 0
		if status.Failure != nil {
			counts[directory]++
			sizes[directory] += float64(status.DirtyBytes)
		}
		maxDirty, maxDelay = max(maxDirty, status.DirtyRatio), max(maxDelay, float64(status.DelayMs)/1000)
		if single {
			partition := strconv.Itoa(int(tp.Partition))
			gauge(m.ratio, status.DirtyRatio, tp.Topic, partition)
			if status.LastPassAt >= 0 {
				gauge(m.since, float64(status.LastPassAt)/1000, tp.Topic, partition)
			}
		}
	}
	gauge(m.maxDirty, 100*maxDirty)
	gauge(m.delay, maxDelay)
	for directory, count := range counts {
		gauge(m.uncleanable, count, directory)
		gauge(m.uncleanableSize, sizes[directory], directory)
	}
}
