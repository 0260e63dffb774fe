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

// bound is what one batch, commit or transaction may cost. Processor time is some three times what a quiet machine
// needs, since that is how far neighbours move it; allocations are those of the program and hardly move.
type bound struct {
	CPUMicroseconds float64 `json:"cpuMicroseconds"`
	Allocations     float64 `json:"allocations"`
}

// TestTheBrokerCostsNoMoreThanItsBounds runs workloads against the built binary. Megabytes a second say nothing on a
// machine that does other things too; processor time and allocations do.
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
	produceHolds(t, b, bounds)
	consumeHolds(t, b, r, bounds)
	const commits, transactions = 20_000, 3_000
	coordinatorHolds(t, b, "commit", bounds, report.Commits, commitLoad(), commits)
	coordinatorHolds(t, b, "transaction", bounds, report.Transactions, transactionLoad(), transactions)
}

func produceHolds(t *testing.T, b *bench, bounds map[string]bound) {
	t.Helper()
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
}

func consumeHolds(t *testing.T, b *bench, r *running, bounds map[string]bound) {
	t.Helper()
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

// coordinatorHolds does so many commits of offsets, or transactions.
func coordinatorHolds(t *testing.T, b *bench, name string, bounds map[string]bound, metric report.Metric,
	load coordinatorLoad, count int64,
) {
	t.Helper()
	s, end, err := b.coordinatorSide(t.Context(), firnOS, "A", metric, load)
	if err != nil {
		t.Fatal(err)
	}
	s.bytes = count * load.bytes
	holds(t, b, &s, name, bounds, int(load.bytes))
	if err := end(); err != nil {
		t.Fatal(err)
	}
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

// holds runs a workload a few times and judges the cheapest: what disturbs makes it dearer only. The bound is of so many
// bytes of it.
func holds(t *testing.T, b *bench, s *side, name string, bounds map[string]bound, bytes int) {
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
			CPUMicroseconds: run.values[report.CPUPerGB] / 1e9 * 1e6 * float64(bytes),
			Allocations:     (allocations(t, s.broker) - before - asking) / float64(run.bytes) * float64(bytes),
		}
		if i == 0 {
			best = got
		}
		best.CPUMicroseconds = min(best.CPUMicroseconds, got.CPUMicroseconds)
		best.Allocations = min(best.Allocations, got.Allocations)
	}
	usage, err := sampler.Of(s.broker.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %.3g µs of a processor, %.3g allocations; %d MB resident", name, best.CPUMicroseconds,
		best.Allocations, usage.Resident/1e6)
	if best.CPUMicroseconds > want.CPUMicroseconds {
		t.Errorf("%s takes %.3g µs of a processor, the bound is %.3g", name, best.CPUMicroseconds, want.CPUMicroseconds)
	}
	if best.Allocations > want.Allocations {
		t.Errorf("%s allocates %.3g times, the bound is %.3g", name, best.Allocations, want.Allocations)
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
