package retention

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog follows what it is told, and remembers in which order.
type fakeLog struct {
	view  View
	err   error
	calls []string
}

func (f *fakeLog) View(context.Context) (View, error) {
	v := f.view
	v.Local = slices.Clone(v.Local)
	return v, f.err
}

func (f *fakeLog) Roll() error {
	f.calls = append(f.calls, "roll")
	last := &f.view.Local[len(f.view.Local)-1]
	last.Active = false
	f.view.Local = append(f.view.Local, Segment{
		BaseOffset: last.EndOffset, EndOffset: last.EndOffset, MaxTimestamp: -1, LastAppendedAt: -1, Active: true,
	})
	return nil
}

func (f *fakeLog) MoveLogStart(_ context.Context, offset int64) error {
	f.calls = append(f.calls, "log start")
	f.view.LogStart = offset
	return nil
}

func (f *fakeLog) MoveLocalStart(offset int64) error {
	f.calls = append(f.calls, "local start")
	f.view.Local = slices.DeleteFunc(f.view.Local, func(s Segment) bool { return s.EndOffset <= offset && !s.Active })
	return nil
}

func runOnce(t *testing.T, log *fakeLog) (*metrics, int64) {
	t.Helper()
	tp := kafka.TopicPartition{Topic: "t"}
	enforcer := New(Options{
		Logger:     slog.New(slog.DiscardHandler),
		Interval:   time.Minute,
		Partitions: func() []kafka.TopicPartition { return []kafka.TopicPartition{tp} },
		Find:       func(kafka.TopicPartition) Log { return log },
	})
	retained, err := enforcer.enforce(t.Context(), tp)
	if err != nil {
		t.Fatal(err)
	}
	return enforcer.metrics, retained
}

func TestRE04QuietTopicLosesItsActiveSegmentInOneRun(t *testing.T) {
	log := &fakeLog{view: View{
		HighWatermark: 100, Limits: limited(func(l *Limits) { l.Ms = hour }),
		Local: []Segment{{EndOffset: 100, Bytes: 10, MaxTimestamp: 1, LastAppendedAt: 1, Active: true}},
	}}
	runOnce(t, log)
	if got := strings.Join(log.calls, ", "); got != "roll, log start, local start" {
		t.Errorf("calls: %s", got)
	}
	if log.view.LogStart != 100 || len(log.view.Local) != 1 {
		t.Errorf("log start %d with %d segments, want 100 with only an empty active one",
			log.view.LogStart, len(log.view.Local))
	}
}

func TestRE04TieredQuietTopicIsRolledForTheBucketFirst(t *testing.T) {
	log := &fakeLog{view: View{
		HighWatermark: 100, Tiered: true, Limits: limited(func(l *Limits) { l.Ms = hour }),
		Local: []Segment{{EndOffset: 100, Bytes: 10, MaxTimestamp: 1, LastAppendedAt: 1, Active: true}},
	}}
	runOnce(t, log)
	if got := strings.Join(log.calls, ", "); got != "roll" {
		t.Errorf("calls of the first run: %s", got)
	}
	runOnce(t, log)
	if got := strings.Join(log.calls, ", "); got != "roll, log start, local start" {
		t.Errorf("calls after the second run: %s", got)
	}
}

func TestRE07OneRunReachesTheSteadyState(t *testing.T) {
	segments := local(9, 9, 9, 0)
	for i := range segments {
		segments[i].MaxTimestamp, segments[i].LastAppendedAt = 1, 1
	}
	segments[3].MaxTimestamp, segments[3].LastAppendedAt = -1, -1
	log := &fakeLog{view: view(segments, limited(func(l *Limits) { l.Ms = hour }))}
	log.view.LogStart = 150 // DeleteRecords
	counted, retained := runOnce(t, log)
	if bytes := testutil.ToFloat64(counted.deletedBytes.WithLabelValues("age")); bytes != 20 || retained != 10 {
		t.Errorf("%v bytes went by age and %d are left, want 20 (and 10 below the log start) and 10", bytes, retained)
	}
	if log.view.LogStart != 300 || len(log.view.Local) != 1 {
		t.Errorf("log start %d, %d segments; want 300 and 1", log.view.LogStart, len(log.view.Local))
	}
	before := len(log.calls)
	runOnce(t, log)
	if len(log.calls) != before {
		t.Errorf("the second run still found work: %v", log.calls[before:])
	}
}

func TestEnforcerRunsByTimeAndWhenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		visited := map[string]int{}
		enforcer := New(Options{
			Logger:     slog.New(slog.DiscardHandler),
			Interval:   time.Minute,
			Partitions: func() []kafka.TopicPartition { return []kafka.TopicPartition{{Topic: "a"}, {Topic: "b"}} },
			Find: func(tp kafka.TopicPartition) Log {
				visited[tp.Topic]++
				if tp.Topic == "a" {
					return &fakeLog{err: errors.New("state unknown")} // must not keep b from its turn
				}
				return nil
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- enforcer.Run(ctx) }()
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if visited["a"] != 2 || visited["b"] != 2 {
			t.Errorf("after two intervals: %v", visited)
		}
		enforcer.Wake(kafka.TopicPartition{Topic: "b"})
		synctest.Wait()
		if visited["b"] != 3 || visited["a"] != 2 {
			t.Errorf("after waking b: %v", visited)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
