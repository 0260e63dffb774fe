package storage

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/firnlog/firn/broker/record"
)

// A time index file is a run of entries without header, ascending in both fields:
//
//	┌─────────────────┬─────────────────────────┐
//	│ timestamp int64 │ relative offset (int32) │   big-endian
//	└─────────────────┴─────────────────────────┘
//
// It says that no batch up to and including the one with that last offset has a larger timestamp. The offset is the
// last one of the batch that has the timestamp (KAFKA-16341), relative to the segment's base.
const timeEntrySize = 12

type timeEntry struct {
	timestamp int64
	relative  int32
}

func appendTimeEntry(dst []byte, entry timeEntry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(entry.timestamp))
	return binary.BigEndian.AppendUint32(dst, uint32(entry.relative))
}

func timeEntryAt(index []byte, i int) timeEntry {
	entry := index[i*timeEntrySize:]
	return timeEntry{
		timestamp: int64(binary.BigEndian.Uint64(entry)),
		relative:  int32(binary.BigEndian.Uint32(entry[8:])),
	}
}

// maybeAppendTime adds an entry unless it says nothing new: an index holds the running maximum only, and records
// without a timestamp (−1) have no place in it.
func maybeAppendTime(index []byte, entry timeEntry) []byte {
	newest := record.NoTimestamp
	if n := len(index) / timeEntrySize; n > 0 {
		newest = timeEntryAt(index, n-1).timestamp
	}
	if entry.timestamp <= newest {
		return index
	}
	return appendTimeEntry(index, entry)
}

// findTime returns the last entry whose timestamp is below timestamp: all records up to it are older.
func findTime(index []byte, timestamp int64) (entry timeEntry, ok bool) {
	n := sort.Search(len(index)/timeEntrySize, func(i int) bool {
		return timeEntryAt(index, i).timestamp >= timestamp
	})
	if n == 0 {
		return timeEntry{}, false
	}
	return timeEntryAt(index, n-1), true
}

// checkTimeIndex tells why an index cannot belong to a segment with that many offsets.
func checkTimeIndex(index []byte, relativeEnd int64) error {
	if len(index)%timeEntrySize != 0 {
		return fmt.Errorf("%d bytes are no whole number of entries", len(index))
	}
	last := timeEntry{timestamp: record.NoTimestamp, relative: -1}
	for i := range len(index) / timeEntrySize {
		entry := timeEntryAt(index, i)
		if entry.timestamp <= last.timestamp || entry.relative <= last.relative {
			return fmt.Errorf("entry %d (%d at %d) is not above the one before it", i, entry.timestamp, entry.relative)
		}
		last = entry
	}
	if int64(last.relative) >= relativeEnd && last.relative >= 0 {
		return fmt.Errorf("the last entry (%d at %d) is past the segment's end", last.timestamp, last.relative)
	}
	return nil
}
