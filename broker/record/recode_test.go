package record

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// recodedSize is how large a batch becomes at a level.
func recodedSize(t *testing.T, batch Batch, codec Codec, level int) int {
	t.Helper()
	opts := AnyOptions()
	opts.Target = Recode(codec, level)
	recoded, summary, err := NewValidator().Validate(bytes.Clone(batch), opts)
	if err != nil || !summary.Rewritten || recoded.Codec() != codec {
		t.Fatalf("%s level %d: %+v, %v", codec, level, summary, err)
	}
	if err := recoded.VerifyCRC(); err != nil {
		t.Fatal(err)
	}
	var records Iterator
	if err := records.Reset(recoded); err != nil {
		t.Fatalf("%s level %d: %v", codec, level, err)
	}
	count := int32(0)
	for records.Next() {
		count++
	}
	if records.Err() != nil || count != batch.Count() {
		t.Fatalf("%s level %d: %d of %d records, %v", codec, level, count, batch.Count(), records.Err())
	}
	return len(recoded)
}

// wordy is a batch that compresses the better the harder one tries: words in an order without a period.
func wordy() Batch {
	words := strings.Fields("snow ice firn glacier summer winter layer press sink bucket segment offset leader epoch")
	builder := NewBuilder(PlainProducer())
	state := uint32(1)
	for i := range 2000 {
		var line []byte
		for range 8 {
			state = state*1664525 + 1013904223
			line = append(append(line, words[state>>16%uint32(len(words))]...), byte('a'+state>>28))
		}
		builder.Append(int64(i), nil, line)
	}
	return builder.Build()
}

func TestALevelDecidesHowWellTheBrokerCompresses(t *testing.T) {
	batch := wordy()
	for _, test := range []struct {
		codec   Codec
		levels  []int // each compresses better than the one before
		defined int   // the level that the codec's default is
	}{
		{Gzip, []int{1, 6, 9}, 6},
		{LZ4, []int{9, 1, 3, 6, 12}, 9}, // nine is the fast algorithm
		{Zstd, []int{2, 3, 6, 22}, 3},
	} {
		larger := math.MaxInt
		for _, level := range test.levels {
			size := recodedSize(t, batch, test.codec, level)
			if size >= larger {
				t.Errorf("%s: %d bytes at level %d, and %d at the one below", test.codec, size, level, larger)
			}
			larger = size
		}
		// Gzip calls its default −1; our library's default lies where it is for zlib, at 5 or 6.
		usual := recodedSize(t, batch, test.codec, DefaultLevel)
		if test.codec != Gzip && usual != recodedSize(t, batch, test.codec, test.defined) {
			t.Errorf("%s: the default is not level %d", test.codec, test.defined)
		}
	}
	if recodedSize(t, batch, Gzip, -1) != recodedSize(t, batch, Gzip, DefaultLevel) {
		t.Error("gzip: -1 is not the default")
	}
}

// TestEveryLevelOfKafkasIsTaken: also the ends of the ranges that the settings allow.
func TestEveryLevelOfKafkasIsTaken(t *testing.T) {
	batch := build(t)
	for codec, levels := range map[Codec][2]int{Gzip: {1, 9}, LZ4: {1, 17}, Zstd: {-2, 22}} {
		for level := levels[0]; level <= levels[1]; level++ {
			recodedSize(t, batch, codec, level)
		}
	}
	recodedSize(t, batch, Zstd, -131072)
	recodedSize(t, batch, Gzip, -1)
}

func TestWhatTheProducerCompressedAtALevelStaysIfTheCodecIsTheTopics(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		data := []byte(build(t, withCodec(codec)))
		opts := AnyOptions()
		opts.Target = Recode(codec, 1)
		batch, summary, err := NewValidator().Validate(data, opts)
		if err != nil || summary.Rewritten || &batch[0] != &data[0] {
			t.Errorf("%s: %+v, %v", codec, summary, err)
		}
	}
}

// limitedRecord is a batch whose one record has a length of exactly size.
func limitedRecord(t *testing.T, codec Codec, size int) Batch {
	t.Helper()
	value := make([]byte, size)
	for recordSize(0, 0, nil, value, nil) > size {
		value = value[:len(value)-1]
	}
	if got := recordSize(0, 0, nil, value, nil); got != size {
		t.Fatalf("there is no record of %d bytes", size)
	}
	return assemble(t, codec, 1, appendRecord(nil, 0, 0, nil, value, nil))
}

// TestARecordBeyondTheDecompressedLimitIsInvalid: the limit is on the length of the record as its batch holds it, which
// a batch without codec is free of, as in Kafka.
func TestARecordBeyondTheDecompressedLimitIsInvalid(t *testing.T) {
	opts := AnyOptions()
	opts.MaxRecordBytes = 300_000
	for _, target := range []Target{KeepCodec(), Recode(Snappy, DefaultLevel), Recode(None, DefaultLevel)} {
		opts.Target = target
		for _, codec := range allCodecs {
			if _, _, err := NewValidator().Validate(limitedRecord(t, codec, 300_000), opts); err != nil {
				t.Errorf("%s: a record at the limit: %v", codec, err)
			}
			_, _, err := NewValidator().Validate(limitedRecord(t, codec, 300_001), opts)
			switch {
			case codec == None && err != nil:
				t.Errorf("a record that was never compressed: %v", err)
			case codec != None && kafka.CodeOf(err) != kafka.InvalidRecord:
				t.Errorf("%s: a record over the limit: %v", codec, err)
			case codec != None && !strings.Contains(fmt.Sprint(err), "max.decompressed.message.bytes"):
				t.Errorf("%s: the error does not name the setting: %v", codec, err)
			}
		}
	}
	// Many small records may hold more than the limit together.
	if _, _, err := NewValidator().Validate(build(t, withCodec(Zstd)), Options{
		MaxBytes: math.MaxInt32, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64, RequestVersion: 13,
		MaxRecordBytes: int32(len(build(t).Records())) - 1,
	}); err != nil {
		t.Errorf("records below the limit: %v", err)
	}
}

// TestABombIsRefusedBeforeItGoesOff: of a record that says it is too large nothing more is decompressed.
func TestABombIsRefusedBeforeItGoesOff(t *testing.T) {
	const declared, holds = 512 << 20, 8 << 20
	opts := AnyOptions()
	opts.MaxRecordBytes = 1 << 20
	batch := zstdBomb(t, declared)
	validator := NewValidator()
	var err error
	used := allocated(func() { _, _, err = validator.Validate(batch, opts) })
	if kafka.CodeOf(err) != kafka.InvalidRecord || used > holds {
		t.Errorf("%d bytes for a batch of %d that claims %d: %v", used, len(batch), declared, err)
	}
	source := validator.sources.get()
	if source.produced > 1<<20 {
		t.Errorf("%d bytes were decompressed", source.produced)
	}
}

// TestSnappyOfEitherFramingIsStoredAsItCame: bare as librdkafka writes it, framed as Java's clients do. What the
// broker itself compresses is framed.
func TestSnappyOfEitherFramingIsStoredAsItCame(t *testing.T) {
	framed := build(t, withCodec(Snappy))
	bare := append(bytes.Clone(framed[:HeaderSize]), framed[HeaderSize+xerialHeader+xerialSizeLen:]...)
	bare = patched(bare, func(b Batch) { put32(b[atLength:], int32(len(b)-LogOverhead)) })
	for name, data := range map[string][]byte{"framed": framed, "bare": bare} {
		for _, target := range []Target{KeepCodec(), Recode(Snappy, DefaultLevel)} {
			sent := bytes.Clone(data)
			opts := AnyOptions()
			opts.Target = target
			batch, summary, err := NewValidator().Validate(sent, opts)
			if err != nil || summary.Rewritten || !bytes.Equal(batch, data) {
				t.Errorf("%s: %+v, %v", name, summary, err)
			}
		}
		opts := AnyOptions()
		opts.Target = Recode(Zstd, DefaultLevel)
		if batch, _, err := NewValidator().Validate(bytes.Clone(data), opts); err != nil || batch.Codec() != Zstd {
			t.Errorf("%s to zstd: %v", name, err)
		}
	}
	opts := AnyOptions()
	opts.Target = Recode(Snappy, DefaultLevel)
	batch, _, err := NewValidator().Validate(build(t, withCodec(Gzip)), opts)
	if err != nil || !bytes.HasPrefix(batch.Records(), []byte(xerialMagic)) {
		t.Errorf("what the broker makes of gzip: %v", err)
	}
}

// TestTheOldHeaderChecksumOfLZ4IsRefusedForGood: clients computed it over the magic, too, until they spoke batches of
// version 2 (KIP-57). Kafka's consumers would stumble over it.
func TestTheOldHeaderChecksumOfLZ4IsRefusedForGood(t *testing.T) {
	old := patched(build(t, withCodec(LZ4)), func(b Batch) {
		frame := b.Records()
		frame[lz4AtDescriptor+1] = lz4HeaderChecksum(frame[:lz4AtDescriptor+1])
	})
	for _, target := range []Target{KeepCodec(), Recode(LZ4, DefaultLevel), Recode(Gzip, DefaultLevel)} {
		opts := AnyOptions()
		opts.Target = target
		if _, _, err := NewValidator().Validate(bytes.Clone(old), opts); kafka.CodeOf(err) != kafka.InvalidRecord {
			t.Errorf("%v", err)
		}
	}
}
