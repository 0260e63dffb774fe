package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Row is one line of comparison: a workload, what is measured of it, and what is wanted.
type Row struct {
	Name    string
	Section string
	// Class is what an acknowledgement means: A, in the page cache; B, after an fsync; – where none is waited for.
	Class string
	// What is the workload in a few words, with all settings that are not those of the page's begin.
	What string
	// Subject and Base are what is compared: firn and Kafka, or firn with and without something. Base is "" if there is
	// nothing to compare with.
	Subject, Base string
	Metrics       []Metric
	Goals         []Goal
	// Seconds are about how long a run takes.
	Seconds int
	// ByName rows belong to the matrix and run only when they are asked for.
	ByName bool
}

// Metric names one number of a run, with its unit.
type Metric string

// What is measured. A MB is 10⁶ bytes, a GB 10⁹; megabytes and gigabytes are of record batches as they are sent.
const (
	Rate         Metric = "MB/s"
	RateOfCore   Metric = "MB/s of a core"
	Messages     Metric = "messages/s"
	Commits      Metric = "commits/s"
	Transactions Metric = "transactions/s"
	CPUPerGB     Metric = "CPU-s/GB"
	P50          Metric = "p50, ms"
	P99          Metric = "p99, ms"
	P999         Metric = "p99.9, ms"
	Max          Metric = "max, ms"
	Busy         Metric = "broker's core busy, %"
	Resident     Metric = "resident, MB"
	Idle         Metric = "resident idle, MB"
	Loaded       Metric = "resident after load, MB"
	Switches     Metric = "context switches/GB"
	Calls        Metric = "read and write calls/GB"
	StartTime    Metric = "start to first acknowledgement, ms"
	StartCPU     Metric = "CPU-s until then"
	IdleCPU      Metric = "idle, % of a core"
	PerConnected Metric = "KiB/connection"
)

// Goal is what a row should reach: of the ratio, or of the subject's own number.
type Goal struct {
	Metric   Metric
	Absolute bool // of the subject's median, not of the ratio
	AtMost   bool // or at least
	Value    float64
}

func (g Goal) String() string {
	sign := "≥"
	if g.AtMost {
		sign = "≤"
	}
	text := fmt.Sprintf("%s %s", sign, number(g.Value))
	if g.Absolute {
		return "value " + text
	}
	return text
}

func (g Goal) met(value float64) bool {
	if g.AtMost {
		return value <= g.Value
	}
	return value >= g.Value
}

// Select picks rows by patterns of their names, as the path package matches them; "goals" is all but those by name and
// "all" is all. The order stays. An error names what matches nothing.
func Select(rows []Row, patterns string) ([]Row, error) {
	var chosen []Row
	unused := map[string]bool{}
	fields := strings.FieldsFunc(cmp.Or(patterns, "goals"), func(r rune) bool { return r == ',' || r == ' ' })
	for _, pattern := range fields {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("row %q: %w", pattern, err)
		}
		unused[pattern] = true
	}
	for _, row := range rows {
		taken := false
		for _, pattern := range fields {
			matched, _ := path.Match(pattern, row.Name) // the patterns have been tried
			if matched || pattern == "all" || pattern == "goals" && !row.ByName {
				taken = true
				delete(unused, pattern)
			}
		}
		if taken {
			chosen = append(chosen, row)
		}
	}
	for _, pattern := range fields {
		if unused[pattern] {
			return nil, fmt.Errorf("no row is called %q; `make bench-kafka ROWS=list` lists them", pattern)
		}
	}
	return chosen, nil
}

// sections are the sections of rows in the order in which they first appear.
func sections(rows []Row) []string {
	var names []string
	for _, row := range rows {
		if !slices.Contains(names, row.Section) {
			names = append(names, row.Section)
		}
	}
	return names
}
