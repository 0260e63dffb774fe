package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/firnlog/firn/internal/kafka"
)

// Where each field of a batch begins. All integers are big-endian. The checksum covers everything from the attributes
// to the end, so base offset and leader epoch can be assigned without touching it: that is what lets a broker store
// the producer's own bytes.
const (
	atBaseOffset      = 0  // int64
	atLength          = 8  // int32, counts what follows it
	atLeaderEpoch     = 12 // int32
	atMagic           = 16 // int8; versions 0 and 1 of the format have theirs at the same place
	atCRC             = 17 // uint32, Castagnoli
	atAttributes      = 21 // int16
	atLastOffsetDelta = 23 // int32
	atBaseTimestamp   = 27 // int64
	atMaxTimestamp    = 35 // int64
	atProducerID      = 43 // int64
	atProducerEpoch   = 51 // int16
	atBaseSequence    = 53 // int32
	atCount           = 57 // int32
	atRecords         = 61
)

const (
	// LogOverhead is what precedes the bytes that a batch's length counts: base offset and length.
	LogOverhead = atLeaderEpoch
	// HeaderSize is the size of a batch without records, overhead included.
	HeaderSize = atRecords
	// MinBatchSize is the smallest batch there is: a header. Compaction leaves such batches behind.
	MinBatchSize = HeaderSize
	// PrefixSize is how much of a batch SizeOf must see: up to and including the magic.
	PrefixSize = atMagic + 1
	// Magic is the only version of the format that firn stores.
	Magic = 2
)

const (
	minLength = HeaderSize - LogOverhead
	maxLength = math.MaxInt32 - LogOverhead // a longer batch has a size that overflows Kafka's int32

	maxSequence int32 = math.MaxInt32 // sequences wrap from here to 0
)

// The bits of the attributes.
const (
	codecMask        = 0x07
	logAppendTimeBit = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
	knownAttributes  = codecMask | logAppendTimeBit | transactionalBit | controlBit | deleteHorizonBit
)

// Kafka's marks for fields that hold nothing.
const (
	NoTimestamp     int64 = -1
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
)

// TimestampType tells what the timestamps of a batch mean.
type TimestampType int8

const (
	// CreateTime: each record carries the time its producer gave it.
	CreateTime TimestampType = 0
	// LogAppendTime: all records have the batch's max timestamp, the broker's clock at the append.
	LogAppendTime TimestampType = 1
)

// String prints Kafka's name of the type, which is also the value of message.timestamp.type.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// ErrShort says that the data ends inside a batch, which is no corruption: more of it may follow.
var ErrShort = errors.New("data ends inside a record batch")

// CorruptError says where data stops being a record batch, and why.
type CorruptError struct {
	Position int // in the data that was given
	Reason   string
}

// Error prints place and reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt record batch at byte %d: %s", e.Position, e.Reason)
}

// Unwrap gives the error the code that a client understands.
func (e *CorruptError) Unwrap() error { return kafka.CorruptMessage }

// Batch is a view of exactly one record batch. It aliases the memory it was found in; whoever owns that memory says
// how long the batch may be used. Its methods rely on Next (or SizeOf) having looked at the length; a view that holds
// the header only is enough for all methods but VerifyCRC, Records and the setters of covered fields.
type Batch []byte

// SizeOf tells the whole size of the batch that begins with prefix, of which PrefixSize bytes are enough.
func SizeOf(prefix []byte) (int, error) {
	if len(prefix) < PrefixSize {
		return 0, ErrShort
	}
	if magic := int8(prefix[atMagic]); magic != Magic {
		return 0, &CorruptError{Position: atMagic, Reason: fmt.Sprintf("format version %d instead of 2", magic)}
	}
	length := int32(binary.BigEndian.Uint32(prefix[atLength:]))
	if length < minLength {
		return 0, &CorruptError{Position: atLength, Reason: fmt.Sprintf("length %d is shorter than a header", length)}
	}
	if length > maxLength {
		return 0, &CorruptError{Position: atLength, Reason: fmt.Sprintf("length %d overflows", length)}
	}
	return LogOverhead + int(length), nil
}

// Next takes the first batch off data, of which there must be some. It looks at length and format version only; what
// it returns aliases data. ErrShort means that data ends inside the batch; anything else is a *CorruptError.
func Next(data []byte) (batch Batch, rest []byte, err error) {
	size, err := SizeOf(data)
	if err != nil {
		return nil, data, err
	}
	if size > len(data) {
		return nil, data, ErrShort
	}
	return Batch(data[:size:size]), data[size:], nil
}

// BaseOffset is the offset of the first record the batch was written with; 0 in a producer's request.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[atBaseOffset:])) }

// LastOffset is the offset of the last record the batch was written with; compaction does not change it.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after the batch: [BaseOffset, NextOffset) is its range.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// Size is the size in bytes, overhead included.
func (b Batch) Size() int { return LogOverhead + int(int32(binary.BigEndian.Uint32(b[atLength:]))) }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() kafka.LeaderEpoch {
	return kafka.LeaderEpoch(binary.BigEndian.Uint32(b[atLeaderEpoch:]))
}

// Magic is the version of the format.
func (b Batch) Magic() int8 { return int8(b[atMagic]) }

// CRC is the checksum that the header carries.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

// Attributes are the flags as they are.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[atAttributes:])) }

// Codec is how the records are compressed. It may be one that does not exist: see Codec.Known.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & codecMask) }

// TimestampType tells what the timestamps mean.
func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&logAppendTimeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// IsTransactional tells whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&transactionalBit != 0 }

// IsControl tells whether the batch holds control records, which consumers skip.
func (b Batch) IsControl() bool { return b.Attributes()&controlBit != 0 }

// HasDeleteHorizon tells whether BaseTimestamp is the time from which tombstones may be removed (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&deleteHorizonBit != 0 }

// LastOffsetDelta is LastOffset less BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:])) }

// BaseTimestamp is what the records' timestamps are relative to: the first record's.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atBaseTimestamp:])) }

// MaxTimestamp is the largest timestamp of a record, or the append time.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atMaxTimestamp:])) }

// ProducerID is the id of an idempotent or transactional producer, else NoProducerID.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[atProducerID:])) }

// HasProducerID tells whether the producer is idempotent or transactional.
func (b Batch) HasProducerID() bool { return b.ProducerID() > NoProducerID }

// ProducerEpoch is the epoch of the producer id.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[atProducerEpoch:])) }

// BaseSequence is the producer's sequence number of the first record.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[atBaseSequence:])) }

// LastSequence is the sequence number of the last record; sequences wrap to 0.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return AddSequence(base, b.LastOffsetDelta())
}

// AddSequence advances a sequence number, which wraps from the largest int32 to 0.
func AddSequence(sequence, increment int32) int32 {
	if sequence > maxSequence-increment {
		return increment - (maxSequence - sequence) - 1
	}
	return sequence + increment
}

// Count is the number of records in the batch. After compaction it is less than the range of offsets.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[atCount:])) }

// Records are the encoded, possibly compressed records.
func (b Batch) Records() []byte { return b[atRecords:] }

// SetBaseOffset assigns the offset of the first record. The checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(offset))
}

// SetLeaderEpoch assigns the epoch of the appending leader. The checksum does not cover it.
func (b Batch) SetLeaderEpoch(epoch kafka.LeaderEpoch) {
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(epoch))
}

// VerifyCRC compares the header's checksum with the bytes it covers.
func (b Batch) VerifyCRC() error {
	if computed := b.computeCRC(); computed != b.CRC() {
		return &CorruptError{
			Position: atCRC,
			Reason:   fmt.Sprintf("checksum is %08x but the bytes have %08x", b.CRC(), computed),
		}
	}
	return nil
}

// computeCRC relies on the standard library keeping one table for Castagnoli's polynomial.
func (b Batch) computeCRC() uint32 {
	return crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// updateCRC must follow every change to a covered field.
func (b Batch) updateCRC() { binary.BigEndian.PutUint32(b[atCRC:], b.computeCRC()) }

// setTimestamps replaces type and max timestamp; it tells whether that changed anything, in which case the checksum
// is to be computed again. Attributes that have no meaning yet are cleared on the way, as Kafka does.
func (b Batch) setTimestamps(kind TimestampType, maxTimestamp int64) (changed bool) {
	if b.TimestampType() == kind && b.MaxTimestamp() == maxTimestamp {
		return false
	}
	attributes := b.Attributes() & knownAttributes &^ logAppendTimeBit
	if kind == LogAppendTime {
		attributes |= logAppendTimeBit
	}
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(maxTimestamp))
	return true
}

// String prints the header for logs and tools.
func (b Batch) String() string {
	return fmt.Sprintf("batch [%d, %d) of %d records, %d bytes, %s", b.BaseOffset(), b.NextOffset(), b.Count(),
		b.Size(), b.Codec())
}
