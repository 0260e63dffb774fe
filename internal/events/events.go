package events

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
)

// leastEvents is how many lines it takes to look like somebody's data.
const leastEvents = 1000

// Events are lines of text.
type Events [][]byte

// Read unpacks what gzip has packed.
func Read(packed io.Reader) (Events, error) {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack events: %w", err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("unpack events: %w", err)
	}
	lines := Events(bytes.Split(bytes.TrimSpace(text), []byte("\n")))
	if len(lines) < leastEvents {
		return nil, fmt.Errorf("there are %d events, and %d are needed to look like somebody's data", len(lines), leastEvents)
	}
	return lines, nil
}

// Values are so many records of exactly so many bytes, each a run of events from a random one on. Digits are drawn
// anew, so that no event comes twice: a codec would find it.
func (e Events) Values(random *rand.Rand, count, size int) [][]byte {
	values := make([][]byte, count)
	for i := range values {
		value := make([]byte, 0, size+1024)
		for next := random.IntN(len(e)); len(value) < size; next = (next + 1) % len(e) {
			value = append(value, e[next]...)
		}
		values[i] = value[:size]
		for at, char := range values[i] {
			if char >= '0' && char <= '9' {
				values[i][at] = '0' + byte(random.IntN(10))
			}
		}
	}
	return values
}
