package bulk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/firnlog/firn/broker/record"
)

// timed is a record with its time.
type timed struct{ offset, timestamp int64 }

func decodeTimes(chunk *Chunk) (found []timed, err error) {
	var it record.Iterator
	for _, batch := range chunk.Batches {
		if err := it.Reset(batch); err != nil {
			return nil, err
		}
		for it.Next() {
			if chunk.Wants(it.Offset()) {
				found = append(found, timed{it.Offset(), it.Timestamp()})
			}
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
	}
	return found, nil
}

// The first record at or after a time is the one that reading everything finds, wherever the snapshot begins and ends.
func TestTimesAreFound(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(t, seed, 1)
			for range 2 + h.random.IntN(4) {
				h.addRandom(0, 1+h.random.IntN(3*mib), 1+h.random.IntN(200*kib))
			}
			p := &h.snapshot.Partitions[0]
			if h.random.IntN(2) == 0 {
				h.seal(0, len(p.Items)-1)
			}
			p.Start = h.random.Int64N(p.End / 2)
			p.End -= h.random.Int64N(p.End / 4)
			reader := NewReader(Options{Bucket: h.bucket, Snapshot: h.snapshot, ControlBatches: true})
			var all []timed
			must(t, Read(t.Context(), reader, h.snapshot.Ranges(), decodeTimes, func(_ Delivered, found []timed) error {
				all = append(all, found...)
				return nil
			}))
			for range 50 {
				timestamp := 900 + h.random.Int64N(1300)
				want := p.End
				for _, one := range all {
					if one.timestamp >= timestamp {
						want = one.offset
						break
					}
				}
				if got, err := reader.OffsetForTimestamp(t.Context(), 0, timestamp); err != nil || got != want {
					t.Errorf("time %d is at offset %d, not %d, %v", timestamp, got, want, err)
				}
			}
		})
	}
}

func TestATimeInAnObjectThatIsGoneIsToldSo(t *testing.T) {
	h := newHistory(t, 1, 1)
	h.addRandom(0, 10*kib, kib)
	reader := NewReader(Options{Bucket: h.bucket, Snapshot: h.snapshot})
	var gone *GoneError
	must(t, h.bucket.Delete(t.Context(), h.key(0)))
	if _, err := reader.OffsetForTimestamp(t.Context(), 0, 1000); !errors.As(err, &gone) || gone.Next != 0 {
		t.Errorf("%v", err)
	}
}
