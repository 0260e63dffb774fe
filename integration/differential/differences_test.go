package differential

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of differences into the protocol page")

// difference is a way in which an answer may differ from Apache Kafka's. In patterns * stands for anything.
type difference struct {
	request string // pattern: API/case/step
	field   string // pattern: path in the answer
	// kafka and firn are what the two answer, as patterns; "" is any value.
	kafka, firn string
	reason      string
}

// matches tells whether this is the difference that was seen.
func (d *difference) matches(request, field, kafka, firn string) bool {
	return glob(d.request, request) && glob(d.field, field) &&
		glob(cmp.Or(d.kafka, "*"), kafka) && glob(cmp.Or(d.firn, "*"), firn)
}

// glob matches text with a pattern in which * is any text, and nothing else has a meaning.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if !ok || at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return ok && strings.HasSuffix(text, last)
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"a*", "ab", true},
		{"*b", "ab", true},
		{"a*c", "abc", true},
		{"a*c", "abd", false},
		{"*[x]*", "Configs[x].Value", true},
		{"*[x]*", "Configs[y].Value", false},
		{"ab*b", "ab", false},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

const (
	protocolPage = "../../docs/protocol.md"
	tableBegin   = "<!-- differences: begin. Written by `go test ./integration/differential -rewrite`. -->\n"
	tableEnd     = "<!-- differences: end -->\n"
)

// TestDifferencesAreInTheProtocolPage holds the page and the table together.
func TestDifferencesAreInTheProtocolPage(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(page, []byte(tableBegin))
	table, after, ok2 := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table of differences", protocolPage)
	}
	want := differencesTable()
	if *rewrite {
		page = bytes.Join([][]byte{before, []byte(tableBegin), []byte(want), []byte(tableEnd), after}, nil)
		if err := os.WriteFile(protocolPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(table) != want {
		t.Errorf("%s does not show the table of differences: go test ./integration/differential -rewrite", protocolPage)
	}
}

// differencesTable is the table as the page shows it.
func differencesTable() string {
	var page strings.Builder
	page.WriteString("| request | field | Kafka 4.4 | firn | reason |\n|---|---|---|---|---|\n")
	for _, d := range differences() {
		fmt.Fprintf(&page, "| %s | `%s` | %s | %s | %s |\n",
			strings.ReplaceAll(d.request, "*", `\*`), d.field, shown(d.kafka), shown(d.firn), d.reason)
	}
	return page.String()
}

func shown(value string) string {
	if value == "" || value == "*" {
		return "\u2026"
	}
	return "`" + value + "`"
}
