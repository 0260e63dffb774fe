package record

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/invariant"
	"github.com/firnlog/firn/internal/kafka"
)

// Header is one header of a record. Several may have the same key.
type Header struct {
	Key   string
	Value []byte // nil is null
}

// BuilderOptions are the header fields of the batch to build, and its codec. PlainProducer gives the usual ones.
type BuilderOptions struct {
	BaseOffset    int64
	LeaderEpoch   kafka.LeaderEpoch
	Codec         Codec
	Level         int // Kafka's scale for the codec; 0 is DefaultLevel
	TimestampType TimestampType
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
}

// PlainProducer are the options of a batch of a producer that is not idempotent, without a codec.
func PlainProducer() BuilderOptions {
	return BuilderOptions{
		LeaderEpoch:   kafka.NoLeaderEpoch,
		ProducerID:    NoProducerID,
		ProducerEpoch: NoProducerEpoch,
		BaseSequence:  NoSequence,
	}
}

// Builder encodes one batch, record by record. It is for whoever is the producer: tests, control markers, tools. Its
// memory grows with the records; the caller bounds it by Size.
type Builder struct {
	opts          BuilderOptions
	data          []byte // header, then the encoded records, not yet compressed
	count         int32
	lastDelta     int32
	baseTimestamp int64
	maxTimestamp  int64
	compressor    compressor
}

// builderCapacity is what a builder starts with.
const builderCapacity = 1 << 10

// NewBuilder begins a batch. A codec that does not exist is a mistake in the program.
func NewBuilder(opts BuilderOptions) *Builder {
	invariant.Check(opts.Codec.Known(), "build a batch with %s", opts.Codec)
	b := &Builder{opts: opts}
	b.Reset(opts.BaseOffset)
	return b
}

// Reset begins another batch with the same options but for its base offset. What Build returned stays valid.
func (b *Builder) Reset(baseOffset int64) {
	b.opts.BaseOffset = baseOffset
	if b.opts.Codec == None || b.data == nil {
		b.data = make([]byte, HeaderSize, builderCapacity)
	}
	b.data = b.data[:HeaderSize]
	b.count, b.lastDelta = 0, -1
	b.baseTimestamp, b.maxTimestamp = NoTimestamp, NoTimestamp
}

// Append adds a record with the next offset.
func (b *Builder) Append(timestamp int64, key, value []byte, headers ...Header) {
	b.AppendAt(b.lastDelta+1, timestamp, key, value, headers...)
}

// AppendAt adds a record at an offset relative to the base, larger than the last one: compaction leaves such gaps.
func (b *Builder) AppendAt(offsetDelta int32, timestamp int64, key, value []byte, headers ...Header) {
	if b.count == 0 {
		b.baseTimestamp = timestamp
	}
	b.data = appendRecord(b.data, offsetDelta, timestamp-b.baseTimestamp, key, value, headers)
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
	b.lastDelta = offsetDelta
	b.count++
}

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// Size is the size of the batch so far, before compression.
func (b *Builder) Size() int { return len(b.data) }

// Build ends the batch; the caller owns it. The builder must be Reset before it takes records again.
func (b *Builder) Build() Batch {
	batch := b.data
	if b.opts.Codec != None {
		batch = append(make([]byte, 0, len(b.data)), b.data[:HeaderSize]...)
		var err error
		batch, err = b.compressor.append(batch, b.data[HeaderSize:], b.opts.Codec, b.opts.Level)
		invariant.Check(err == nil, "compress into memory with %s: %v", b.opts.Codec, err)
	}
	b.writeHeader(batch)
	return batch
}

// writeHeader fills in all fields of the header of a batch whose records are in place.
func (b *Builder) writeHeader(batch Batch) {
	attributes := int16(b.opts.Codec)
	if b.opts.TimestampType == LogAppendTime {
		attributes |= logAppendTimeBit
	}
	if b.opts.Transactional {
		attributes |= transactionalBit
	}
	if b.opts.Control {
		attributes |= controlBit
	}
	batch.SetBaseOffset(b.opts.BaseOffset)
	binary.BigEndian.PutUint32(batch[atLength:], uint32(len(batch)-LogOverhead))
	batch.SetLeaderEpoch(b.opts.LeaderEpoch)
	batch[atMagic] = Magic
	binary.BigEndian.PutUint16(batch[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint32(batch[atLastOffsetDelta:], uint32(b.lastDelta))
	binary.BigEndian.PutUint64(batch[atBaseTimestamp:], uint64(b.baseTimestamp))
	binary.BigEndian.PutUint64(batch[atMaxTimestamp:], uint64(b.maxTimestamp))
	binary.BigEndian.PutUint64(batch[atProducerID:], uint64(b.opts.ProducerID))
	binary.BigEndian.PutUint16(batch[atProducerEpoch:], uint16(b.opts.ProducerEpoch))
	binary.BigEndian.PutUint32(batch[atBaseSequence:], uint32(b.opts.BaseSequence))
	binary.BigEndian.PutUint32(batch[atCount:], uint32(b.count))
	batch.updateCRC()
}
