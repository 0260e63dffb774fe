package record

import (
	"errors"

	"github.com/firnlog/firn/internal/kafka"
)

// Validator checks what producers send, by the rules of Kafka 4: ProduceRequest and LogValidator there. It may be used
// concurrently.
type Validator struct{}

// NewValidator makes a validator.
func NewValidator() *Validator { return &Validator{} }

// zstdSince is the version of Produce whose clients know zstd.
const zstdSince = 7

// Validate checks one partition's data of a produce request, which must be exactly one batch. It patches max timestamp,
// timestamp type and checksum in place where the topic or the records demand it, so data must be the caller's to
// change; what it returns aliases data unless Summary.Rewritten says otherwise. Offsets and leader epoch are assigned
// by whoever appends. An error carries the code for the client; *InvalidRecordsError also names records.
func (v *Validator) Validate(data []byte, opts Options) (Batch, Summary, error) {
	batch, err := onlyBatch(data)
	if err != nil {
		return nil, Summary{}, err
	}
	if err := checkHeader(batch, opts); err != nil {
		return nil, Summary{}, err
	}
	return v.checkRecords(batch, opts)
}

// onlyBatch finds the batch in data and refuses anything around it.
func onlyBatch(data []byte) (Batch, error) {
	if len(data) > atMagic && (data[atMagic] == 0 || data[atMagic] == 1) {
		return nil, refused(kafka.UnsupportedForMessageFormat,
			"message sets of format version %d are not stored, only record batches of version 2", data[atMagic])
	}
	batch, rest, err := Next(data)
	if errors.Is(err, ErrShort) {
		return nil, invalid("%d bytes are no whole record batch", len(data))
	}
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, invalid("exactly one record batch is allowed, but %d bytes follow it", len(rest))
	}
	return batch, nil
}

// checkHeader makes the checks that need no record, cheapest first; the checksum is computed once, here.
func checkHeader(b Batch, opts Options) error {
	if codec := b.Codec(); !codec.Known() || codec == Zstd && opts.RequestVersion < zstdSince {
		return refused(kafka.UnsupportedCompressionType, "%s in Produce version %d", codec, opts.RequestVersion)
	}
	if base := b.BaseOffset(); base != 0 {
		return invalid("base offset of a producer's batch is %d instead of 0", base)
	}
	if !opts.Target.recodes(b) && len(b) > int(opts.MaxBytes) {
		return tooLarge(len(b), opts.MaxBytes)
	}
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	if b.IsControl() {
		return invalid("clients may not write control records")
	}
	// Ordered so that no sum overflows.
	count, last := b.Count(), b.LastOffsetDelta()
	if count <= 0 || last < 0 || last != count-1 {
		return invalid("a record count of %d and a last offset delta of %d do not fit", count, last)
	}
	if b.TimestampType() == LogAppendTime {
		return refused(kafka.InvalidTimestamp, "producers may not set the timestamp type LogAppendTime")
	}
	return checkProducer(b)
}

// checkProducer checks that the three fields of an idempotent producer are all there or none is needed.
func checkProducer(b Batch) error {
	if !b.HasProducerID() {
		if b.IsTransactional() {
			return invalid("a transactional batch has no producer id")
		}
		return nil
	}
	if b.ProducerEpoch() < 0 || b.BaseSequence() < 0 {
		return invalid("producer id %d has epoch %d and sequence %d", b.ProducerID(), b.ProducerEpoch(),
			b.BaseSequence())
	}
	return nil
}

func tooLarge(size int, maxBytes int32) error {
	return refused(kafka.MessageTooLarge, "the batch has %d bytes and max.message.bytes is %d", size, maxBytes)
}

// checkRecords walks over the records, as far as they have to be looked at, and lets the header say what they do.
func (v *Validator) checkRecords(b Batch, opts Options) (Batch, Summary, error) {
	if b.Codec() != None {
		return nil, Summary{}, refused(kafka.UnsupportedCompressionType, "%s", b.Codec())
	}
	summary := Summary{Count: b.Count(), Size: len(b)}
	check := newRecordCheck(b, opts)
	if err := check.walkPlain(b.Records(), b.Count()); err != nil {
		return nil, Summary{}, err
	}
	if err := check.err(); err != nil {
		return nil, Summary{}, err
	}
	kind, maxTimestamp := CreateTime, check.maxTimestamp
	summary.MaxTimestampOffsetDelta = check.maxTimestampIdx
	if opts.TimestampLogAppend {
		kind, maxTimestamp = LogAppendTime, opts.Now
		summary.MaxTimestampOffsetDelta = 0
	}
	summary.MaxTimestamp = maxTimestamp
	if b.setTimestamps(kind, maxTimestamp) {
		b.updateCRC()
	}
	return b, summary, nil
}
