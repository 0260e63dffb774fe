package segment

import (
	"encoding/binary"
	"sort"
)

// offsetEntry says where the batch begins whose last record has an offset.
type offsetEntry struct {
	offset   int64
	position int64
}

// timeEntry says that no record up to offset has a timestamp above it.
type timeEntry struct {
	timestamp int64
	offset    int64
}

func (t *Tail) offsetEntries() int { return len(t.OffsetIndex) / offsetEntrySize }

func (t *Tail) offsetEntry(i int) offsetEntry {
	entry := t.OffsetIndex[i*offsetEntrySize:]
	return offsetEntry{
		offset:   t.IndexBaseOffset + int64(int32(binary.BigEndian.Uint32(entry))),
		position: int64(int32(binary.BigEndian.Uint32(entry[4:]))),
	}
}

func (t *Tail) timeEntries() int { return len(t.TimeIndex) / timeEntrySize }

func (t *Tail) timeEntry(i int) timeEntry {
	entry := t.TimeIndex[i*timeEntrySize:]
	return timeEntry{
		timestamp: int64At(entry, 0),
		offset:    t.IndexBaseOffset + int64(int32(binary.BigEndian.Uint32(entry[8:]))),
	}
}

// Position is where in the data to start looking for the batch with an offset: a batch begins there, and none before it
// reaches the offset.
func (t *Tail) Position(offset int64) int64 {
	n := sort.Search(t.offsetEntries(), func(i int) bool { return t.offsetEntry(i).offset > offset })
	if n == 0 {
		return 0
	}
	return t.offsetEntry(n - 1).position
}

// PositionPast is where in the data to stop looking for records below an offset: a batch begins there, or the data
// ends, and no record from there on has a lower one.
func (t *Tail) PositionPast(offset int64) int64 {
	n := sort.Search(t.offsetEntries(), func(i int) bool { return t.offsetEntry(i).offset >= offset-1 })
	if n+1 >= t.offsetEntries() {
		return t.DataBytes
	}
	return t.offsetEntry(n + 1).position
}

// Cut is a place where the data may be cut in two.
type Cut struct {
	Position int64 // a batch begins here, or the data ends
	Below    int64 // all records before the cut have lower offsets
	From     int64 // all records from the cut on have this offset or a higher one
}

// Cut finds the first place at or after a position that the offset index knows; where it knows none it is the end of
// the data.
func (t *Tail) Cut(position int64) Cut {
	n := sort.Search(t.offsetEntries(), func(i int) bool { return t.offsetEntry(i).position >= position })
	if n == t.offsetEntries() {
		return Cut{Position: t.DataBytes, Below: t.EndOffset, From: t.EndOffset}
	}
	at := t.offsetEntry(n)
	cut := Cut{Position: at.position, Below: at.offset, From: t.BaseOffset}
	if n > 0 {
		cut.From = max(cut.From, t.offsetEntry(n-1).offset+1)
	}
	return cut
}

// PositionForTimestamp is where in the data to start looking for the first record with a timestamp at or after the
// given one: a batch begins there, and all records before it are older.
func (t *Tail) PositionForTimestamp(timestamp int64) int64 {
	n := sort.Search(t.timeEntries(), func(i int) bool { return t.timeEntry(i).timestamp >= timestamp })
	if n == 0 {
		return 0
	}
	return t.Position(t.timeEntry(n - 1).offset)
}

// checkIndexes tells whether look-ups are safe: entries ascend and stay within the data and the range.
func (t *Tail) checkIndexes() error {
	last := offsetEntry{offset: t.IndexBaseOffset - 1, position: -1}
	for i := range t.offsetEntries() {
		entry := t.offsetEntry(i)
		if entry.offset <= last.offset || entry.position <= last.position || entry.position >= t.DataBytes ||
			entry.offset >= t.EndOffset {
			return corrupt(t.DataBytes, "entry %d of the offset index (%d at %d) does not fit", i, entry.offset, entry.position)
		}
		last = entry
	}
	lastTime := timeEntry{timestamp: -1, offset: t.IndexBaseOffset - 1}
	for i := range t.timeEntries() {
		entry := t.timeEntry(i)
		if entry.timestamp <= lastTime.timestamp || entry.offset <= lastTime.offset || entry.offset >= t.EndOffset {
			return corrupt(t.DataBytes, "entry %d of the time index (%d at %d) does not fit", i, entry.timestamp, entry.offset)
		}
		lastTime = entry
	}
	return nil
}

// CutIndexes makes indexes for data that lacks the first cut bytes of a local segment, where a batch ends: an upload
// that begins at a log start inside the segment. fromRelative is the first kept batch's base offset less the segment's,
// to which the offsets stay relative. Positions are counted from the cut.
func CutIndexes(offsetIndex, timeIndex []byte, cut int64, fromRelative int32) (cutOffsetIndex, cutTimeIndex []byte) {
	for ; len(offsetIndex) >= offsetEntrySize; offsetIndex = offsetIndex[offsetEntrySize:] {
		position := int64(int32(binary.BigEndian.Uint32(offsetIndex[4:])))
		if position < cut {
			continue
		}
		cutOffsetIndex = append(cutOffsetIndex, offsetIndex[:4]...)
		cutOffsetIndex = binary.BigEndian.AppendUint32(cutOffsetIndex, uint32(position-cut))
	}
	for ; len(timeIndex) >= timeEntrySize; timeIndex = timeIndex[timeEntrySize:] {
		if int32(binary.BigEndian.Uint32(timeIndex[8:])) >= fromRelative {
			cutTimeIndex = append(cutTimeIndex, timeIndex[:timeEntrySize]...)
		}
	}
	return cutOffsetIndex, cutTimeIndex
}
