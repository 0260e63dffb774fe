package firn

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/broker/wire"
)

// A page that says which test holds a rule must not outlive the test.
func TestPagesNameTestsThatExist(t *testing.T) {
	exists := map[string]bool{}
	for _, file := range sourceFiles(t) {
		for _, decl := range file.syntax.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok {
				exists[function.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z0-9]\w+`)
	eachFile(t, func(name string, text []byte) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, test := range named.FindAllString(string(text), -1) {
			if !exists[test] {
				t.Errorf("%s names %s, which does not exist", name, test)
			}
		}
	})
}

// The page's table of APIs is the one that is served.
func TestProtocolPageListsWhatIsServed(t *testing.T) {
	page, err := os.ReadFile("docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var served, written []string
	for _, api := range wire.APIs() {
		served = append(served, fmt.Sprintf("%d %s %d–%d", api.Key, api.Name, api.Min, api.Max))
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| (\w+) \| ([\d–]+) \|`)
	for _, cells := range row.FindAllStringSubmatch(string(page), -1) {
		written = append(written, strings.Join(cells[1:], " "))
	}
	if diff := cmp.Diff(served, written); diff != "" {
		t.Errorf("docs/protocol.md does not list what broker/wire/versions.go has (-served +written):\n%s", diff)
	}
}

// TestRowsOfTheCatalogueAreHeld: each row of docs/cases.md has a test or says what it waits for, and whatever carries
// the id of a row is listed there.
func TestRowsOfTheCatalogueAreHeld(t *testing.T) {
	page, err := os.ReadFile("docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	held, count := map[string]string{}, map[string]int{}
	row := regexp.MustCompile(`(?m)^\| ([A-Z]{2})-(\d\d) \| .+? \| (.*)\|$`)
	for _, cells := range row.FindAllStringSubmatch(string(page), -1) {
		id := cells[1] + cells[2]
		if held[id] != "" {
			t.Errorf("%s stands twice in docs/cases.md", id)
		}
		held[id] = cells[3]
		count[cells[1]]++
		if !regexp.MustCompile("`(Test\\w+|\\w+\\.txt)`|\\bwaits? for (a second broker|groups|transactions|compaction|security)").
			MatchString(cells[3]) {
			t.Errorf("%s has no test, and docs/cases.md does not say what it waits for", id)
		}
	}
	want := map[string]int{
		"PR": 6, "PD": 11, "FE": 10, "OF": 14, "ME": 11, "AD": 5, "CL": 10, "CR": 9, "GR": 9, "TX": 10, "MX": 7, "RE": 6, "CO": 8,
		"CN": 3, "TI": 18, "PF": 4,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("rows in docs/cases.md (-want +got):\n%s", diff)
	}
	scenarios := map[string]bool{}
	inName := regexp.MustCompile(`(?:_|Test|And|\d)((?:PR|PD|FE|OF|ME|AD|CL|CR|GR|TX|MX|RE|CO|CN|TI|PF)_?\d\d)`)
	listed := func(name string) {
		for _, carried := range inName.FindAllStringSubmatch(name, -1) {
			if id := strings.Replace(carried[1], "_", "", 1); !strings.Contains(held[id], "`"+name+"`") {
				t.Errorf("docs/cases.md does not list %s at row %s", name, id)
			}
		}
	}
	for _, file := range sourceFiles(t) {
		for _, decl := range file.syntax.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") {
				listed(function.Name.Name)
			}
		}
	}
	files, err := filepath.Glob("broker/*/testdata/scenarios/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := filepath.Glob("broker/group/*/testdata/scenarios/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, groups...)
	for _, file := range files {
		scenarios[filepath.Base(file)] = true
		listed(filepath.Base(file))
	}
	for _, scenario := range regexp.MustCompile("`(\\w+\\.txt)`").FindAllStringSubmatch(string(page), -1) {
		if !scenarios[scenario[1]] {
			t.Errorf("docs/cases.md names %s, which does not exist", scenario[1])
		}
	}
}
