package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/segment"
)

// A sealed object is a list of items, a tail that says whose it is, and the trailer of every object (package segment),
// of kind 2 (leaf: segment entries) or 3 (node: references to leaves), version 1:
//
//	┌──────────────────────────────────────────────────────────────┐ 0
//	│ items, ascending without a gap, as the metastore keeps them  │
//	│   (100 bytes a segment, 112 a leaf)                          │
//	├──────────────────────────────────────────────────────────────┤ data bytes
//	│ tail                                                         │
//	├──────────────────────────────────────────────────────────────┤ data bytes + tail bytes
//	│ trailer: 32 bytes                                            │
//	└──────────────────────────────────────────────────────────────┘
//
// The tail, big endian:
//
//	position  size  field
//	       0    16  cluster id
//	      16    16  topic id
//	      32     4  partition
//	      36     8  base offset
//	      44     8  end offset (exclusive)
//	      52     4  leader epoch of the upload
//	      56    16  upload id
//	      72     4  number of items
//	      76     4  checksum of the items
//	      80        topic name at the time (the rest)
const (
	sealedVersion = 1

	tailTopic     = 16
	tailPartition = 32
	tailBase      = 36
	tailEnd       = 44
	tailEpoch     = 52
	tailUpload    = 56
	tailCount     = 72
	tailChecksum  = 76
	tailName      = 80

	// maxSealedBytes bounds what is loaded: the largest number of the largest items, and a name.
	maxSealedBytes = command.MaxSealed*command.ReferenceSize + tailName + 1024 + segment.TrailerSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sealed is what a sealed object holds.
type Sealed struct {
	Key   segment.Key
	Topic string // its name at the time
	Items []command.Item
}

// Seal makes a sealed object of items of one level, and what refers to it. The key must name the object's own range;
// its kind and range are set here. Origin is the topic's.
func Seal(key segment.Key, topic string, origin int, items []command.Item) ([]byte, command.Reference) {
	sum := command.Summarize(items)
	level := items[0].Summary().Level + 1
	key.BaseOffset, key.EndOffset = sum.BaseOffset, sum.EndOffset
	var data []byte
	for _, item := range items {
		data = item.AppendTo(data)
	}
	trailer := segment.Trailer{
		DataBytes: int64(len(data)), TailBytes: int32(tailName + len(topic)),
		Kind: segment.KindSegment + segment.Kind(level), Version: sealedVersion,
	}
	checksum := crc32.Checksum(data, castagnoli)
	data = append(data, key.ClusterID[:]...)
	data = append(data, key.Partition.ID[:]...)
	data = binary.BigEndian.AppendUint32(data, uint32(key.Partition.Partition))
	data = binary.BigEndian.AppendUint64(data, uint64(key.BaseOffset))
	data = binary.BigEndian.AppendUint64(data, uint64(key.EndOffset))
	data = binary.BigEndian.AppendUint32(data, uint32(key.LeaderEpoch))
	data = append(data, key.UploadID[:]...)
	data = binary.BigEndian.AppendUint32(data, uint32(len(items)))
	data = binary.BigEndian.AppendUint32(data, checksum)
	data = append(data, topic...)
	trailer.TailChecksum = crc32.Checksum(data[trailer.DataBytes:], castagnoli)
	data = trailer.AppendTo(data)
	return data, command.Reference{
		Level: level, BaseOffset: sum.BaseOffset, EndOffset: sum.EndOffset, LeaderEpoch: key.LeaderEpoch,
		UploadID: key.UploadID, Segments: sum.Segments, DataBytes: sum.DataBytes, ObjectBytes: sum.ObjectBytes,
		SealedBytes: int32(len(data)), Checksum: crc32.Checksum(data, castagnoli),
		MinTimestamp: sum.MinTimestamp, MaxTimestamp: sum.MaxTimestamp, MaxTimestampOffset: sum.MaxTimestampOffset,
		FirstAppendedAt: sum.FirstAppendedAt, LastAppendedAt: sum.LastAppendedAt, Flags: sum.Flags,
	}.WithOrigin(origin)
}

// Parse reads a whole sealed object and checks all that can be checked without knowing who refers to it.
func Parse(data []byte) (*Sealed, error) {
	trailer, err := segment.ParseTrailer(data)
	switch {
	case err != nil:
		return nil, err
	case trailer.Kind != segment.KindLeaf && trailer.Kind != segment.KindNode:
		return nil, fmt.Errorf("the object is of kind %d, not a leaf or a node", trailer.Kind)
	case trailer.Version != sealedVersion:
		return nil, fmt.Errorf("the object has format version %d; this program reads version %d", trailer.Version,
			sealedVersion)
	case trailer.ObjectBytes() != int64(len(data)) || trailer.TailBytes < tailName:
		return nil, fmt.Errorf("the trailer describes an object of %d bytes, not of %d", trailer.ObjectBytes(), len(data))
	}
	tail := data[trailer.DataBytes : trailer.DataBytes+int64(trailer.TailBytes)]
	if got := crc32.Checksum(tail, castagnoli); got != trailer.TailChecksum {
		return nil, fmt.Errorf("the tail's checksum is %08x but its bytes have %08x", trailer.TailChecksum, got)
	}
	number := func(position int) uint64 { return binary.BigEndian.Uint64(tail[position:]) }
	sealed := &Sealed{
		Key: segment.Key{
			Kind: trailer.Kind, ClusterID: kafka.UUID(tail[:tailTopic]),
			Partition: kafka.TopicIDPartition{
				ID: kafka.UUID(tail[tailTopic:tailPartition]), Partition: int32(binary.BigEndian.Uint32(tail[tailPartition:])),
			},
			BaseOffset: int64(number(tailBase)), EndOffset: int64(number(tailEnd)),
			LeaderEpoch: kafka.LeaderEpoch(binary.BigEndian.Uint32(tail[tailEpoch:])),
			UploadID:    kafka.UUID(tail[tailUpload:tailCount]),
		},
		Topic: string(tail[tailName:]),
	}
	items := data[:trailer.DataBytes]
	if want, got := binary.BigEndian.Uint32(tail[tailChecksum:]), crc32.Checksum(items, castagnoli); want != got {
		return nil, fmt.Errorf("the checksum of the items is %08x but their bytes have %08x", want, got)
	}
	err = sealed.parseItems(items, int(binary.BigEndian.Uint32(tail[tailCount:])))
	return sealed, err
}

// parseItems reads the items, which must be one run of the object's range, all one level below it.
func (s *Sealed) parseItems(data []byte, count int) error {
	level := int(s.Key.Kind-segment.KindSegment) - 1
	size := command.SegmentEntrySize
	if level > 0 {
		size = command.ReferenceSize
	}
	if count < 1 || count > command.MaxSealed || len(data) != count*size {
		return fmt.Errorf("%d bytes are not %d items of level %d", len(data), count, level)
	}
	end := s.Key.BaseOffset
	for ; len(data) > 0; data = data[size:] {
		item, err := command.ParseItem(data[:size])
		if err != nil {
			return err
		}
		is := item.Summary()
		if is.Level != level || is.BaseOffset != end {
			return fmt.Errorf("an item of level %d and [%d, %d) follows offset %d", is.Level, is.BaseOffset, is.EndOffset, end)
		}
		s.Items, end = append(s.Items, item), is.EndOffset
	}
	if end != s.Key.EndOffset {
		return fmt.Errorf("the items end at offset %d, the object at %d", end, s.Key.EndOffset)
	}
	return nil
}

// open reads a sealed object that a reference leads to, and holds it against the reference.
func open(data []byte, key segment.Key, reference command.Reference) ([]command.Item, error) {
	if got := crc32.Checksum(data, castagnoli); got != reference.Checksum {
		return nil, fmt.Errorf("the reference has checksum %08x but the object's bytes have %08x", reference.Checksum, got)
	}
	sealed, err := Parse(data)
	switch {
	case err != nil:
		return nil, err
	case sealed.Key != key:
		return nil, fmt.Errorf("the object belongs to %s", sealed.Key)
	case !reference.Covers(sealed.Items):
		return nil, errors.New("the object does not list what the reference says")
	}
	return sealed.Items, nil
}

// CorruptError is a sealed object that is not what its reference says, and so will stay.
type CorruptError struct {
	Key string
	Err error
}

// Error names the object and what is wrong with it.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt part of a manifest %s: %s", e.Key, e.Err.Error())
}

// Unwrap gives the reason, and that whoever needs the object may ask again once it is repaired.
func (e *CorruptError) Unwrap() []error { return []error{kafka.KafkaStorageError, e.Err} }

// IsCorrupt tells whether an error says that a sealed object is damaged.
func IsCorrupt(err error) bool {
	var damage *CorruptError
	return errors.As(err, &damage)
}
