package storage

import (
	"encoding/binary"
	"fmt"
	"sort"
)

// An offset index file is a run of entries without header, ascending in both fields:
//
//	┌──────────────────────────┬────────────────┐
//	│ relative offset (int32)  │ position int32 │   big-endian
//	└──────────────────────────┴────────────────┘
//
// The offset is that of the last record of the batch that begins at the position, relative to the segment's base.
const offsetEntrySize = 8

// offsetEntry is one entry; the zero value stands for the begin of the segment when nothing is found.
type offsetEntry struct {
	relative int32
	position int32
}

func appendOffsetEntry(dst []byte, entry offsetEntry) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(entry.relative))
	return binary.BigEndian.AppendUint32(dst, uint32(entry.position))
}

func offsetEntryAt(index []byte, i int) offsetEntry {
	entry := index[i*offsetEntrySize:]
	return offsetEntry{
		relative: int32(binary.BigEndian.Uint32(entry)),
		position: int32(binary.BigEndian.Uint32(entry[4:])),
	}
}

// findOffset returns the last entry whose offset is at or below relative.
func findOffset(index []byte, relative int64) (entry offsetEntry, ok bool) {
	n := sort.Search(len(index)/offsetEntrySize, func(i int) bool {
		return int64(offsetEntryAt(index, i).relative) > relative
	})
	if n == 0 {
		return offsetEntry{}, false
	}
	return offsetEntryAt(index, n-1), true
}

// findPosition returns the last entry whose position is at or below position.
func findPosition(index []byte, position int64) (entry offsetEntry, ok bool) {
	n := sort.Search(len(index)/offsetEntrySize, func(i int) bool {
		return int64(offsetEntryAt(index, i).position) > position
	})
	if n == 0 {
		return offsetEntry{}, false
	}
	return offsetEntryAt(index, n-1), true
}

// checkOffsetIndex tells why an index cannot belong to a segment of that many bytes and offsets.
func checkOffsetIndex(index []byte, relativeEnd, size int64) error {
	if len(index)%offsetEntrySize != 0 {
		return fmt.Errorf("%d bytes are no whole number of entries", len(index))
	}
	last := offsetEntry{relative: -1, position: 0}
	for i := range len(index) / offsetEntrySize {
		entry := offsetEntryAt(index, i)
		if entry.relative <= last.relative || entry.position <= last.position {
			return fmt.Errorf("entry %d (%d at %d) is not above the one before it", i, entry.relative, entry.position)
		}
		last = entry
	}
	if int64(last.relative) >= relativeEnd && last.relative >= 0 || int64(last.position) >= size && last.position > 0 {
		return fmt.Errorf("the last entry (%d at %d) is past the segment's end", last.relative, last.position)
	}
	return nil
}
