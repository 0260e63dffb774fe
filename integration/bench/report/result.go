package report

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Values are the numbers of one run.
type Values map[Metric]float64

// Round leaves the digits that mean something.
func (v Values) Round() {
	const digits = 5
	for metric, n := range v {
		if rounded, err := strconv.ParseFloat(strconv.FormatFloat(n, 'g', digits, 64), 64); err == nil {
			v[metric] = rounded
		}
	}
}

// Block is some runs close to each other in time; a ratio is taken within it. Runs of one side are averaged.
type Block struct {
	Base    []Values `json:"base,omitempty"`
	Subject []Values `json:"subject"`
}

// Result is what a row's last run gave.
type Result struct {
	Taken   string  `json:"taken"`  // the day
	Commit  string  `json:"commit"` // of firn
	Seconds float64 `json:"seconds"`
	Blocks  []Block `json:"blocks,omitempty"`
	// Default are runs of firn with its own flush policy, where the row sets another.
	Default []Values `json:"default,omitempty"`
	// Foreign is the share of the machine that others used, from 0 to 1: the median of all runs.
	Foreign float64 `json:"foreign"`
	// WarmUp is how many GB went before, and Unsteady says that the runs did not agree even then.
	WarmUp   float64 `json:"warmUpGB,omitempty"`
	Unsteady bool    `json:"unsteady,omitempty"`
	// Failed is why there are no numbers.
	Failed string `json:"failed,omitempty"`
}

// Machine is where it was measured.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	MemoryGB   int    `json:"memoryGB"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"fileSystem"`
	Go         string `json:"go"`
	Java       string `json:"java"`
	Kafka      string `json:"kafka"`
}

// File is all results, beside the page that is made of them.
type File struct {
	Machine Machine           `json:"machine"`
	Results map[string]Result `json:"results"`
	// Causes says of rows that fall short why, and what would mend it. It is written by hand.
	Causes map[string]string `json:"causes"`
}

// Load reads a file; one that does not exist has no results.
func Load(name string) (*File, error) {
	file := &File{Results: map[string]Result{}, Causes: map[string]string{}}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err == nil {
		err = json.Unmarshal(text, file)
	}
	return file, err
}

// Save writes the file in place of the one before.
func (f *File) Save(name string) error {
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return replace(name, append(text, '\n'))
}

// replace writes a file at once: a run that is interrupted leaves the old one.
func replace(name string, text []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), ".bench-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	err = errors.Join(err, temporary.Close(), os.Chmod(temporary.Name(), 0o644))
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// Spread is the median of some numbers and their range.
type Spread struct{ Median, Low, High float64 }

// SpreadOf is false for no numbers.
func SpreadOf(numbers []float64) (Spread, bool) {
	if len(numbers) == 0 {
		return Spread{}, false
	}
	sorted := slices.Sorted(slices.Values(numbers))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{Median: median, Low: sorted[0], High: sorted[len(sorted)-1]}, true
}

// of is the numbers of a metric in runs that have it.
func of(metric Metric, runs []Values) []float64 {
	var numbers []float64
	for _, run := range runs {
		if n, ok := run[metric]; ok {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Subject is the spread of a metric over all runs of the subject, Base over those of what it is compared with.
func (r Result) Subject(metric Metric) (Spread, bool) {
	var all []float64
	for _, block := range r.Blocks {
		all = append(all, of(metric, block.Subject)...)
	}
	return SpreadOf(all)
}

// Base is the spread of a metric over all runs of what the subject is compared with.
func (r Result) Base(metric Metric) (Spread, bool) {
	var all []float64
	for _, block := range r.Blocks {
		all = append(all, of(metric, block.Base)...)
	}
	return SpreadOf(all)
}

// Ratio is the spread over the blocks of subject ÷ base.
func (r Result) Ratio(metric Metric) (Spread, bool) {
	var ratios []float64
	for _, block := range r.Blocks {
		subject, base := of(metric, block.Subject), of(metric, block.Base)
		if len(subject) == 0 || len(base) == 0 {
			continue
		}
		if below := mean(base); below > 0 {
			ratios = append(ratios, mean(subject)/below)
		}
	}
	return SpreadOf(ratios)
}

func mean(numbers []float64) float64 {
	total := 0.0
	for _, n := range numbers {
		total += n
	}
	return total / float64(len(numbers))
}

// Steady tells whether the last three of some numbers agree within a share of their mean.
func Steady(numbers []float64, within float64) bool {
	const last = 3
	if len(numbers) < last {
		return false
	}
	tail := numbers[len(numbers)-last:]
	return slices.Max(tail)-slices.Min(tail) <= within*mean(tail)
}
