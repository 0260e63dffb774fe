package report

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func testRows() []Row {
	return []Row{
		{
			Name: "produce-large", Section: "Produce", Class: "A", What: "Large requests", Subject: "firn", Base: "Kafka",
			Metrics: []Metric{Rate, CPUPerGB, P99},
			Goals:   []Goal{{Metric: Rate, Value: 2.5}, {Metric: CPUPerGB, AtMost: true, Value: 0.35}},
		},
		{
			Name: "produce-small", Section: "Produce", Class: "A", What: "Small requests", Subject: "firn", Base: "Kafka",
			Metrics: []Metric{Rate}, Goals: []Goal{{Metric: Rate, Value: 5}},
		},
		{Name: "produce-odd", Section: "Produce", Class: "A", Metrics: []Metric{Rate}, ByName: true},
		{Name: "produce-other", Section: "Produce", Class: "A", Metrics: []Metric{Rate}, ByName: true},
		{
			Name: "groups", Section: "Latency", Class: "B", What: "Group commit", Subject: "firn",
			Metrics: []Metric{P99}, Goals: []Goal{{Metric: P99, Absolute: true, AtMost: true, Value: 10}},
		},
		{
			Name: "noisy", Section: "Latency", Class: "A", What: "With neighbours", Subject: "with", Base: "without",
			Metrics: []Metric{P99}, Goals: []Goal{{Metric: P99, AtMost: true, Value: 1.2}},
		},
		{
			Name: "broken", Section: "Latency", Class: "A", Metrics: []Metric{P99},
			Goals: []Goal{{Metric: P99, AtMost: true, Value: 1.2}},
		},
		{Name: "never", Section: "Latency", Class: "A", Metrics: []Metric{P99}},
	}
}

func testFile() *File {
	pair := func(base, subject float64) Block {
		return Block{
			Base:    []Values{{Rate: base, CPUPerGB: 2}, {Rate: base, CPUPerGB: 2}},
			Subject: []Values{{Rate: subject, CPUPerGB: 0.5}, {Rate: subject + 10, CPUPerGB: 0.5}},
		}
	}
	return &File{
		Machine: Machine{
			Processor: "Abacus", Processors: 2, MemoryGB: 24, Kernel: "6.1", FileSystem: "ext4", Go: "go1.26", Java: "17",
			Kafka: "4.4.0",
		},
		Results: map[string]Result{
			"produce-large": {
				Taken: "2026-11-29", Commit: "abc", Seconds: 120, Blocks: []Block{pair(500, 990), pair(400, 1190), pair(500, 890)},
				Default: []Values{{Rate: 700}, {Rate: 710}}, Foreign: 0.02, WarmUp: 10.4,
			},
			"produce-small": {
				Taken: "2026-11-29", Commit: "abc", Seconds: 99.6, Blocks: []Block{pair(100, 595)}, Foreign: 0.04, Unsteady: true,
			},
			"groups": {Taken: "2026-11-29", Commit: "abc", Blocks: []Block{{Subject: []Values{{P99: 12.34}, {P99: 11}}}}},
			"noisy": {
				Taken: "2026-11-29", Commit: "abc", Foreign: 0.31,
				Blocks: []Block{{Base: []Values{{P99: 1}}, Subject: []Values{{P99: 1.1}}}},
			},
			"broken": {Failed: "the broker\nhas | ended"},
		},
		Causes: map[string]string{"groups": "the disk is slow."},
	}
}

func TestPage(t *testing.T) {
	golden := filepath.Join("testdata", "page.golden")
	got := testFile().Page(testRows())
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestARatioIsTakenInEachBlock(t *testing.T) {
	result := testFile().Results["produce-large"]
	ratio, ok := result.Ratio(Rate)
	want := Spread{Median: 995.0 / 500, Low: 895.0 / 500, High: 1195.0 / 400}
	if !ok || ratio != want {
		t.Errorf("ratio %+v, want %+v", ratio, want)
	}
	if subject, _ := result.Subject(Rate); subject != (Spread{Median: 995, Low: 890, High: 1200}) {
		t.Errorf("subject %+v", subject)
	}
	if _, ok := result.Ratio(Max); ok {
		t.Error("there is a ratio of what nobody measured")
	}
	zero := Result{Blocks: []Block{{Base: []Values{{Rate: 0}}, Subject: []Values{{Rate: 1}}}}}
	if ratio, ok := zero.Ratio(Rate); ok {
		t.Errorf("something is %v times nothing", ratio)
	}
}

func TestSpreadAndSteadiness(t *testing.T) {
	if s, ok := SpreadOf([]float64{4, 1, 3, 2}); !ok || s != (Spread{Median: 2.5, Low: 1, High: 4}) {
		t.Errorf("%+v", s)
	}
	if _, ok := SpreadOf(nil); ok {
		t.Error("no numbers have a median")
	}
	for _, c := range []struct {
		numbers []float64
		want    bool
	}{
		{[]float64{100, 100}, false},
		{[]float64{10, 100, 103, 104}, true},
		{[]float64{100, 103, 106}, false},
	} {
		if got := Steady(c.numbers, 0.05); got != c.want {
			t.Errorf("%v: %v", c.numbers, got)
		}
	}
	v := Values{Rate: 123.456789, P99: 0.000012345678, Max: math.Inf(1)}
	v.Round()
	if v[Rate] != 123.46 || v[P99] != 0.000012346 {
		t.Errorf("%v", v)
	}
}

func TestRowsArePickedByPatterns(t *testing.T) {
	names := func(patterns string) string {
		rows, err := Select(testRows(), patterns)
		if err != nil {
			return "error: " + err.Error()
		}
		var names []string
		for _, row := range rows {
			names = append(names, row.Name)
		}
		return strings.Join(names, " ")
	}
	for patterns, want := range map[string]string{
		"":                      "produce-large produce-small groups noisy broken never",
		"goals":                 "produce-large produce-small groups noisy broken never",
		"all":                   "produce-large produce-small produce-odd produce-other groups noisy broken never",
		"produce-o*":            "produce-odd produce-other",
		"never,produce-large":   "produce-large never",
		"never produce-o* odd?": `error: no row is called "odd?"; ` + "`make bench-kafka ROWS=list` lists them",
		"[":                     `error: row "[": syntax error in pattern`,
	} {
		if got := names(patterns); got != want {
			t.Errorf("%q picks %q, want %q", patterns, got, want)
		}
	}
}

func TestResultsSurviveAndThoseOfOtherRowsStay(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.json")
	empty, err := Load(name)
	if err != nil || len(empty.Results) != 0 {
		t.Fatalf("%+v, %v", empty, err)
	}
	file := testFile()
	if err := file.Save(name); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(file, loaded); diff != "" {
		t.Error(diff)
	}
	loaded.Results["never"] = Result{Taken: "2026-11-30"}
	if err := loaded.Save(name); err != nil {
		t.Fatal(err)
	}
	if again, err := Load(name); err != nil || len(again.Results) != len(file.Results)+1 {
		t.Errorf("%d results, %v", len(again.Results), err)
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name); err == nil {
		t.Error("half a file is read")
	}
}
