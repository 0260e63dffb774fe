package compaction

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/firnlog/firn/broker/record"
)

// TestMetricsSayWhatHasBeenDone compares the values of all metrics with what is known of three logs: one that is cleaned,
// one that is damaged, and one that is not dirty enough.
func TestMetricsSayWhatHasBeenDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clean, broken, waiting := longLog(), longLog(), longLog()
		broken.segments[0].batches[0][57] ^= 1 // more records than there are
		waiting.settings.MinDirtyRatio, waiting.settings.MaxLagMs = 1, math.MaxInt64
		config := poolConfig()
		config.MaxBytesPerSecond = 20_000
		p := newPool(config, map[string]*memLog{"clean": clean, "broken": broken, "waiting": waiting})
		p.options.MaxPartitionSeries = 3
		size := broken.segments[0].Size
		p.running(t, func() {
			time.Sleep(time.Hour)
			synctest.Wait()
		})
		status := p.status(t, "clean")
		if status.Passes != 1 || p.status(t, "broken").Failure == nil || p.status(t, "waiting").Passes != 0 {
			t.Fatalf("%+v", status)
		}
		stats := status.Stats
		p.expectMetrics(t, map[string]float64{
			`firn_compaction_passes_total{result="finished"}`:                              1,
			`firn_compaction_passes_total{result="failed"}`:                                1,
			`firn_compaction_records_read_total`:                                           2000,
			`firn_compaction_records_kept_total`:                                           5,
			`firn_compaction_bytes_written_total`:                                          float64(stats.BytesWritten),
			`firn_compaction_dirty_ratio{partition="0",topic="waiting"}`:                   1,
			`firn_compaction_dirty_ratio{partition="0",topic="clean"}`:                     0,
			`firn_compaction_last_pass_timestamp_seconds{partition="0",topic="clean"}`:     float64(status.LastPassAt) / 1000,
			`kafka_log_logcleaner_cleaner_recopy_percent`:                                  100 * float64(stats.BytesWritten) / float64(size),
			`kafka_log_logcleaner_max_buffer_utilization_percent`:                          100 * stats.BufferUsed,
			`kafka_log_logcleaner_deadthreadcount`:                                         0,
			`kafka_log_logcleaner_max_compaction_delay_secs`:                               0,
			`kafka_log_logcleanermanager_max_dirty_percent`:                                100,
			`kafka_log_logcleanermanager_time_since_last_run_ms`:                           float64(time.Since(p.metrics.finishedAt).Milliseconds()),
			`kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="dir"}`: 1,
			`kafka_log_logcleanermanager_uncleanable_bytes{logDirectory="dir"}`:            float64(size),
		})
		if stats.BufferUsed != 5.0/float64((1<<20)/slotBytes) {
			t.Errorf("5 keys have filled %v of the memory", stats.BufferUsed)
		}
		took, since := p.metrics.lastTook, time.Since(p.metrics.finishedAt)
		if took < 3*time.Second || took > 20*time.Second || since < 50*time.Minute || since > time.Hour {
			t.Errorf("the pass took %v, and ended %v ago", took, since)
		}
		if read := p.value(t, `firn_compaction_bytes_read_total`); read < 2*float64(size) || read > 4*float64(size) {
			t.Errorf("%v bytes were read of logs of %d", read, size)
		}
	})
}

// longLog takes some seconds to clean, where a second has 20 kB.
func longLog() *memLog {
	log := logOf(record.None, 2000, 5, 4, 20)
	log.settings.MinDirtyRatio = 0.5
	return log
}

// A record that has waited for too long shows in the delay, and with too many logs none has series of its own.
func TestMetricsOfDelaysAndOfManyLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := dirtyLog()
		late.settings.MaxLagMs = 60_000
		late.segments[0].FirstTimestamp = time.Now().Add(-90 * time.Second).UnixMilli()
		p := newPool(poolConfig(), map[string]*memLog{"late": late, "other": dirtyLog()})
		p.options.MaxPartitionSeries = 1
		p.expectMetrics(t, map[string]float64{`kafka_log_logcleaner_max_compaction_delay_secs`: 30})
		if count := testutil.CollectAndCount(p.metrics, "firn_compaction_dirty_ratio"); count != 0 {
			t.Errorf("%d series of logs", count)
		}
	})
}

// value is that of one series, named as in a scrape.
func (p *pool) value(t *testing.T, series string) float64 {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+`="`+label.GetValue()+`"`)
			}
			name := family.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			if name == series {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s", series)
	return 0
}

func (p *pool) expectMetrics(t *testing.T, want map[string]float64) {
	t.Helper()
	for series, value := range want {
		if got := p.value(t, series); math.Abs(got-value) > 1e-6*math.Abs(value) {
			t.Errorf("%s is %v, want %v", series, got, value)
		}
	}
}
