//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/integration/bench/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rows() []report.Row {
	var rows []report.Row
	for _, e := range table() {
		rows = append(rows, e.Row)
	}
	return rows
}

func TestRowsHaveNamesGoalsOfWhatTheyMeasureAndTimeEnough(t *testing.T) {
	seconds, names := 0, map[string]bool{}
	for _, row := range rows() {
		if names[row.Name] {
			t.Errorf("two rows are called %s", row.Name)
		}
		names[row.Name] = true
		if row.What == "" || row.Subject == "" || row.Class == "" || row.Section == "" || len(row.Metrics) == 0 ||
			row.Seconds == 0 || entryOf(table(), row.Name).run == nil {
			t.Errorf("%s is not all there: %+v", row.Name, row)
		}
		for _, goal := range row.Goals {
			if !slices.Contains(row.Metrics, goal.Metric) || !goal.Absolute && row.Base == "" {
				t.Errorf("%s has a goal for %s, which it does not measure", row.Name, goal.Metric)
			}
		}
		if !row.ByName {
			seconds += row.Seconds
		}
	}
	for name := range produceGoals() {
		if !names[name] {
			t.Errorf("%s has goals and is not in the matrix", name)
		}
	}
	if seconds > 95*60 {
		t.Errorf("all rows with goals take %d minutes", seconds/60)
	}
}

// The page says what its results say: whoever changes one of the two, or a row, makes it anew.
func TestThePageIsMadeOfItsResults(t *testing.T) {
	file, err := report.Load("../../docs/benchmarks.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != file.Page(rows()) {
		t.Error("docs/benchmarks.md is not what its results say: `make bench-page`")
	}
	for name := range file.Results {
		if entryOf(table(), name).run == nil {
			t.Errorf("docs/benchmarks.json has a result of %q, which is no row any more", name)
		}
	}
}

func TestCommandLine(t *testing.T) {
	var out bytes.Buffer
	o, err := parse([]string{"-rows", "idle", "-effort", "quick"}, &out)
	if err != nil || o.rows != "idle" || o.effort != quick {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse(nil, &out); err != nil || o.effort != thorough || o.rows != "goals" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse([]string{"-blocks", "3"}, &out); err != nil || o.effort.blocks != 3 {
		t.Errorf("three blocks: %+v, %v", o, err)
	}
	for _, wrong := range [][]string{{"-effort", "some"}, {"idle"}, {"-nothing"}} {
		if _, err := parse(wrong, &out); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	out.Reset()
	if err := run(t.Context(), []string{"-rows", "list"}, &out); err != nil || !strings.Contains(out.String(), "kgo-in") {
		t.Errorf("the list is %q, %v", out.String(), err)
	}
	if err := run(t.Context(), []string{"-rows", "nothing"}, &out); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a row that is none is answered with %v", err)
	}
}

func TestWhatKafkasToolsPrint(t *testing.T) {
	producer := "50000 records sent, 9998.0 records/sec (9.76 MB/sec), 30.4 ms avg latency.\n" +
		"100000 records sent, 12345.67 records/sec (12.06 MB/sec), 31 ms avg latency, 40 ms 99.9th.\n"
	if n, err := lastNumber(producer, `([\d.]+) records/sec`); err != nil || n != 12345.67 {
		t.Errorf("%v records a second, %v", n, err)
	}
	consumer := "start.time, end.time, data.consumed.in.MB, MB.sec, fetch.nMsg.sec\n" +
		"2026-11-29 22:00:00:000, 2026-11-29 22:00:01:000, 19.0735, 19.0735, 100000.5\n"
	if n, err := column(consumer, "fetch.nMsg.sec"); err != nil || n != 100000.5 {
		t.Errorf("%v messages a second, %v", n, err)
	}
	for _, wrong := range []string{"", "fetch.nMsg.sec\n", "Error: no group coordinator"} {
		if n, err := column(wrong, "fetch.nMsg.sec"); err == nil {
			t.Errorf("%q tells %v", wrong, n)
		}
	}
	if _, err := lastNumber("Error", `([\d.]+) records/sec`); err == nil {
		t.Error("an error tells a rate")
	}
}

func TestAFailureIsShownWithoutTheMachinesPaths(t *testing.T) {
	b := &bench{dir: "/scratch/firn-bench-1", options: options{firn: "/built/firn", kafkaLib: "/lib", versitygw: "/gw"}}
	text := b.anonymous(errors.New("/built/firn: open /scratch/firn-bench-1/x: " + strings.Repeat("é", 500) + " the end"))
	if strings.Contains(text, "/scratch") || strings.Contains(text, "/built") || !strings.HasSuffix(text, "the end") ||
		len(text) > 420 {
		t.Errorf("%q", text)
	}
}
