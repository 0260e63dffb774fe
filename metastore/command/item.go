package command

import (
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// Item is one element of a partition's manifest: exactly SegmentEntry, which is one segment object, and Reference,
// which stands for many that are listed in a sealed object. They are passed by value, so that two items can be compared
// by ==; one that is different has another upload id.
type Item interface {
	// Summary is what look-ups and retention need of either.
	Summary() Summary
	// Validate checks what must hold of any item, wherever it comes from.
	Validate() error
	// AppendTo appends the item's fixed number of bytes, which ParseItem reads.
	AppendTo(dst []byte) []byte
}

// Summary is what an item says about the part of the log that it answers for. Times are Unix milliseconds.
type Summary struct {
	Level       int   // 0 a segment, 1 a leaf (a list of segments), 2 a node (a list of leaves)
	BaseOffset  int64 // the range is [BaseOffset, EndOffset)
	EndOffset   int64
	LeaderEpoch kafka.LeaderEpoch // of the leader that put the object
	UploadID    kafka.UUID
	Flags       SegmentFlags
	Segments    int64
	DataBytes   int64 // of all segments
	ObjectBytes int64 // of all segment objects; what is sealed around them does not count

	MinTimestamp       int64 // −1 if that of any segment is unknown
	MaxTimestamp       int64 // the largest that is known, −1 if none is
	MaxTimestampOffset int64 // of the first record that has it
	FirstAppendedAt    int64 // −1 if that of any segment is unknown
	LastAppendedAt     int64 // −1 if that of any segment is unknown
}

// Origin is the index, in the topic's list, of the cluster that has put the object.
func (s Summary) Origin() int { return s.Flags.origin() }

// Summarize adds up a run of items, which must not be empty. Level, LeaderEpoch, UploadID and Origin are those of
// nobody: a run has none.
func Summarize(items []Item) Summary {
	first := items[0].Summary()
	sum := Summary{
		BaseOffset: first.BaseOffset, MinTimestamp: first.MinTimestamp, MaxTimestamp: first.MaxTimestamp,
		MaxTimestampOffset: first.MaxTimestampOffset,
		FirstAppendedAt:    first.FirstAppendedAt, LastAppendedAt: first.LastAppendedAt,
	}
	for _, item := range items {
		s := item.Summary()
		sum.EndOffset = s.EndOffset
		sum.Segments += s.Segments
		sum.DataBytes += s.DataBytes
		sum.ObjectBytes += s.ObjectBytes
		sum.Flags |= s.Flags.withOrigin(0)
		sum.MinTimestamp = min(sum.MinTimestamp, s.MinTimestamp)
		sum.FirstAppendedAt = min(sum.FirstAppendedAt, s.FirstAppendedAt)
		if s.LastAppendedAt < 0 || sum.LastAppendedAt < 0 {
			sum.LastAppendedAt = -1
		} else {
			sum.LastAppendedAt = max(sum.LastAppendedAt, s.LastAppendedAt)
		}
		if s.MaxTimestamp > sum.MaxTimestamp {
			sum.MaxTimestamp, sum.MaxTimestampOffset = s.MaxTimestamp, s.MaxTimestampOffset
		}
	}
	return sum
}

// Reference stands for a sealed run of items: an immutable object in the bucket that lists them. Its summary holds for
// all that is in the object, also for what the log start has passed since.
type Reference struct {
	Level              int               // 1 a leaf, 2 a node
	BaseOffset         int64             // the range is [BaseOffset, EndOffset)
	EndOffset          int64             //
	LeaderEpoch        kafka.LeaderEpoch // of the leader that put the sealed object
	UploadID           kafka.UUID        // of the sealed object: part of its key, never used twice
	Segments           int64             // in it and below it
	DataBytes          int64             // of all these segments
	ObjectBytes        int64             // of all these segments' objects
	SealedBytes        int32             // of the sealed object itself
	Checksum           uint32            // CRC32C of the whole sealed object
	MinTimestamp       int64             // −1 if that of any segment is unknown
	MaxTimestamp       int64
	MaxTimestampOffset int64
	FirstAppendedAt    int64 // −1 if that of any segment is unknown
	LastAppendedAt     int64 // −1 if that of any segment is unknown
	Flags              SegmentFlags
}

// The levels of references.
const (
	LevelLeaf = 1
	LevelNode = 2
)

// Origin is the index, in the topic's list, of the cluster that has put the sealed object.
func (r Reference) Origin() int { return r.Flags.origin() }

// WithOrigin gives the reference with another origin, which must be below MaxOrigins.
func (r Reference) WithOrigin(origin int) Reference {
	r.Flags = r.Flags.withOrigin(origin)
	return r
}

// Summary implements Item.
func (r Reference) Summary() Summary {
	return Summary{
		Level: r.Level, BaseOffset: r.BaseOffset, EndOffset: r.EndOffset, LeaderEpoch: r.LeaderEpoch, UploadID: r.UploadID,
		Flags: r.Flags, Segments: r.Segments, DataBytes: r.DataBytes, ObjectBytes: r.ObjectBytes,
		MinTimestamp: r.MinTimestamp, MaxTimestamp: r.MaxTimestamp, MaxTimestampOffset: r.MaxTimestampOffset,
		FirstAppendedAt: r.FirstAppendedAt, LastAppendedAt: r.LastAppendedAt,
	}
}

// Covers tells whether a reference says of a run of items what is true of them.
func (r Reference) Covers(items []Item) bool {
	if len(items) == 0 {
		return false
	}
	want, got := Summarize(items), r.Summary()
	got.Level, got.LeaderEpoch, got.UploadID, got.Flags = 0, 0, kafka.UUID{}, got.Flags.withOrigin(0)
	return got == want
}

// A reference has a fixed size, big endian; its first 100 bytes are laid out like a segment's entry:
//
//	position  size  field
//	       0     1  version, 1
//	       1     1  kind: 2 leaf, 3 node
//	       2     2  origin (high byte), flags (low byte): 1 aborted transactions
//	       4     4  leader epoch
//	       8     8  base offset
//	      16     8  end offset (exclusive)
//	      24    16  upload id
//	      40     8  data bytes of all segments
//	      48     8  object bytes of all segments
//	      56     4  size of the sealed object
//	      60     8  min timestamp
//	      68     8  max timestamp
//	      76     8  offset of the max timestamp
//	      84     8  first append time
//	      92     8  last append time
//	     100     8  segments
//	     108     4  checksum of the sealed object
const (
	ReferenceSize = 112

	referenceSegments = 100
	referenceChecksum = 108
)

// AppendTo appends the reference's 112 bytes.
func (r Reference) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = SegmentEntry{
		BaseOffset: r.BaseOffset, EndOffset: r.EndOffset, LeaderEpoch: r.LeaderEpoch, UploadID: r.UploadID,
		DataBytes: r.DataBytes, ObjectBytes: r.ObjectBytes, TailBytes: r.SealedBytes,
		MinTimestamp: r.MinTimestamp, MaxTimestamp: r.MaxTimestamp, MaxTimestampOffset: r.MaxTimestampOffset,
		FirstAppendedAt: r.FirstAppendedAt, LastAppendedAt: r.LastAppendedAt, Flags: r.Flags,
	}.AppendTo(dst)
	dst[start+1] = kindSegment + byte(r.Level)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Segments))
	return binary.BigEndian.AppendUint32(dst, r.Checksum)
}

// Validate implements Item.
func (r Reference) Validate() error {
	switch {
	case r.Level != LevelLeaf && r.Level != LevelNode:
		return fmt.Errorf("a reference of level %d is none: %w", r.Level, kafka.InvalidRequest)
	case r.BaseOffset < 0 || r.EndOffset <= r.BaseOffset:
		return fmt.Errorf("the offsets [%d, %d) are no range: %w", r.BaseOffset, r.EndOffset, kafka.InvalidRequest)
	case r.DataBytes < 0 || r.ObjectBytes < r.DataBytes || r.Segments < 1 || r.SealedBytes < 1:
		return fmt.Errorf("%d bytes of data in %d segment objects with %d bytes, listed in %d bytes, make no sense: %w",
			r.DataBytes, r.Segments, r.ObjectBytes, r.SealedBytes, kafka.InvalidRequest)
	case r.UploadID.IsZero():
		return fmt.Errorf("a reference needs an upload id: %w", kafka.InvalidRequest)
	case r.LeaderEpoch < 0:
		return fmt.Errorf("leader epoch %d is none: %w", r.LeaderEpoch, kafka.InvalidRequest)
	}
	return nil
}

// ParseItem reads the bytes of one item.
func ParseItem(data []byte) (Item, error) {
	c := NewCursor(data)
	item := c.Item()
	err := c.Finish()
	if err == nil {
		err = item.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("manifest item: %w", err)
	}
	return item, nil
}

// Item reads an item without validating it; nil after an error.
func (c *Cursor) Item() Item {
	if c.err == nil && c.Remaining() > 1 && c.data[c.position+1] != kindSegment {
		if reference := c.reference(); c.err == nil {
			return reference
		}
		return nil
	}
	if entry := c.segmentEntry(); c.err == nil {
		return entry
	}
	return nil
}

// reference does not validate, for the reason that segmentEntry does not.
func (c *Cursor) reference() Reference {
	data := c.take(ReferenceSize)
	if data == nil {
		return Reference{}
	}
	level := int(data[1]) - kindSegment
	if data[0] != entryVersion || level < LevelLeaf || level > LevelNode {
		c.Fail(fmt.Sprintf("manifest item of version %d and kind %d is not known to this program", data[0], data[1]))
		return Reference{}
	}
	same := readEntry(data)
	return Reference{
		Level: level, BaseOffset: same.BaseOffset, EndOffset: same.EndOffset, LeaderEpoch: same.LeaderEpoch,
		UploadID: same.UploadID, DataBytes: same.DataBytes, ObjectBytes: same.ObjectBytes, SealedBytes: same.TailBytes,
		MinTimestamp: same.MinTimestamp, MaxTimestamp: same.MaxTimestamp, MaxTimestampOffset: same.MaxTimestampOffset,
		FirstAppendedAt: same.FirstAppendedAt, LastAppendedAt: same.LastAppendedAt, Flags: same.Flags,
		Segments: int64(binary.BigEndian.Uint64(data[referenceSegments:])),
		Checksum: binary.BigEndian.Uint32(data[referenceChecksum:]),
	}
}

// AppendItems appends a list of items.
func AppendItems(dst []byte, items []Item) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(items)))
	for _, item := range items {
		dst = item.AppendTo(dst)
	}
	return dst
}

// Items reads a list of items; an empty one is nil.
func (c *Cursor) Items() []Item { return readList(c, SegmentEntrySize, (*Cursor).Item) }

// ParseItems reads what AppendItems has written, and nothing else.
func ParseItems(data []byte) ([]Item, error) {
	c := NewCursor(data)
	items := c.Items()
	err := c.Finish()
	for i := 0; i < len(items) && err == nil; i++ {
		err = items[i].Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("manifest items: %w", err)
	}
	return items, nil
}
