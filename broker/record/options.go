package record

import "math"

// Options are what a topic and a request ask of a batch.
type Options struct {
	MaxBytes int32 // max.message.bytes: of the batch as it is stored, so after compression
	// MaxRecordBytes is max.decompressed.message.bytes: of one record of a compressed batch, as its length counts it.
	// A batch without codec cannot hold more than MaxBytes. 0 is no limit.
	MaxRecordBytes     int32
	TimestampLogAppend bool  // message.timestamp.type=LogAppendTime
	Now                int64 // the broker's clock, ms since 1970
	BeforeMaxMs        int64 // message.timestamp.before.max.ms: how far behind Now a CreateTime may be
	AfterMaxMs         int64 // message.timestamp.after.max.ms: how far ahead of Now a CreateTime may be
	RequireKeys        bool  // the topic is compacted
	Target             Target
	// HeaderOnly is firn.record.validation=header: header, checksum and sizes are checked, the records are not looked
	// at, and the header's timestamps are believed. Keys that are required are still checked.
	HeaderOnly     bool
	RequestVersion int16 // of Produce: zstd came with version 7
}

// Target is compression.type of the topic: the codec it stores, or whatever the producer chose (the zero value).
type Target struct {
	recode bool
	codec  Codec
	level  int
}

// KeepCodec is compression.type=producer: batches stay as they are.
func KeepCodec() Target { return Target{} }

// Recode is any other compression.type: batches with another codec are encoded again at a level of that codec's own
// scale, which is that of the settings compression.CODEC.level. Snappy has none.
func Recode(codec Codec, level int) Target { return Target{recode: true, codec: codec, level: level} }

// AnyOptions judge a batch by its structure alone: no bounds on size and timestamps.
func AnyOptions() Options {
	return Options{
		MaxBytes:       math.MaxInt32,
		BeforeMaxMs:    math.MaxInt64,
		AfterMaxMs:     math.MaxInt64,
		RequestVersion: math.MaxInt16,
	}
}

// Summary is what validation learned about a batch and the log needs to know.
type Summary struct {
	Count        int32 // of records; offsets are dense in a batch that a producer sent
	MaxTimestamp int64
	// MaxTimestampOffsetDelta is the record that ListOffsets answers for the largest timestamp (KAFKA-16310): under
	// CreateTime the first record that has it, under LogAppendTime the first record, since all have it. If HeaderOnly
	// hid the records it is the last one. (Kafka's time index, in contrast, holds the last offset of the batch with
	// the largest timestamp: KAFKA-16341. Log files that Kafka's tools read need that one, Batch.LastOffset.)
	MaxTimestampOffsetDelta int32
	Size                    int
	Rewritten               bool // the batch is in new memory, encoded again
}

// recodes tells whether the topic wants another codec than the batch has.
func (t Target) recodes(b Batch) bool { return t.recode && t.codec != b.Codec() }

// timestampType is what the stored batch has.
func (o Options) timestampType() TimestampType {
	if o.TimestampLogAppend {
		return LogAppendTime
	}
	return CreateTime
}
