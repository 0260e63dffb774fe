//go:build linux && integration

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/firnlog/firn/integration/bench/replay"
	"github.com/firnlog/firn/integration/bench/report"
	"github.com/firnlog/firn/integration/bench/sampler"
	"github.com/firnlog/firn/integration/launch"
	"github.com/firnlog/firn/integration/process"
)

// bound is what a workload may cost. Processor time is some three times what a quiet machine needs, since that is how
// far neighbours move it; allocations are those of the program and hardly move.
type bound struct {
	CPUSecondsPerGB     float64 `json:"cpuSecondsPerGB"`
	AllocationsPerBatch float64 `json:"allocationsPerBatch"`
}

// TestTheBrokerCostsNoMoreThanItsBounds replays against the built binary. Megabytes a second say nothing on a machine
// that does other things too; processor seconds a gigabyte and allocations do.
func TestTheBrokerCostsNoMoreThanItsBounds(t *testing.T) {
	text, err := os.ReadFile("testdata/bounds.json")
	if err != nil {
		t.Fatal(err)
	}
	var bounds map[string]bound
	if err := json.Unmarshal(text, &bounds); err != nil {
		t.Fatal(err)
	}
	b, r := startForBounds(t)
	for _, load := range []produceLoad{
		{replay.Shape{RecordBytes: 1 << 10, RequestBytes: 1 << 20}, 1, replay.AcksLeader, "A", 1, 4},
		{replay.Shape{RecordBytes: 1 << 10, RequestBytes: 16 << 10}, 1, replay.AcksLeader, "A", 1, 4},
	} {
		batch, err := b.events.Encode(load.shape, time.Now().UnixMilli(), 1)
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.produceSide(t.Context(), firnOS, load, batch)
		if err != nil {
			t.Fatal(err)
		}
		s.bytes = int64(load.shape.RequestBytes) * 400
		if load.shape.RequestBytes < 1<<20 {
			s.bytes *= 16
		}
		holds(t, b, s, "produce "+sizeName(load.shape.RequestBytes), bounds, len(batch.Data))
	}
	batch, err := b.events.Encode(largeShape(), time.Now().UnixMilli(), 1)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := b.topic(t.Context(), r, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	const batches = 2000
	if err := r.fill(t.Context(), topic, 1, batch, batches); err != nil {
		t.Fatal(err)
	}
	s := fetchSide(r, replay.Fetch{
		Address: r.Address, Topic: topic, Consumers: 1, Batch: batch, Batches: batches, MaxBytes: 1 << 20,
	})
	s.bytes = 1 << 30
	holds(t, b, s, "consume", bounds, len(batch.Data))
}

// startForBounds runs a node of the built binary, not pinned: what else runs here is not known.
func startForBounds(t *testing.T) (*bench, *running) {
	t.Helper()
	events, err := replay.LoadEvents("../../cmd/firn/demo/data/flights-2013-01.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		options: options{firn: process.Firn(t), brokerCPU: launch.AnyCPU, effort: quick}, events: events, out: t.Output(),
		dir: t.TempDir(), began: time.Now(), brokers: map[brokerKind]*running{},
	}
	t.Cleanup(b.stopAll)
	r, err := b.broker(t.Context(), firnOS)
	if err != nil {
		t.Fatal(err)
	}
	return b, r
}

// holds runs a workload a few times and judges the cheapest: what disturbs makes it dearer only.
func holds(t *testing.T, b *bench, s *side, name string, bounds map[string]bound, batchBytes int) {
	t.Helper()
	want, ok := bounds[name]
	if !ok {
		t.Fatalf("testdata/bounds.json has no bound for %q", name)
	}
	const attempts = 3
	var best bound
	for i := range attempts {
		first := allocations(t, s.broker)
		before := allocations(t, s.broker)
		asking := before - first // what it takes to tell them
		run, err := b.once(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		got := bound{
			CPUSecondsPerGB:     run.values[report.CPUPerGB],
			AllocationsPerBatch: (allocations(t, s.broker) - before - asking) / float64(run.bytes) * float64(batchBytes),
		}
		if i == 0 {
			best = got
		}
		best.CPUSecondsPerGB = min(best.CPUSecondsPerGB, got.CPUSecondsPerGB)
		best.AllocationsPerBatch = min(best.AllocationsPerBatch, got.AllocationsPerBatch)
	}
	usage, err := sampler.Of(s.broker.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %.3g CPU-s/GB, %.3g allocations a batch; %d MB resident", name, best.CPUSecondsPerGB,
		best.AllocationsPerBatch, usage.Resident/1e6)
	if best.CPUSecondsPerGB > want.CPUSecondsPerGB {
		t.Errorf("%s takes %.3g CPU-s/GB, the bound is %.3g", name, best.CPUSecondsPerGB, want.CPUSecondsPerGB)
	}
	if best.AllocationsPerBatch > want.AllocationsPerBatch {
		t.Errorf("%s allocates %.3g times a batch, the bound is %.3g", name, best.AllocationsPerBatch, want.AllocationsPerBatch)
	}
}

// allocations is how many objects a node has allocated since its start.
func allocations(t *testing.T, r *running) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/metrics", r.HTTP), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "go_memstats_mallocs_total "); found {
			count, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
	}
	t.Fatal("the node does not tell its allocations")
	return 0
}
