package demo

import (
	"bytes"
	_ "embed" // for the events
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/events"
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

// Flights are the events' values, for others that need some.
func Flights() (events.Events, error) { return events.Read(bytes.NewReader(flights)) }

// loadEvents unpacks the events, in the order of the source, which is the order of their times.
func loadEvents() ([]event, error) {
	values, err := Flights()
	if err != nil {
		return nil, err
	}
	return parseEvents(values)
}

func parseEvents(values events.Events) ([]event, error) {
	var flown []event
	for _, value := range values {
		var parsed flight
		if err := json.Unmarshal(value, &parsed); err != nil {
			return nil, fmt.Errorf("event %d: %w", len(flown), err)
		}
		next := event{value: value, timestamp: parsed.Time.UnixMilli()}
		if parsed.Tail != nil {
			next.key = []byte(*parsed.Tail)
		}
		if len(flown) > 0 && next.timestamp < flown[len(flown)-1].timestamp {
			return nil, fmt.Errorf("event %d is earlier than the one before it", len(flown))
		}
		flown = append(flown, next)
	}
	return flown, nil
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
