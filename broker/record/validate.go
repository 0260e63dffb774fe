package record

import (
	"errors"

	"github.com/firnlog/firn/internal/kafka"
)

// Validator checks what producers send, by the rules of Kafka 4: ProduceRequest and LogValidator there. It may be used
// concurrently.
type Validator struct {
	sources         sources
	compressors     compressors
	maxDecompressed int64 // of what is checked as a stream
	maxRecoded      int64 // of what is held as a whole, to be encoded again
}

// NewValidator makes a validator.
func NewValidator() *Validator {
	return &Validator{maxDecompressed: maxDecompressed, maxRecoded: maxRecodeBytes}
}

// zstdSince is the version of Produce whose clients know zstd.
const zstdSince = 7

// Validate checks one partition's data of a produce request, which must be exactly one batch. It patches max timestamp,
// timestamp type and checksum in place where the topic or the records demand it, so data must be the caller's to
// change; what it returns aliases data unless Summary.Rewritten says otherwise. Offsets and leader epoch are assigned
// by whoever appends. An error carries the code for the client; *InvalidRecordsError also names records.
func (v *Validator) Validate(data []byte, opts Options) (Batch, Summary, error) {
	batch, rest, err := firstBatch(data)
	if err != nil {
		return nil, Summary{}, err
	}
	if err := checkHeader(batch, opts); err != nil {
		return nil, Summary{}, err
	}
	if len(rest) > 0 {
		return nil, Summary{}, invalid("%w: %d bytes follow the first", ErrNotOneBatch, len(rest))
	}
	if opts.Target.recodes(batch) {
		return v.recode(batch, opts)
	}
	summary, err := v.checkRecords(batch, opts)
	if err != nil {
		return nil, Summary{}, err
	}
	if batch.setTimestamps(opts.timestampType(), summary.MaxTimestamp) {
		batch.updateCRC()
	}
	return batch, summary, nil
}

// firstBatch takes the first batch off data, of which there should be no more.
func firstBatch(data []byte) (batch Batch, rest []byte, err error) {
	if len(data) > atMagic && (data[atMagic] == 0 || data[atMagic] == 1) {
		return nil, nil, invalid("%w, but a message set of format version %d", ErrNotOneBatch, data[atMagic])
	}
	batch, rest, err = Next(data)
	if errors.Is(err, ErrShort) {
		return nil, nil, invalid("%w, but %d bytes of one", ErrNotOneBatch, len(data))
	}
	return batch, rest, err
}

// checkHeader makes the checks that need no record, cheapest first; the checksum is computed once, here.
func checkHeader(b Batch, opts Options) error {
	if codec := b.Codec(); !codec.Known() || codec == Zstd && opts.RequestVersion < zstdSince {
		return refused(kafka.UnsupportedCompressionType, "%s in Produce version %d", codec, opts.RequestVersion)
	}
	if base := b.BaseOffset(); base != 0 {
		return invalid("base offset of a producer's batch is %d instead of 0", base)
	}
	if len(b) > int(opts.MaxBytes) {
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
	if b.BaseSequence() < 0 {
		return invalid("producer id %d has sequence %d", b.ProducerID(), b.BaseSequence())
	}
	if b.ProducerEpoch() < 0 {
		return refused(kafka.InvalidProducerEpoch, "producer id %d has epoch %d", b.ProducerID(), b.ProducerEpoch())
	}
	return nil
}

func tooLarge(size int, maxBytes int32) error {
	return refused(kafka.MessageTooLarge, "the batch has %d bytes and max.message.bytes is %d", size, maxBytes)
}

// checkRecords walks over the records, as far as they have to be looked at. Compressed ones are never held as a whole.
func (v *Validator) checkRecords(b Batch, opts Options) (Summary, error) {
	if opts.HeaderOnly && !opts.RequireKeys {
		return headerSummary(b, opts)
	}
	if b.Codec() == None {
		return checkEncoded(b, b.Records(), opts)
	}
	source := v.sources.get()
	defer v.sources.put(source)
	if err := source.reset(b.Codec(), b.Records(), v.maxDecompressed); err != nil {
		return Summary{}, undecodable(err)
	}
	return check(b, &cursor{source: source}, opts)
}

// checkEncoded is checkRecords over records that are in memory, decompressed if they had to be.
func checkEncoded(b Batch, encoded []byte, opts Options) (Summary, error) {
	return check(b, &cursor{piece: encoded}, opts)
}

func check(b Batch, records *cursor, opts Options) (Summary, error) {
	if b.Codec() != None {
		records.maxRecord = uint64(opts.MaxRecordBytes)
	}
	rules := newRecordCheck(b, opts)
	if err := rules.walk(records, b.Count()); err != nil {
		return Summary{}, err
	}
	if err := rules.err(); err != nil {
		return Summary{}, err
	}
	summary := Summary{
		Count:                   b.Count(),
		MaxTimestamp:            rules.maxTimestamp,
		MaxTimestampOffsetDelta: rules.maxTimestampIndex,
		Size:                    len(b),
	}
	return summary.appended(opts), nil
}

// headerSummary believes the header, whose timestamps are the only ones that are judged.
func headerSummary(b Batch, opts Options) (Summary, error) {
	summary := Summary{
		Count:                   b.Count(),
		MaxTimestamp:            b.MaxTimestamp(),
		MaxTimestampOffsetDelta: b.LastOffsetDelta(),
		Size:                    len(b),
	}
	rules := newRecordCheck(b, opts)
	for _, timestamp := range [...]int64{b.BaseTimestamp(), b.MaxTimestamp()} {
		if !rules.inBounds(timestamp) {
			return Summary{}, refused(kafka.InvalidTimestamp, "%s", rules.outOfBounds(timestamp))
		}
	}
	return summary.appended(opts), nil
}

// appended is the summary as it is once the broker's clock has replaced the producer's, if the topic wants that.
func (s Summary) appended(opts Options) Summary {
	if opts.TimestampLogAppend {
		s.MaxTimestamp, s.MaxTimestampOffsetDelta = opts.Now, 0
	}
	return s
}

func undecodable(err error) error {
	if errors.Is(err, errTooMuch) {
		return refused(kafka.MessageTooLarge, "%w", err)
	}
	return invalid("the records cannot be decompressed: %w", err)
}
