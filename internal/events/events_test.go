package events

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

func packed(t *testing.T, lines int) io.Reader {
	t.Helper()
	var text bytes.Buffer
	writer := gzip.NewWriter(&text)
	for i := range lines {
		fmt.Fprintf(writer, `{"time":%d,"carrier":"%c"}`+"\n", 1000000+i, 'A'+i%26)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return &text
}

func TestValuesHaveTheirSizeAndComeAgainWithTheSeed(t *testing.T) {
	lines, err := Read(packed(t, leastEvents))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 24, 25, 4096} {
		first := lines.Values(rand.New(rand.NewPCG(1, 2)), 50, size)
		again := lines.Values(rand.New(rand.NewPCG(1, 2)), 50, size)
		other := lines.Values(rand.New(rand.NewPCG(2, 2)), 50, size)
		same := 0
		for i, value := range first {
			if len(value) != size || !bytes.Equal(value, again[i]) {
				t.Fatalf("value %d of %d bytes is %q, and again %q", i, size, value, again[i])
			}
			if bytes.Equal(value, other[i]) {
				same++
			}
		}
		if size > 20 && same > 0 {
			t.Errorf("another seed makes %d of the values of %d bytes again", same, size)
		}
	}
	long := string(lines.Values(rand.New(rand.NewPCG(1, 2)), 1, 4096)[0])
	if !strings.HasPrefix(long, `{"time":`) || strings.Contains(long[8:], long[:15]) {
		t.Errorf("an event comes twice, or is none: %q", long)
	}
}

func TestTooFewEventsAreRefused(t *testing.T) {
	if _, err := Read(packed(t, leastEvents-1)); err == nil || !strings.Contains(err.Error(), "999 events") {
		t.Errorf("error %v", err)
	}
	if _, err := Read(strings.NewReader("no gzip")); err == nil {
		t.Error("what is not packed is read")
	}
}
