package command

import (
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// SegmentFlags are properties of a segment object that a reader must know before it fetches the tail. The high byte is
// no flag but the origin: which of the clusters that ever wrote objects of the topic has put this one, as an index into
// image.Topic.Origins. Keys begin with the cluster's id.
type SegmentFlags uint16

const (
	// HasAbortedTransactions: the tail lists aborted transactions that overlap the range; of a reference: the tail of
	// one of its segments does.
	HasAbortedTransactions SegmentFlags = 1 << 0

	originShift = 8
	// MaxOrigins bounds the clusters that a topic may have come from: their index is one byte.
	MaxOrigins = 1 << originShift
)

func (f SegmentFlags) origin() int { return int(f >> originShift) }

func (f SegmentFlags) withOrigin(origin int) SegmentFlags {
	return f&(1<<originShift-1) | SegmentFlags(origin)<<originShift
}

// SegmentEntry describes one segment object in the manifest: what range of the log it answers for and what retention
// and look-ups need to know without reading it. Times are Unix milliseconds, −1 unknown.
type SegmentEntry struct {
	BaseOffset         int64 // the range is [BaseOffset, EndOffset); the first batch may begin earlier
	EndOffset          int64
	LeaderEpoch        kafka.LeaderEpoch // of the leader that uploaded it, or the end of what it was rewritten from
	UploadID           kafka.UUID        // part of the object's key, never used twice
	DataBytes          int64             // record batches
	ObjectBytes        int64             // batches and tail
	TailBytes          int32
	MinTimestamp       int64
	MaxTimestamp       int64
	MaxTimestampOffset int64
	FirstAppendedAt    int64
	LastAppendedAt     int64
	Flags              SegmentFlags
}

// Origin is the index, in the topic's list, of the cluster that has put the object.
func (e SegmentEntry) Origin() int { return e.Flags.origin() }

// WithOrigin gives the entry with another origin, which must be below MaxOrigins.
func (e SegmentEntry) WithOrigin(origin int) SegmentEntry {
	e.Flags = e.Flags.withOrigin(origin)
	return e
}

// Summary implements Item.
func (e SegmentEntry) Summary() Summary {
	return Summary{
		BaseOffset: e.BaseOffset, EndOffset: e.EndOffset, LeaderEpoch: e.LeaderEpoch, UploadID: e.UploadID, Flags: e.Flags,
		Segments: 1, DataBytes: e.DataBytes, ObjectBytes: e.ObjectBytes,
		MinTimestamp: e.MinTimestamp, MaxTimestamp: e.MaxTimestamp, MaxTimestampOffset: e.MaxTimestampOffset,
		FirstAppendedAt: e.FirstAppendedAt, LastAppendedAt: e.LastAppendedAt,
	}
}

// A manifest entry has a fixed size, big endian, so that a leaf of them can be searched in place:
//
//	position  size  field
//	       0     1  version, 1
//	       1     1  kind: 1 segment (2 leaf and 3 node are references, which are longer)
//	       2     2  origin (high byte), flags (low byte): 1 aborted transactions
//	       4     4  leader epoch
//	       8     8  base offset
//	      16     8  end offset (exclusive)
//	      24    16  upload id
//	      40     8  data bytes
//	      48     8  object bytes
//	      56     4  tail bytes
//	      60     8  min timestamp
//	      68     8  max timestamp
//	      76     8  offset of the max timestamp
//	      84     8  first append time
//	      92     8  last append time
const (
	SegmentEntrySize = 100

	entryVersion = 1
	kindSegment  = 1
)

// AppendTo appends the entry's 100 bytes.
func (e SegmentEntry) AppendTo(dst []byte) []byte {
	dst = append(dst, entryVersion, kindSegment)
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.Flags))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.LeaderEpoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.BaseOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.EndOffset))
	dst = append(dst, e.UploadID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.DataBytes))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ObjectBytes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.TailBytes))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.MinTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.MaxTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.MaxTimestampOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.FirstAppendedAt))
	return binary.BigEndian.AppendUint64(dst, uint64(e.LastAppendedAt))
}

// segmentEntry does not validate: a command in the log must decode in every version, and is refused when it is applied.
func (c *Cursor) segmentEntry() SegmentEntry {
	data := c.take(SegmentEntrySize)
	if data == nil {
		return SegmentEntry{}
	}
	if data[0] != entryVersion || data[1] != kindSegment {
		c.Fail(fmt.Sprintf("manifest entry of version %d and kind %d is not known to this program", data[0], data[1]))
		return SegmentEntry{}
	}
	return readEntry(data)
}

// readEntry takes the fields out of an entry's bytes, whatever its kind.
func readEntry(data []byte) SegmentEntry {
	number := func(position int) int64 { return int64(binary.BigEndian.Uint64(data[position:])) }
	return SegmentEntry{
		Flags:              SegmentFlags(binary.BigEndian.Uint16(data[2:])),
		LeaderEpoch:        kafka.LeaderEpoch(binary.BigEndian.Uint32(data[4:])),
		BaseOffset:         number(8),
		EndOffset:          number(16),
		UploadID:           kafka.UUID(data[24:40]),
		DataBytes:          number(40),
		ObjectBytes:        number(48),
		TailBytes:          int32(binary.BigEndian.Uint32(data[56:])),
		MinTimestamp:       number(60),
		MaxTimestamp:       number(68),
		MaxTimestampOffset: number(76),
		FirstAppendedAt:    number(84),
		LastAppendedAt:     number(92),
	}
}

// Validate checks what must hold of any entry, wherever it comes from.
func (e SegmentEntry) Validate() error {
	switch {
	case e.BaseOffset < 0 || e.EndOffset <= e.BaseOffset:
		return fmt.Errorf("the offsets [%d, %d) are no range: %w", e.BaseOffset, e.EndOffset, kafka.InvalidRequest)
	case e.DataBytes < 0 || e.TailBytes < 0 || e.ObjectBytes < e.DataBytes:
		return fmt.Errorf("%d bytes of data do not fit an object of %d: %w", e.DataBytes, e.ObjectBytes, kafka.InvalidRequest)
	case e.UploadID.IsZero():
		return fmt.Errorf("an entry needs an upload id: %w", kafka.InvalidRequest)
	case e.LeaderEpoch < 0:
		return fmt.Errorf("leader epoch %d is none: %w", e.LeaderEpoch, kafka.InvalidRequest)
	}
	return nil
}
