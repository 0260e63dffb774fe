//go:build integration

package clients

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// feature is a column of the matrix.
type feature string

const (
	plain  feature = "none" // the codecs are called as the setting compression.type has them
	gzip   feature = "gzip"
	snappy feature = "snappy"
	lz4    feature = "lz4"
	zstd   feature = "zstd"

	nulls        feature = "null"      // keys and values
	bothNull     feature = "both null" // in one record
	empties      feature = "empty"
	headers      feature = "headers"
	nullHeaders  feature = "null headers" // values of headers that are null
	times        feature = "times"        // that the writer sets
	large        feature = "10 MB"
	fromAnOffset feature = "by offset"
	fromATime    feature = "by time"

	mixed         feature = "mixed" // members of different clients in one group
	transaction   feature = "transactions"
	committedOnly feature = "read_committed"
)

var (
	codecs    = []feature{plain, gzip, snappy, lz4, zstd}
	exchanged = append(codecs[:len(codecs):len(codecs)],
		nulls, bothNull, empties, headers, nullHeaders, times, large, fromAnOffset, fromATime)
	grouped = []feature{feature(classic), feature(next), mixed, transaction, committedOnly}
)

// side is what of a client is meant.
type side string

const (
	writes side = "writes"
	reads  side = "reads"
	joins  side = "joins"
)

// verb is what a client cannot do with a feature.
func (s side) verb() string { return strings.TrimSuffix(string(s), "s") }

// can tells whether a client can do all of something, as the table says.
func (c *client) can(does side, all ...feature) bool {
	return !slices.ContainsFunc(c.lacks, func(l lack) bool {
		return l.side == does && slices.ContainsFunc(all, func(f feature) bool { return slices.Contains(l.features, f) })
	})
}

// needs are the features that a record has. Times are not among them, as a client that cannot set them sets its own.
func (r *record) needs() []feature {
	var all []feature
	add := func(f feature, has bool) {
		if has && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	for _, data := range [][]byte{r.Key, r.Value} {
		add(nulls, data == nil)
		add(empties, data != nil && len(data) == 0)
	}
	add(bothNull, r.Key == nil && r.Value == nil)
	add(large, len(r.Value) >= 10_000_000)
	add(headers, len(r.Headers) > 0)
	add(nullHeaders, slices.ContainsFunc(r.Headers, func(h header) bool { return h.Value == nil }))
	return all
}

// tells returns copies of records without what the client cannot tell of what it reads.
func (c *client) tells(records []record) []record {
	field := func(data []byte, null feature) []byte {
		if len(data) == 0 && !c.can(reads, null, empties) {
			return nil
		}
		return data
	}
	all := slices.Clone(records)
	for i := range all {
		r := &all[i]
		r.Key, r.Value, r.Headers = field(r.Key, nulls), field(r.Value, nulls), slices.Clone(r.Headers)
		for j, h := range r.Headers {
			r.Headers[j].Value = field(h.Value, nullHeaders)
		}
		if !c.can(reads, headers) {
			r.Headers = nil
		}
		if !c.can(reads, times) {
			r.Timestamp = 0
		}
	}
	return all
}

// pin is where a version is written down: a file, and an expression whose group is the version.
type pin struct{ file, pattern string }

func (p pin) version(t *testing.T) string {
	t.Helper()
	if p.file == "" {
		return "as packaged"
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(p.pattern).FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s has no %s", p.file, p.pattern)
	}
	return string(match[1])
}

// observed is what the clients were seen to do. A cell is full when it was seen to work.
type observed struct {
	mu    sync.Mutex // guards the field below
	cells map[cell]bool
}

type cell struct {
	client  string
	side    side
	feature feature
}

// add fills the cells of a client that has shown features.
func (o *observed) add(c *client, does side, shown ...feature) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range shown {
		if c.can(does, f) {
			o.cells[cell{c.name, does, f}] = true
		}
	}
}

// table is the matrix of some features as the page shows it, and the reasons for what is not there.
func (o *observed) table(t *testing.T, columns []feature) string {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var rows, reasons strings.Builder
	rows.WriteString("| client | version |")
	for _, f := range columns {
		fmt.Fprintf(&rows, " %s |", f)
	}
	fmt.Fprintf(&rows, "\n|---|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, c := range clients() {
		fmt.Fprintf(&rows, "| %s | %s |", c.name, c.version.version(t))
		for _, f := range columns {
			text := ""
			for _, side := range []side{writes, reads, joins} {
				if o.cells[cell{c.name, side, f}] {
					text += string(side[:1])
				}
			}
			fmt.Fprintf(&rows, " %s |", cmp.Or(text, "–"))
		}
		rows.WriteString("\n")
		for _, l := range c.lacks {
			if slices.ContainsFunc(l.features, func(f feature) bool { return slices.Contains(columns, f) }) {
				fmt.Fprintf(&reasons, "- %s cannot %s *%s*: %s\n", c.name, l.side.verb(), l.what(), l.reason)
			}
		}
	}
	return rows.String() + "\n" + reasons.String()
}

// what a client lacks, in words.
func (l lack) what() string {
	names := make([]string, len(l.features))
	for i, f := range l.features {
		names[i] = string(f)
	}
	return strings.Join(names, "*, *")
}
