package compact

import (
	"fmt"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/tiering/segment"
)

// Look-ups by the indexes of a rewritten segment begin at a batch from which on the wanted record is found, and not far
// from it.
func TestIndexesLeadToTheRightBatch(t *testing.T) {
	const base = 1000
	var x indexes
	type place struct{ position, first, last, timestamp int64 }
	var batches []place
	position := int64(0)
	for i := range 200 {
		first := int64(base - 2 + 10*i) // the first one begins before the range, and between all of them is a hole
		timestamp := int64(5000 + 10*(i^3))
		batch := builtAt(first, timestamp, 3)
		x.add(batch, position, base)
		batches = append(batches, place{position, first, first + 2, timestamp + 2})
		position += int64(len(batch))
	}
	tail := &segment.Tail{IndexBaseOffset: base, OffsetIndex: x.offsets, TimeIndex: x.times}
	entries := len(x.offsets) / 8
	if most := int(position/indexBytes) + 1; entries < most/2 || entries > most || len(x.times) == 0 {
		t.Fatalf("%d entries and %d of times for %d bytes", entries, len(x.times)/12, position)
	}
	for i, wanted := range batches {
		from := tail.Position(wanted.last)
		if from > wanted.position || wanted.position-from > 2*indexBytes {
			t.Errorf("offset %d of the batch at %d is looked for from %d on", wanted.last, wanted.position, from)
		}
		from = tail.PositionForTimestamp(wanted.timestamp)
		for _, earlier := range batches[:i+1] {
			if earlier.timestamp >= wanted.timestamp && earlier.position < from {
				t.Errorf("time %d is looked for from %d on, behind the batch at %d", wanted.timestamp, from, earlier.position)
			}
		}
	}
	if from := tail.PositionForTimestamp(batches[150].timestamp); batches[150].position-from > 3*indexBytes {
		t.Errorf("a late time is looked for from %d on, far before %d", from, batches[150].position)
	}
}

// builtAt is a batch of records a millisecond apart.
func builtAt(first, timestamp int64, records int) record.Batch {
	options := record.PlainProducer()
	options.BaseOffset = first
	builder := record.NewBuilder(options)
	for i := range records {
		builder.Append(timestamp+int64(i), nil, fmt.Appendf(nil, "%0200d", i))
	}
	return builder.Build()
}
