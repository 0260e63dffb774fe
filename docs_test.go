package firn

import (
	"fmt"
	"go/ast"
	"os"
	"path"
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
