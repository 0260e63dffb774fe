package segment_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/firnlog/firn/tiering/segment"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

const goldenFile = "testdata/object-v1.golden"

var sectionNames = []string{"", "identity", "range", "statistics", "checksums of the data", "offset index",
	"time index", "aborted transactions", "leader epochs", "producer snapshot"}

// TestGoldenObject keeps every version of the format readable for ever: the file is annotated hexadecimal, encoded from
// and decoded to the same object. If it fails, the format has changed and needs a new version.
func TestGoldenObject(t *testing.T) {
	b := build(100, batchSpec{baseOffset: 100, timestamps: []int64{1000, 1005}},
		batchSpec{baseOffset: 102, timestamps: []int64{1030}}, batchSpec{baseOffset: 103, timestamps: []int64{1020}})
	tail := tailFor(b, 101, 110)
	tail.IndexBaseOffset = 100
	object := newObject(t, b, tail)
	encoded := bytesOf(t, object)
	if *rewrite {
		if err := os.WriteFile(goldenFile, []byte(annotate(encoded)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), annotate(encoded)); diff != "" {
		t.Errorf("the encoding differs (-golden +got):\n%s", diff)
	}
	golden := unhex(t, string(text))
	decoded, err := segment.Verify(t.Context(), bytes.NewReader(golden), int64(len(golden)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object.Tail, decoded, cmpopts.IgnoreUnexported(segment.Tail{}, segment.Contents{})); diff != "" {
		t.Errorf("the golden object decodes otherwise (-want +got):\n%s", diff)
	}
}

// annotate prints an object as lines of hexadecimal under headings that begin with #.
func annotate(object []byte) string {
	var text strings.Builder
	trailer := len(object) - segment.TrailerSize
	tail := int(binary.BigEndian.Uint64(object[trailer:]))
	fmt.Fprintf(&text, "# data: %d bytes of record batches\n%s", tail, hexLines(object[:tail]))
	for position := tail; position < trailer; {
		kind, length := binary.BigEndian.Uint16(object[position:]), int(binary.BigEndian.Uint32(object[position+4:]))
		fmt.Fprintf(&text, "# section %d, %s: header, then %d bytes\n", kind, sectionNames[kind], length)
		text.WriteString(hexLines(object[position:position+8]) + hexLines(object[position+8:position+8+length]))
		position += 8 + length
	}
	text.WriteString("# trailer: data bytes, tail bytes, tail checksum, kind and version, trailer checksum, magic\n")
	for _, field := range [][2]int{{0, 8}, {8, 12}, {12, 16}, {16, 20}, {20, 24}, {24, 32}} {
		text.WriteString(hexLines(object[trailer+field[0] : trailer+field[1]]))
	}
	return text.String()
}

func hexLines(data []byte) string {
	var text strings.Builder
	for len(data) > 0 {
		line := data[:min(len(data), 32)]
		text.WriteString(hex.EncodeToString(line) + "\n")
		data = data[len(line):]
	}
	return text.String()
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var data []byte
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		part, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, part...)
	}
	return data
}
