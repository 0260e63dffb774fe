package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
)

// modelRecord is a record of the model that look-ups are compared with.
type modelRecord struct{ offset, timestamp int64 }

// drawRun makes a run of segments and the records in it. A segment may have no record at all.
func drawRun(t *rapid.T) (entries manifest.Entries, records [][]modelRecord) {
	offset := rapid.Int64Range(0, 5).Draw(t, "base")
	for range rapid.IntRange(0, 8).Draw(t, "segments") {
		entry := command.SegmentEntry{BaseOffset: offset, MinTimestamp: -1, MaxTimestamp: -1, MaxTimestampOffset: -1,
			UploadID: kafka.UUID{1}, DataBytes: rapid.Int64Range(0, 100).Draw(t, "bytes"), TailBytes: 50}
		entry.ObjectBytes = entry.DataBytes + 50
		var inside []modelRecord
		for range rapid.IntRange(1, 5).Draw(t, "offsets") {
			if timestamp := rapid.Int64Range(-10, 20).Draw(t, "timestamp"); timestamp >= 0 {
				inside = append(inside, modelRecord{offset, timestamp})
				if entry.MinTimestamp < 0 || timestamp < entry.MinTimestamp {
					entry.MinTimestamp = timestamp
				}
				if timestamp > entry.MaxTimestamp {
					entry.MaxTimestamp, entry.MaxTimestampOffset = timestamp, offset
				}
			}
			offset++
		}
		entry.EndOffset = offset
		entries, records = append(entries, entry), append(records, inside)
	}
	return entries, records
}

func TestEachOffsetBelongsToTheSegmentWhoseRangeHoldsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, _ := drawRun(t)
		if err := entries.Check(); err != nil {
			t.Fatal(err)
		}
		offset := rapid.Int64Range(0, 50).Draw(t, "offset")
		want := slices.IndexFunc(entries, func(entry command.SegmentEntry) bool {
			return entry.BaseOffset <= offset && offset < entry.EndOffset
		})
		index, ok := entries.Find(offset)
		if ok != (want >= 0) || ok && index != want {
			t.Fatalf("offset %d: %d, %v instead of %d", offset, index, ok, want)
		}
	})
}

func TestALookUpByTimeLeadsToTheFirstRecordAtOrAfterIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, records := drawRun(t)
		timestamp := rapid.Int64Range(0, 21).Draw(t, "timestamp")
		from := rapid.Int64Range(0, 50).Draw(t, "from")
		suits := func(record modelRecord) bool { return record.offset >= from && record.timestamp >= timestamp }
		want, wantIndex := modelRecord{-1, -1}, -1
		for i, inside := range records {
			if at := slices.IndexFunc(inside, suits); at >= 0 && wantIndex < 0 {
				want, wantIndex = inside[at], i
			}
		}
		got := modelRecord{-1, -1}
		steps := 0
		for next := from; got.offset < 0; steps++ {
			index, ok := entries.FindTimestamp(timestamp, next)
			if !ok {
				break
			}
			if at := slices.IndexFunc(records[index], suits); at >= 0 {
				got = records[index][at]
			}
			next = entries[index].EndOffset
		}
		if got != want || steps > 2 {
			t.Fatalf("timestamp %d from %d: %v after %d segments instead of %v", timestamp, from, got, steps, want)
		}
	})
}

func TestTheLargestTimestampIsFoundWithoutReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, records := drawRun(t)
		from := rapid.Int64Range(0, 50).Draw(t, "from")
		largest := func(records []modelRecord) (best modelRecord) {
			best = modelRecord{-1, -1}
			for _, record := range records {
				if record.offset >= from && record.timestamp > best.timestamp {
					best = record
				}
			}
			return best
		}
		want := largest(slices.Concat(records...))
		got := modelRecord{-1, -1}
		if index, ok := entries.MaxTimestamp(from); ok {
			got = modelRecord{entries[index].MaxTimestampOffset, entries[index].MaxTimestamp}
		}
		if index, ok := entries.Straddling(from); ok { // the one that has to be read
			if rest := largest(records[index]); rest.timestamp >= got.timestamp {
				got = rest
			}
		}
		if got != want {
			t.Fatalf("from %d: %v instead of %v", from, got, want)
		}
	})
}

func TestARunWithAGapIsNoRun(t *testing.T) {
	segment := func(base, end int64, epoch kafka.LeaderEpoch) command.SegmentEntry {
		return command.SegmentEntry{BaseOffset: base, EndOffset: end, LeaderEpoch: epoch, UploadID: kafka.UUID{1}}
	}
	for name, test := range map[string]struct {
		entries manifest.Entries
		want    string
	}{
		"a run":             {manifest.Entries{segment(0, 5, 1), segment(5, 6, 1), segment(6, 9, 2)}, ""},
		"nothing":           {nil, ""},
		"a gap":             {manifest.Entries{segment(0, 5, 1), segment(6, 9, 1)}, "begins at offset 6"},
		"an overlap":        {manifest.Entries{segment(0, 5, 1), segment(4, 9, 1)}, "begins at offset 4"},
		"an older leader":   {manifest.Entries{segment(0, 5, 2), segment(5, 9, 1)}, "leader epoch 1"},
		"an empty range":    {manifest.Entries{segment(5, 5, 1)}, "no range"},
		"an unnamed upload": {manifest.Entries{{BaseOffset: 0, EndOffset: 5}}, "upload id"},
	} {
		err := test.entries.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
