package pertopic

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTopicsAreBoundedAndTheirSumNeverFalls(t *testing.T) {
	counter := NewCounter("things_total", "Things.", 2)
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	want := func(series string) {
		t.Helper()
		text := "# HELP things_total Things.\n# TYPE things_total counter\n" + series
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	want("things_total{topic=\"\"} 0\n")
	counter.WithLabelValues("a").Add(2)
	counter.WithLabelValues("b").Inc()
	want("things_total{topic=\"\"} 3\nthings_total{topic=\"a\"} 2\nthings_total{topic=\"b\"} 1\n")
	counter.WithLabelValues("c").Add(4)
	want("things_total{topic=\"\"} 7\n")
	counter.Forget("a")
	want("things_total{topic=\"\"} 7\nthings_total{topic=\"b\"} 1\nthings_total{topic=\"c\"} 4\n")
	counter.Forget("a")
	counter.WithLabelValues("a").Inc() // a topic of the same name
	counter.Forget("b")
	want("things_total{topic=\"\"} 8\nthings_total{topic=\"a\"} 1\nthings_total{topic=\"c\"} 4\n")
}
