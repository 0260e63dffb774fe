package storage

import "testing"

func TestIndexesFitAfterEveryCleanStop(t *testing.T) {
	for _, interval := range []int32{0, 100, 250, 4096} {
		d := newDisk()
		config := Config{IndexIntervalBytes: interval, SegmentBytes: 4000}
		events := Events{IndexRebuilt: func(segment string, reason error) {
			t.Errorf("interval %d: the indexes of %s were made anew: %v", interval, segment, reason)
		}}
		observe := func(opts *ManagerOptions) { opts.Events = &events }
		for stop := range 12 {
			m, l := d.open(t, config, observe)
			for i := range stop % 4 {
				// Timestamps mostly grow, so that the largest is seldom that of a batch with an index entry.
				appendBatch(t, l, batchOf(2, int64(1000*stop+100*(i^1))), 0, 1)
			}
			end := l.EndOffset()
			if found, ok, err := l.OffsetForTimestamp(0, end); err != nil || ok && found.Offset != 0 {
				t.Fatal(found, ok, err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			m, l = d.open(t, config, observe)
			if l.EndOffset() != end {
				t.Fatalf("the log ends at %d instead of %d", l.EndOffset(), end)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
