//go:build integration

package clients

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what was seen into the protocol page")

const protocolPage = "../../docs/protocol.md"

// expectOnPage holds a part of the protocol page and what it is to be together.
func expectOnPage(t *testing.T, part, want string) {
	t.Helper()
	const command = "go test -tags integration ./integration/clients -rewrite"
	begin := fmt.Sprintf("<!-- %s: begin. Written by `%s`. -->\n", part, command)
	end := fmt.Sprintf("<!-- %s: end -->\n", part)
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(page, []byte(begin))
	got, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for %s", protocolPage, part)
	}
	if *rewrite {
		page = bytes.Join([][]byte{before, []byte(begin), []byte(want), []byte(end), after}, nil)
		if err := os.WriteFile(protocolPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(got) != want {
		t.Errorf("%s is not up to date: %s\n%s", protocolPage, command, want)
	}
}
