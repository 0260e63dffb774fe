//go:build integration

package clients

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// record is a record as all clients can tell it. Null differs from empty everywhere.
type record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // in ms; what a producer does not set is 0
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// someTime is the first time of records.
const someTime = 1_700_000_000_000

// someRecords are records as different as kcat can write them too: what is not in a file of its own is text.
func someRecords(random *rand.Rand) []record {
	headers := []header{
		{"a", []byte("1")}, {"a", []byte("2")}, {"empty", []byte{}}, {"null", nil}, {"ünïcödé", []byte("❄")},
	}
	records := []record{
		{Key: []byte("key"), Value: []byte("value")},
		{Key: nil, Value: []byte("v")},
		{Key: nil, Value: nil},
		{Key: []byte("key"), Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte{}, Value: []byte("the key is empty")},
		{Key: []byte("the value is empty"), Value: []byte{}},
		{Key: []byte("key"), Value: []byte("value"), Headers: headers},
		{Key: []byte("key"), Value: []byte("value"), Headers: headers[:3]},
		{Key: nil, Value: nil, Headers: []header{{"alone", nil}}},
		{Key: []byte("binary"), Value: noise(random, 70_000)},
		{Key: []byte("zeros"), Value: make([]byte, 400_000)},
	}
	for i := range 100 {
		text := fmt.Appendf(nil, "%03d %s", i, bytes.Repeat([]byte{'a' + byte(random.IntN(26))}, 50*random.IntN(10)))
		records = append(records, record{Key: fmt.Appendf(nil, "k%d", random.IntN(20)), Value: text})
	}
	for i := range records { // times go up and down, and up from fifty to fifty
		records[i].Timestamp = someTime + int64(i/50*1000+i*7919%1000)
	}
	return records
}

func noise(random *rand.Rand, size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// expectSame compares what was read with what was written.
func expectSame(t *testing.T, got, want []record) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		switch {
		case g.Offset != w.Offset || g.Timestamp != w.Timestamp:
			t.Fatalf("record %d is at offset %d of time %d, want %d of %d", i, g.Offset, g.Timestamp, w.Offset, w.Timestamp)
		case !same(g.Key, w.Key):
			t.Fatalf("record %d has key %s, want %s", i, show(g.Key), show(w.Key))
		case !same(g.Value, w.Value):
			t.Fatalf("record %d has value %s, want %s", i, show(g.Value), show(w.Value))
		case !slices.EqualFunc(g.Headers, w.Headers, func(a, b header) bool {
			return a.Name == b.Name && same(a.Value, b.Value)
		}):
			t.Fatalf("record %d has headers %q, want %q", i, g.Headers, w.Headers)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func show(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%.40q (%d bytes)", data, len(data))
}
