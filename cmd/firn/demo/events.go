package demo

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the events
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// flights are the events; data/README.md names their source and licence.
//
//go:embed data/flights-2013-01.jsonl.gz
var flights []byte

// event is one flight as it is produced: keyed by aircraft (null where the source does not know it), its own time as
// timestamp, the source's line as value.
type event struct {
	key       []byte
	value     []byte
	timestamp int64 // Unix milliseconds
}

// flight is what the demo reads of an event's value.
type flight struct {
	Time           time.Time `json:"time"`
	Carrier        string    `json:"carrier"`
	Number         int       `json:"flight"`
	Tail           *string   `json:"tail"`
	From           string    `json:"from"`
	To             string    `json:"to"`
	DepartureDelay *float64  `json:"departure_delay_min"`
}

// loadEvents unpacks the events, in the order of the source, which is the order of their times.
func loadEvents() ([]event, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(flights))
	if err != nil {
		return nil, fmt.Errorf("unpack the events: %w", err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("unpack the events: %w", err)
	}
	return parseEvents(text)
}

func parseEvents(text []byte) ([]event, error) {
	var events []event
	for line := range bytes.Lines(text) {
		value := bytes.TrimSuffix(line, []byte("\n"))
		var parsed flight
		if err := json.Unmarshal(value, &parsed); err != nil {
			return nil, fmt.Errorf("event %d: %w", len(events), err)
		}
		next := event{value: value, timestamp: parsed.Time.UnixMilli()}
		if parsed.Tail != nil {
			next.key = []byte(*parsed.Tail)
		}
		if len(events) > 0 && next.timestamp < events[len(events)-1].timestamp {
			return nil, fmt.Errorf("event %d is earlier than the one before it", len(events))
		}
		events = append(events, next)
	}
	return events, nil
}

// bytesOf is the size of keys and values.
func bytesOf(events []event) int64 {
	total := int64(0)
	for _, e := range events {
		total += int64(len(e.key) + len(e.value))
	}
	return total
}

// difference says how a record differs from the event that was produced at its place; "" if it does not.
func difference(index int64, want event, got *kgo.Record) string {
	switch {
	case got.Offset != index:
		return fmt.Sprintf("offset %d came where %d was expected", got.Offset, index)
	case (got.Key == nil) != (want.key == nil) || !bytes.Equal(got.Key, want.key):
		return fmt.Sprintf("offset %d has key %q, produced was %q", index, got.Key, want.key)
	case got.Value == nil || !bytes.Equal(got.Value, want.value):
		return fmt.Sprintf("offset %d has value %q, produced was %q", index, got.Value, want.value)
	case got.Timestamp.UnixMilli() != want.timestamp:
		return fmt.Sprintf("offset %d has timestamp %d, produced was %d", index, got.Timestamp.UnixMilli(), want.timestamp)
	case len(got.Headers) != 0:
		return fmt.Sprintf("offset %d has %d headers, produced were none", index, len(got.Headers))
	}
	return ""
}

// firstAt is the offset of the first event at or after a time: what a broker must answer.
func firstAt(events []event, timestamp int64) int64 {
	low, high := 0, len(events)
	for low < high {
		if middle := (low + high) / 2; events[middle].timestamp < timestamp {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return int64(low)
}
