package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T) []event {
	t.Helper()
	events, err := loadEvents()
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestTheEventsAreTheOnesThatTheReadmeNames(t *testing.T) {
	events := load(t)
	if len(events) != 27004 {
		t.Errorf("%d events, want 27004", len(events))
	}
	if keys := distinctKeys(events); keys != 3148 {
		t.Errorf("%d distinct keys, want 3148", keys)
	}
	null := 0
	for _, e := range events {
		if e.key == nil {
			null++
		}
	}
	if null != 155 {
		t.Errorf("%d events have no key, want 155", null)
	}
	first, last := events[0], events[len(events)-1]
	if string(first.key) != "N14228" || first.timestamp != time.Date(2013, 1, 1, 10, 15, 0, 0, time.UTC).UnixMilli() {
		t.Errorf("the first event has key %s and timestamp %d", first.key, first.timestamp)
	}
	if last.timestamp != time.Date(2013, 2, 1, 4, 59, 0, 0, time.UTC).UnixMilli() {
		t.Errorf("the last event has timestamp %d", last.timestamp)
	}
	if size := bytesOf(events); size < 5_000_000 || size > 6_000_000 {
		t.Errorf("the events have %d bytes", size)
	}
}

func TestEventsOutOfOrderAreRefused(t *testing.T) {
	early := []byte(`{"time":"2013-01-01T10:15:00Z","tail":"N1"}`)
	late := []byte(`{"time":"2013-01-01T10:16:00Z","tail":null}`)
	events, err := parseEvents([][]byte{early, late})
	if err != nil || len(events) != 2 || string(events[0].key) != "N1" || events[1].key != nil ||
		!bytes.Equal(events[1].value, late) {
		t.Errorf("%v, error %v", events, err)
	}
	if _, err := parseEvents([][]byte{late, early}); err == nil {
		t.Error("accepted although the second is earlier")
	}
	if _, err := parseEvents([][]byte{[]byte("no JSON")}); err == nil {
		t.Error("accepted although it is no JSON")
	}
}

func TestEveryDifferenceIsSeen(t *testing.T) {
	want := event{key: []byte("k"), value: []byte("v"), timestamp: 5}
	keyless := event{value: []byte("v"), timestamp: 5}
	record := func(change func(*kgo.Record)) *kgo.Record {
		r := &kgo.Record{Offset: 7, Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(5)}
		change(r)
		return r
	}
	for _, test := range []struct {
		name    string
		want    event
		change  func(*kgo.Record)
		message string
	}{
		{"nothing", want, func(*kgo.Record) {}, ""},
		{"no key where there was none", keyless, func(r *kgo.Record) { r.Key = nil }, ""},
		{"the offset", want, func(r *kgo.Record) { r.Offset = 8 }, "offset 8 came where 7"},
		{"the key", want, func(r *kgo.Record) { r.Key = []byte("l") }, "has key"},
		{"a key that is null", want, func(r *kgo.Record) { r.Key = nil }, "has key"},
		{"an empty key instead of none", keyless, func(r *kgo.Record) { r.Key = []byte{} }, "has key"},
		{"the value", want, func(r *kgo.Record) { r.Value = []byte("w") }, "has value"},
		{"a value that is null", want, func(r *kgo.Record) { r.Value = nil }, "has value"},
		{"the timestamp", want, func(r *kgo.Record) { r.Timestamp = time.UnixMilli(6) }, "has timestamp"},
		{"a header", want, func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "h"}} }, "has 1 headers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := difference(7, test.want, record(test.change))
			if (test.message == "") != (got == "") || !strings.Contains(got, test.message) {
				t.Errorf("difference %q, want %q", got, test.message)
			}
		})
	}
}

func TestTheFirstEventAtOrAfterATime(t *testing.T) {
	events := []event{{timestamp: 2}, {timestamp: 4}, {timestamp: 4}, {timestamp: 8}}
	for timestamp, want := range map[int64]int64{0: 0, 2: 0, 3: 1, 4: 1, 5: 3, 8: 3, 9: 4} {
		if got := firstAt(events, timestamp); got != want {
			t.Errorf("at %d: offset %d, want %d", timestamp, got, want)
		}
	}
}

// brokenNode is a broker that fails a moment after it has started.
type brokenNode struct {
	failed  chan struct{}
	stopped int
}

func (*brokenNode) Addr() string                 { return "127.0.0.1:1" }
func (*brokenNode) HTTPAddr() string             { return "127.0.0.1:1" }
func (n *brokenNode) Failed() <-chan struct{}    { return n.failed }
func (n *brokenNode) Stop(context.Context) error { n.stopped++; return errors.New("the disk is gone") }

func TestAFailedRunLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, test := range []struct {
		name  string
		start func(context.Context, string) (Node, error)
		want  string
	}{
		{"a broker that does not start", func(context.Context, string) (Node, error) {
			return nil, errors.New("no ports left")
		}, "no ports left"},
		{"a broker that fails while it runs", func(context.Context, string) (Node, error) {
			broken := &brokenNode{failed: make(chan struct{})}
			close(broken.failed)
			return broken, nil
		}, "the broker failed: the disk is gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			summary, err := Run(t.Context(), Options{Start: test.start, Out: &out})
			if summary != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("summary %+v, error %v, want %q", summary, err, test.want)
			}
			if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
				t.Errorf("%v is left behind, error %v", left, err)
			}
		})
	}
}

func TestTheDirectoryMustBeTheDemosOwn(t *testing.T) {
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "diary"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	started := false
	start := func(_ context.Context, dir string) (Node, error) {
		started = true
		return nil, errors.New("started in " + dir)
	}
	_, err := Run(t.Context(), Options{Start: start, Dir: used, Out: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "is not empty") || started {
		t.Errorf("error %v, started %v", err, started)
	}
	fresh := filepath.Join(used, "fresh")
	if _, err := Run(t.Context(), Options{Start: start, Dir: fresh, Out: &bytes.Buffer{}}); err == nil ||
		!strings.Contains(err.Error(), "started in "+fresh) {
		t.Errorf("error %v", err)
	}
}

func TestTheSummaryNamesWhatToTryNext(t *testing.T) {
	summary := Summary{Events: 27004, EventBytes: 5 << 20, RemoteBytes: 6 << 20, Objects: 31, RemoteEnd: 26000,
		LocalStart: 26000, LocalBytes: 1 << 20, Dir: "/data/kept"}
	var out bytes.Buffer
	if err := summary.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"27004 (5.0 MiB)", "6.0 MiB in 31 objects, offsets 0–25999", "offsets 26000–27003",
		"firn serve --data-dir /data/kept", "kcat -b", "confluent_kafka"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

func TestBarsAreDrawnOnlyWhenSomebodyWatches(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		shown := (&display{out: &out, terminal: terminal}).begin()
		if (shown.progress != nil) != terminal {
			t.Errorf("terminal %v, bars %v", terminal, shown.progress != nil)
		}
		progress := shown.bar("events", 10)
		progress.set(5)
		shown.end()
		if !terminal && out.Len() != 0 {
			t.Errorf("printed %q", &out)
		}
	}
}
