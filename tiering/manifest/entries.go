package manifest

import (
	"fmt"
	"sort"

	"github.com/firnlog/firn/metastore/command"
)

// Entries is a run of segments without a gap: each range begins where the one before it ends. An offset between the
// records of a segment (compaction leaves such holes) therefore belongs to exactly one of them.
type Entries []command.SegmentEntry

// Check tells whether the entries are sound and form a run.
func (e Entries) Check() error {
	for i, entry := range e {
		if err := entry.Validate(); err != nil {
			return fmt.Errorf("manifest entry %d: %w", i, err)
		}
		if i > 0 && entry.BaseOffset != e[i-1].EndOffset {
			return fmt.Errorf("manifest entry %d begins at offset %d, the one before it ends at %d", i, entry.BaseOffset,
				e[i-1].EndOffset)
		}
		if i > 0 && entry.LeaderEpoch < e[i-1].LeaderEpoch {
			return fmt.Errorf("manifest entry %d has leader epoch %d, the one before it %d", i, entry.LeaderEpoch,
				e[i-1].LeaderEpoch)
		}
	}
	return nil
}

// Find is the index of the segment that answers for an offset.
func (e Entries) Find(offset int64) (index int, ok bool) {
	index = e.endingAfter(offset)
	return index, index < len(e) && e[index].BaseOffset <= offset
}

// endingAfter is the index of the first segment with anything past an offset, or len(e).
func (e Entries) endingAfter(offset int64) int {
	return sort.Search(len(e), func(i int) bool { return e[i].EndOffset > offset })
}

// FindTimestamp is the index of the first segment that may hold a record at or after offset from with a timestamp at or
// after the given one. It holds none only if from lies inside it and the record that it was found for comes before
// from; the search then goes on from the segment's end.
func (e Entries) FindTimestamp(timestamp, from int64) (index int, ok bool) {
	for i := e.endingAfter(from); i < len(e); i++ {
		if e[i].MaxTimestamp >= timestamp {
			return i, true
		}
	}
	return len(e), false
}

// MaxTimestamp is the index of the segment with the largest timestamp, the first of several, among those whose largest
// is at or after offset from. What it leaves out is what Straddling finds.
func (e Entries) MaxTimestamp(from int64) (index int, ok bool) {
	index = -1
	for i := e.endingAfter(from); i < len(e); i++ {
		if e[i].MaxTimestampOffset >= from && (index < 0 || e[i].MaxTimestamp > e[index].MaxTimestamp) {
			index = i
		}
	}
	return index, index >= 0
}

// Straddling is the index of the segment in which offset from lies such that the record with its largest timestamp
// comes before from: its entry does not tell the largest timestamp of the rest.
func (e Entries) Straddling(from int64) (index int, ok bool) {
	index, ok = e.Find(from)
	return index, ok && e[index].MaxTimestampOffset >= 0 && e[index].MaxTimestampOffset < from
}
