package report

import (
	_ "embed" // for the method
	"fmt"
	"math"
	"strings"
)

// method is what holds for all rows.
//
//go:embed method.md
var method string

// disturbed is the share of the machine, used by others, above which a row is not judged.
const disturbed = 0.10

// WritePage makes the page of all rows' results.
func (f *File) WritePage(name string, rows []Row) error {
	return replace(name, []byte(f.Page(rows)))
}

// Page is the text of docs/benchmarks.md.
func (f *File) Page(rows []Row) string {
	var p page
	p.line("# Benchmarks")
	p.line("")
	p.line("Made by `make bench-kafka` from [benchmarks.json](benchmarks.json); do not edit. firn beside Apache Kafka " +
		"on one machine, in one run, losing rows included.")
	p.machine(f.Machine)
	p.line("")
	p.line(strings.TrimSpace(method))
	for _, section := range sections(rows) {
		p.section(section, rows, f.Results)
	}
	p.short(rows, f)
	return p.text.String()
}

type page struct{ text strings.Builder }

func (p *page) line(format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	p.text.WriteString(format)
	p.text.WriteByte('\n')
}

func (p *page) machine(m Machine) {
	p.line("")
	if m.Processor == "" {
		p.line("Nothing was measured yet.")
		return
	}
	p.line("| | |\n|---|---|")
	p.line("| machine | %s, %d processors, %d GB of memory, Linux %s, %s |", m.Processor, m.Processors, m.MemoryGB,
		m.Kernel, m.FileSystem)
	p.line("| versions | Apache Kafka %s on Java %s; firn at the commits below, %s |", m.Kafka, m.Java, m.Go)
}

func (p *page) section(name string, rows []Row, results map[string]Result) {
	p.line("")
	p.line("## %s", name)
	p.line("")
	p.line("| row | class | | subject | base | default | ratio (range) | goal | |")
	p.line("|---|---|---|---|---|---|---|---|---|")
	left := 0
	var notes []string
	for _, row := range rows {
		if row.Section != name {
			continue
		}
		result, ran := results[row.Name]
		switch {
		case !ran && row.ByName:
			left++
		case !ran || result.Failed != "":
			p.without(row, result)
		default:
			p.row(row, result)
			notes = append(notes, note(row, result))
		}
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("Not run: %d more that run only when they are named; `make bench-kafka ROWS=list` "+
			"tells their names.", left))
	}
	if len(notes) > 0 {
		p.line("")
	}
	for _, text := range notes {
		p.line("- %s", text)
	}
}

// note tells what a row is, and when it ran.
func note(row Row, result Result) string {
	text := fmt.Sprintf("`%s`: %s. %s", row.Name, row.What, row.Subject)
	if row.Base != "" {
		text += " ÷ " + row.Base
	}
	text += fmt.Sprintf("; %s, %s, %d blocks, %.0f s", result.Taken, result.Commit, len(result.Blocks), result.Seconds)
	if result.WarmUp > 0 {
		text += fmt.Sprintf(", after %s GB", number(result.WarmUp))
	}
	if result.Unsteady {
		text += ", before three runs agreed"
	}
	return text + fmt.Sprintf(", others used %.0f %% of the machine.", 100*result.Foreign)
}

// without is a row that has no numbers.
func (p *page) without(row Row, result Result) {
	why := "not run"
	if result.Failed != "" {
		why = "failed: " + strings.ReplaceAll(strings.Join(strings.Fields(result.Failed), " "), "|", "/")
	}
	var goals []string
	for _, goal := range row.Goals {
		goals = append(goals, fmt.Sprintf("%s %s", goal.Metric, goal))
	}
	p.line("| `%s` | %s | | | | | | %s | %s |", row.Name, row.Class, strings.Join(goals, "; "), why)
}

func (p *page) row(row Row, result Result) {
	name, class := "`"+row.Name+"`", row.Class
	for _, metric := range row.Metrics {
		subject, ok := result.Subject(metric)
		if !ok {
			continue
		}
		cells := []string{name, class, string(metric), number(subject.Median), "", "", "", "", ""}
		if base, ok := result.Base(metric); ok {
			cells[4] = number(base.Median)
		}
		if beside, ok := SpreadOf(of(metric, result.Default)); ok {
			cells[5] = number(beside.Median)
		}
		if ratio, ok := result.Ratio(metric); ok {
			cells[6] = fmt.Sprintf("%s (%s–%s)", number(ratio.Median), number(ratio.Low), number(ratio.High))
		}
		var wanted, reached []string
		for _, goal := range row.Goals {
			if goal.Metric == metric {
				wanted = append(wanted, goal.String())
				reached = append(reached, result.verdict(goal).String())
			}
		}
		cells[7], cells[8] = strings.Join(wanted, "; "), strings.Join(reached, "; ")
		p.line("| %s |", strings.Join(cells, " | "))
		name, class = "", ""
	}
}

type verdict int

const (
	met verdict = iota
	missed
	unknown
	notJudged
)

func (v verdict) String() string {
	return [...]string{"met", "**not met**", "no number", "not judged: the machine was disturbed"}[v]
}

func (r Result) verdict(goal Goal) verdict {
	value, ok := r.Ratio(goal.Metric)
	if goal.Absolute {
		value, ok = r.Subject(goal.Metric)
	}
	switch {
	case !ok:
		return unknown
	case r.Foreign > disturbed:
		return notJudged
	case goal.met(value.Median):
		return met
	}
	return missed
}

// short lists what falls short.
func (p *page) short(rows []Row, f *File) {
	p.line("")
	p.line("## What falls short")
	p.line("")
	any := false
	for _, row := range rows {
		result, ran := f.Results[row.Name]
		for _, goal := range row.Goals {
			if !ran || result.verdict(goal) != missed {
				continue
			}
			value, _ := result.Ratio(goal.Metric)
			if goal.Absolute {
				value, _ = result.Subject(goal.Metric)
			}
			cause := f.Causes[row.Name]
			if cause == "" {
				cause = "the cause is not known yet."
			}
			p.line("- `%s`, %s: %s, wanted %s: %s", row.Name, goal.Metric, number(value.Median), goal, cause)
			any = true
		}
	}
	if !any {
		p.line("No row that was run and judged misses its goal.")
	}
}

// number has three digits.
func number(n float64) string {
	switch abs := math.Abs(n); {
	case abs >= 100:
		return fmt.Sprintf("%.0f", n)
	case abs >= 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
	case abs >= 1 || abs == 0:
		return trim(fmt.Sprintf("%.2f", n))
	}
	return trim(fmt.Sprintf("%.3f", n))
}

// trim takes zeros off behind a decimal point.
func trim(text string) string {
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
