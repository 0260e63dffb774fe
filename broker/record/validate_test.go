package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
)

// patched is a batch with a field changed and the checksum right again: wrong on purpose, not by accident.
func patched(batch Batch, change func(Batch)) []byte {
	batch = bytes.Clone(batch)
	change(batch)
	batch.updateCRC()
	return batch
}

func put32(b []byte, value int32) { binary.BigEndian.PutUint32(b, uint32(value)) }

// assemble makes a batch around encoded records.
func assemble(t testing.TB, codec Codec, count int32, encoded []byte) Batch {
	t.Helper()
	builder := NewBuilder(PlainProducer())
	var c compressor
	data, err := c.append(make([]byte, HeaderSize), encoded, codec, DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	builder.opts.Codec = codec
	builder.count, builder.lastDelta, builder.baseTimestamp, builder.maxTimestamp = count, count-1, 0, 0
	builder.writeHeader(data)
	return data
}

// allCodecs runs a test for plain and compressed batches alike: what is wrong must be found in both.
var allCodecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

func TestHeadersThatKafkaRefusesAreRefused(t *testing.T) {
	plain := build(t)
	idempotent := build(t, func(opts *BuilderOptions) {
		opts.ProducerID, opts.ProducerEpoch, opts.BaseSequence = 5, 0, 0
	})
	for _, test := range []struct {
		name string
		data []byte
		want kafka.Errno
	}{
		{"nothing at all", nil, kafka.InvalidRecord},
		{"a batch that is cut off", plain[:len(plain)-1], kafka.InvalidRecord},
		{"less than a length", plain[:5], kafka.InvalidRecord},
		{"PD-05: two batches", append(bytes.Clone(plain), plain...), kafka.InvalidRecord},
		{"PD-05: a byte behind the batch", append(bytes.Clone(plain), 0), kafka.InvalidRecord},
		{"PR-07: a message set of format version 0", readGolden(t, "java-magic0"), kafka.InvalidRecord},
		{"PR-07: messages of format version 1", readGolden(t, "java-magic1"), kafka.InvalidRecord},
		{"PR-07: a gzip set of version 0", readGolden(t, "java-magic0-gzip"), kafka.InvalidRecord},
		{"PR-07: a gzip set of version 1", readGolden(t, "java-magic1-gzip"), kafka.InvalidRecord},
		{"a format version of the future", patched(plain, func(b Batch) { b[atMagic] = 3 }), kafka.CorruptMessage},
		{"a length shorter than a header", patched(plain, func(b Batch) { put32(b[atLength:], 48) }),
			kafka.CorruptMessage},
		{"a negative length", patched(plain, func(b Batch) { put32(b[atLength:], -1) }), kafka.CorruptMessage},
		{"a length that leaves records behind", patched(plain, func(b Batch) { put32(b[atLength:], 60) }),
			kafka.CorruptMessage},
		{"PD-05: a base offset", patched(plain, func(b Batch) { b.SetBaseOffset(1) }), kafka.InvalidRecord},
		{"PD-05: a negative base offset", patched(plain, func(b Batch) { b.SetBaseOffset(-1) }), kafka.InvalidRecord},
		{"PD-05: no records", patched(plain, func(b Batch) { put32(b[atCount:], 0) }), kafka.InvalidRecord},
		{"PD-05: less than no records", patched(plain, func(b Batch) { put32(b[atCount:], -3) }), kafka.InvalidRecord},
		{"PD-05: a negative last offset delta", patched(plain, func(b Batch) { put32(b[atLastOffsetDelta:], -1) }),
			kafka.InvalidRecord},
		{"PD-05: an empty batch that is consistent", assemble(t, None, 0, nil), kafka.InvalidRecord},
		{"PD-05: more offsets than records", patched(plain, func(b Batch) { put32(b[atLastOffsetDelta:], 3) }),
			kafka.InvalidRecord},
		{"PD-05: fewer offsets than records", patched(plain, func(b Batch) { put32(b[atCount:], 4) }),
			kafka.InvalidRecord},
		{"PD-05: the largest last offset delta", patched(plain, func(b Batch) {
			put32(b[atLastOffsetDelta:], math.MaxInt32)
			put32(b[atCount:], math.MinInt32)
		}), kafka.InvalidRecord},
		{"a control batch", patched(plain, func(b Batch) { b[atAttributes+1] |= controlBit }), kafka.InvalidRecord},
		{"the timestamp type of the broker", patched(plain, func(b Batch) { b[atAttributes+1] |= logAppendTimeBit }),
			kafka.InvalidTimestamp},
		{"a transaction without a producer id", patched(plain, func(b Batch) { b[atAttributes+1] |= transactionalBit }),
			kafka.InvalidRecord},
		{"a producer id without an epoch", patched(idempotent, func(b Batch) {
			binary.BigEndian.PutUint16(b[atProducerEpoch:], 0xffff)
		}), kafka.InvalidProducerEpoch},
		{"a producer id without a sequence", patched(idempotent, func(b Batch) { put32(b[atBaseSequence:], -1) }),
			kafka.InvalidRecord},
		{"codec 5", patched(plain, func(b Batch) { b[atAttributes+1] |= 5 }), kafka.UnsupportedCompressionType},
		{"codec 7", patched(plain, func(b Batch) { b[atAttributes+1] |= 7 }), kafka.UnsupportedCompressionType},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := bytes.Clone(test.data)
			batch, _, err := NewValidator().Validate(test.data, AnyOptions())
			if kafka.CodeOf(err) != test.want || batch != nil {
				t.Errorf("%v instead of %v", err, test.want)
			}
			if !bytes.Equal(before, test.data) {
				t.Error("refused data was changed")
			}
		})
	}
}

func TestBytesThatWereDamagedOnTheWayAreCorrupt(t *testing.T) {
	for _, codec := range allCodecs {
		batch := build(t, withCodec(codec))
		batch[len(batch)-1] ^= 1
		if _, _, err := NewValidator().Validate(batch, AnyOptions()); kafka.CodeOf(err) != kafka.CorruptMessage {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

func TestZstdIsForClientsThatKnowIt(t *testing.T) {
	opts := AnyOptions()
	for version, want := range map[int16]kafka.Errno{3: 76, 6: 76, 7: 0, 13: 0} {
		opts.RequestVersion = version
		_, _, err := NewValidator().Validate(build(t, withCodec(Zstd)), opts)
		if kafka.CodeOf(err) != want {
			t.Errorf("Produce version %d: %v", version, err)
		}
	}
	opts.RequestVersion = 3
	if _, _, err := NewValidator().Validate(build(t, withCodec(LZ4)), opts); err != nil {
		t.Errorf("lz4 in version 3: %v", err)
	}
}

// rawRecord is one record with freedom to be wrong.
type rawRecord struct {
	length     int64 // 0 is the right one
	delta      int64
	key, value string
	headers    []byte
}

func (r rawRecord) append(dst []byte) []byte {
	body := binary.AppendVarint([]byte{0}, 0)
	body = binary.AppendVarint(body, r.delta)
	body = append(binary.AppendVarint(body, int64(len(r.key))), r.key...)
	body = append(binary.AppendVarint(body, int64(len(r.value))), r.value...)
	if r.headers == nil {
		r.headers = []byte{0}
	}
	body = append(body, r.headers...)
	if r.length == 0 {
		r.length = int64(len(body))
	}
	return append(binary.AppendVarint(dst, r.length), body...)
}

func rawRecords(records ...rawRecord) []byte {
	var encoded []byte
	for _, record := range records {
		encoded = record.append(encoded)
	}
	return encoded
}

// malformedRecords are encoded records, two of which are declared, that no reader could make sense of.
func malformedRecords() map[string][]byte {
	good := rawRecord{key: "k", value: "v"}
	sound := rawRecords(good, rawRecord{delta: 1})
	long := bytes.Repeat([]byte{0x80}, 11)
	longKey, manyHeaders := append([]byte{2}, long...), binary.AppendVarint(nil, 1<<31)
	return map[string][]byte{
		"PD-05: offset deltas with a gap":          rawRecords(good, rawRecord{delta: 2}),
		"PD-05: an offset delta twice":             rawRecords(good, good),
		"PD-05: offset deltas backwards":           rawRecords(rawRecord{delta: 1}, rawRecord{delta: 0}),
		"PD-05: offset deltas from 1":              rawRecords(rawRecord{delta: 1}, rawRecord{delta: 2}),
		"a negative offset delta":                  rawRecords(rawRecord{delta: -1}, rawRecord{delta: 0}),
		"an offset delta beyond int32":             rawRecords(good, rawRecord{delta: 1 << 32}),
		"PD-05: fewer records than declared":       rawRecords(good),
		"PD-05: more records than declared":        rawRecords(good, rawRecord{delta: 1}, rawRecord{delta: 2}),
		"PD-05: a byte behind the last record":     append(bytes.Clone(sound), 0),
		"no bytes at all":                          nil,
		"the last record cut off":                  sound[:len(sound)-1],
		"a record that is longer than the data":    rawRecords(good, rawRecord{delta: 1, length: 1000}),
		"a length that is longer than its fields":  append(rawRecords(good, rawRecord{delta: 1, length: 9}), 1, 1),
		"a length that is shorter than its fields": rawRecords(good, rawRecord{delta: 1, value: "long", length: 7}),
		"a negative length":                        rawRecords(good, rawRecord{delta: 1, length: -1}),
		"a length too short for any record":        rawRecords(good, rawRecord{delta: 1, length: 5}),
		"the largest length":                       rawRecords(good, rawRecord{delta: 1, length: math.MaxInt64}),
		"a length that never ends":                 append(rawRecords(good), long...),
		"fewer headers than declared":              rawRecords(good, rawRecord{delta: 1, headers: []byte{4, 2, 'a', 1}}),
		"a negative number of headers":             rawRecords(good, rawRecord{delta: 1, headers: []byte{1}}),
		"more headers than could be":               rawRecords(good, rawRecord{delta: 1, headers: manyHeaders}),
		"a header without a key":                   rawRecords(good, rawRecord{delta: 1, headers: []byte{2, 1, 1}}),
		"a header value that is too long":          rawRecords(good, rawRecord{delta: 1, headers: []byte{2, 0, 100}}),
		"a header key that never ends":             rawRecords(good, rawRecord{delta: 1, headers: longKey}),
	}
}

func TestRecordsThatNoReaderCouldReadAreRefused(t *testing.T) {
	for name, encoded := range malformedRecords() {
		for _, codec := range allCodecs {
			t.Run(name+" in "+codec.String(), func(t *testing.T) {
				_, _, err := NewValidator().Validate(assemble(t, codec, 2, encoded), AnyOptions())
				if kafka.CodeOf(err) != kafka.InvalidRecord {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

func TestAnyNegativeLengthOfAFieldIsNull(t *testing.T) {
	body := []byte{0, 0, 0, 3, 5, 2, 0, 9} // key −2, value −3, a header with value −5
	encoded := append([]byte{byte(2 * len(body))}, body...)
	for _, codec := range allCodecs {
		if _, _, err := NewValidator().Validate(assemble(t, codec, 1, encoded), AnyOptions()); err != nil {
			t.Errorf("%s: %v", codec, err)
		}
		if diff := cmp.Diff([]string{`offset 0 at 0: null = null, header "" = null`},
			describeAll(t, assemble(t, codec, 1, encoded))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDataThatDoesNotDecompressIsRefusedForGood(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		batch := build(t, withCodec(codec))
		for cut := len(batch) - 1; cut >= HeaderSize; cut-- {
			data := patched(batch[:cut], func(b Batch) { put32(b[atLength:], int32(len(b)-LogOverhead)) })
			_, _, err := NewValidator().Validate(data, AnyOptions())
			// What an lz4 frame says last is only that it ends.
			if err == nil || kafka.CodeOf(err).Retriable() {
				t.Fatalf("%s cut to %d bytes: %v", codec, cut, err)
			}
		}
		garbage := patched(batch, func(b Batch) { copy(b.Records(), bytes.Repeat([]byte("no"), len(b))) })
		if _, _, err := NewValidator().Validate(garbage, AnyOptions()); kafka.CodeOf(err) != kafka.InvalidRecord {
			t.Errorf("%s: garbage: %v", codec, err)
		}
	}
}

func TestPD04TheLimitIsOnTheBatchAsItIsStored(t *testing.T) {
	opts := AnyOptions()
	opts.MaxBytes = 1 << 20
	single := func(codec Codec, value []byte) Batch {
		options := PlainProducer()
		options.Codec = codec
		builder := NewBuilder(options)
		builder.Append(0, []byte("k"), value)
		return builder.Build()
	}
	for _, codec := range allCodecs[1:] {
		batch := single(codec, make([]byte, 5_000_000))
		if _, _, err := NewValidator().Validate(batch, opts); err != nil {
			t.Errorf("5 MB of zeros in %d bytes of %s: %v", len(batch), codec, err)
		}
	}
	batch := single(None, make([]byte, 1_000_000))
	for limit, want := range map[int]kafka.Errno{len(batch): 0, len(batch) - 1: kafka.MessageTooLarge} {
		opts.MaxBytes = int32(limit)
		if _, _, err := NewValidator().Validate(batch, opts); kafka.CodeOf(err) != want {
			t.Errorf("%d bytes where %d are allowed: %v", len(batch), limit, err)
		}
	}
}

func TestPD01AMaxTimestampThatIsWrongIsPutRight(t *testing.T) {
	for _, codec := range allCodecs {
		for _, wrong := range []int64{NoTimestamp, 0, 19, 21, math.MaxInt64} {
			opts := PlainProducer()
			opts.Codec = codec
			builder := NewBuilder(opts)
			for timestamp := range int64(20) {
				builder.Append(timestamp+1, []byte("k"), []byte("v"))
			}
			right := builder.Build()
			data := patched(right, func(b Batch) { binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(wrong)) })
			batch, summary, err := NewValidator().Validate(data, AnyOptions())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(batch, right) || &batch[0] != &data[0] {
				t.Errorf("%s: the batch is not put right in place", codec)
			}
			want := Summary{Count: 20, MaxTimestamp: 20, MaxTimestampOffsetDelta: 19, Size: len(right)}
			if summary != want {
				t.Errorf("%s: summary is %+v", codec, summary)
			}
		}
	}
}

func TestPD02LogAppendTimeReplacesTheProducersTime(t *testing.T) {
	opts := AnyOptions()
	// Bounds on producers' clocks do not count where those are not kept.
	opts.TimestampLogAppend, opts.Now, opts.BeforeMaxMs, opts.AfterMaxMs = true, 1_700_000_000_000, 1, 1
	for _, codec := range allCodecs {
		data := []byte(build(t, withCodec(codec)))
		batch, summary, err := NewValidator().Validate(data, opts)
		if err != nil {
			t.Fatal(err)
		}
		if batch.TimestampType() != LogAppendTime || batch.MaxTimestamp() != opts.Now || &batch[0] != &data[0] {
			t.Errorf("%s: %s, max timestamp %d", codec, batch.TimestampType(), batch.MaxTimestamp())
		}
		if batch.BaseTimestamp() != 1000 || batch.Codec() != codec {
			t.Errorf("%s: something else changed", codec)
		}
		if err := batch.VerifyCRC(); err != nil {
			t.Error(err)
		}
		if want := (Summary{Count: 3, MaxTimestamp: opts.Now, Size: len(data)}); summary != want {
			t.Errorf("%s: summary is %+v", codec, summary)
		}
	}
}

func TestOF04TheLargestTimestampIsAtTheFirstRecordThatHasIt(t *testing.T) {
	for _, codec := range allCodecs {
		for _, test := range []struct {
			timestamps []int64
			max        int64
			delta      int32
		}{
			{[]int64{1, 3, 2}, 3, 1},
			{[]int64{1, 3, 3}, 3, 1},
			{[]int64{5, 5, 5}, 5, 0},
			{[]int64{NoTimestamp, NoTimestamp}, NoTimestamp, 0},
			{[]int64{NoTimestamp, 0}, 0, 1},
			{[]int64{-7, -5}, NoTimestamp, 0}, // Kafka starts from −1, too
		} {
			opts := PlainProducer()
			opts.Codec = codec
			builder := NewBuilder(opts)
			for _, timestamp := range test.timestamps {
				builder.Append(timestamp, nil, nil)
			}
			_, summary, err := NewValidator().Validate(builder.Build(), AnyOptions())
			if err != nil || summary.MaxTimestamp != test.max || summary.MaxTimestampOffsetDelta != test.delta {
				t.Errorf("%s %v: %+v, %v", codec, test.timestamps, summary, err)
			}
		}
	}
}

func TestPD14TimestampsOutOfBoundsAreRefusedByRecord(t *testing.T) {
	const now, hour = 1_700_000_000_000, 3_600_000
	opts := AnyOptions()
	opts.Now, opts.BeforeMaxMs, opts.AfterMaxMs = now, hour, 2*hour
	for _, codec := range allCodecs {
		for _, test := range []struct {
			name       string
			timestamps []int64
			refused    []int32
		}{
			{"within the bounds", []int64{now, now - hour, now + 2*hour}, nil},
			{"no timestamp at all", []int64{NoTimestamp, NoTimestamp}, nil},
			{"too old", []int64{now, now - hour - 1, now - 3*hour}, []int32{1, 2}},
			{"too new", []int64{now + 2*hour + 1, now}, []int32{0}},
			{"the extremes", []int64{math.MinInt64, now, math.MaxInt64}, []int32{0, 2}},
		} {
			options := PlainProducer()
			options.Codec = codec
			builder := NewBuilder(options)
			for _, timestamp := range test.timestamps {
				builder.Append(timestamp, []byte("k"), nil)
			}
			_, _, err := NewValidator().Validate(builder.Build(), opts)
			if diff := cmp.Diff(test.refused, refusedRecords(err)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", codec, test.name, diff)
			}
			if test.refused != nil && kafka.CodeOf(err) != kafka.InvalidTimestamp {
				t.Errorf("%s, %s: %v", codec, test.name, err)
			}
		}
	}
}

func refusedRecords(err error) (indexes []int32) {
	var records *InvalidRecordsError
	if errors.As(err, &records) {
		for _, record := range records.RecordErrors {
			indexes = append(indexes, record.BatchIndex)
		}
	}
	return indexes
}

func TestTimestampBoundsDoNotOverflow(t *testing.T) {
	for _, test := range []struct{ now, before, after, oldest, newest int64 }{
		{0, math.MaxInt64, math.MaxInt64, math.MinInt64, math.MaxInt64},
		{1000, math.MaxInt64, 10, math.MinInt64, 1010},
		{1000, 10, math.MaxInt64, 990, math.MaxInt64},
		{1000, 0, 0, 1000, 1000},
		{math.MaxInt64, 1, 1, math.MaxInt64 - 1, math.MaxInt64},
	} {
		oldest, newest := timestampBounds(Options{Now: test.now, BeforeMaxMs: test.before, AfterMaxMs: test.after})
		if oldest != test.oldest || newest != test.newest {
			t.Errorf("%+v: [%d, %d]", test, oldest, newest)
		}
	}
}

func TestPD07ACompactedTopicTakesNoRecordWithoutAKey(t *testing.T) {
	opts := AnyOptions()
	opts.RequireKeys = true
	for _, headerOnly := range []bool{false, true} {
		opts.HeaderOnly = headerOnly
		for _, codec := range allCodecs {
			for _, test := range []struct {
				keys    [][]byte
				refused []int32
			}{
				{[][]byte{nil}, []int32{0}},
				{[][]byte{[]byte("a"), nil, []byte("b")}, []int32{1}},
				{[][]byte{nil, []byte("a"), nil}, []int32{0, 2}},
				{[][]byte{[]byte("a"), {}, []byte("b")}, nil},
			} {
				options := PlainProducer()
				options.Codec = codec
				builder := NewBuilder(options)
				for _, key := range test.keys {
					// Values larger than any piece of a decompressor, so that records cross from one to the next.
					builder.Append(0, key, make([]byte, 300<<10))
				}
				_, _, err := NewValidator().Validate(builder.Build(), opts)
				if diff := cmp.Diff(test.refused, refusedRecords(err)); diff != "" {
					t.Errorf("%s %q (-want +got):\n%s", codec, test.keys, diff)
				}
				if test.refused != nil && kafka.CodeOf(err) != kafka.InvalidRecord {
					t.Errorf("%s: %v", codec, err)
				}
			}
		}
	}
}

func TestOneBadTimestampMakesTheAnswerInvalidTimestamp(t *testing.T) {
	opts := AnyOptions()
	opts.RequireKeys, opts.Now, opts.AfterMaxMs = true, 1000, 10
	builder := NewBuilder(PlainProducer())
	builder.Append(1000, nil, nil)
	builder.Append(2000, []byte("k"), nil)
	_, _, err := NewValidator().Validate(builder.Build(), opts)
	var records *InvalidRecordsError
	if !errors.As(err, &records) || kafka.CodeOf(err) != kafka.InvalidTimestamp || records.Total != 2 {
		t.Errorf("%v", err)
	}
	if !strings.Contains(err.Error(), "2 records are refused, first record 0") {
		t.Errorf("%v", err)
	}
}

func TestTheAnswerNamesABoundedNumberOfRecords(t *testing.T) {
	opts := AnyOptions()
	opts.RequireKeys = true
	builder := NewBuilder(PlainProducer())
	for range 10_000 {
		builder.Append(0, nil, nil)
	}
	_, _, err := NewValidator().Validate(builder.Build(), opts)
	var records *InvalidRecordsError
	if !errors.As(err, &records) || len(records.RecordErrors) != maxRecordErrors || records.Total != 10_000 {
		t.Errorf("%v", err)
	}
}

func TestHeaderOnlyBelievesTheHeader(t *testing.T) {
	opts := AnyOptions()
	opts.HeaderOnly = true
	gap := assemble(t, LZ4, 2, rawRecords(rawRecord{}, rawRecord{delta: 2}))
	_, summary, err := NewValidator().Validate(gap, opts)
	if want := (Summary{Count: 2, MaxTimestampOffsetDelta: 1, Size: len(gap)}); err != nil || summary != want {
		t.Errorf("%+v, %v", summary, err)
	}
	opts.Now, opts.AfterMaxMs = 1000, 100
	if _, _, err := NewValidator().Validate(build(t), opts); kafka.CodeOf(err) != kafka.InvalidTimestamp {
		t.Errorf("a max timestamp of 3000: %v", err)
	}
	opts.TimestampLogAppend = true
	batch, summary, err := NewValidator().Validate(build(t), opts)
	if err != nil || summary.MaxTimestamp != 1000 || batch.MaxTimestamp() != 1000 || batch.VerifyCRC() != nil {
		t.Errorf("%s: %+v, %v", batch, summary, err)
	}
}

// shattered is a batch whose records come out of the decompressor in pieces of a few bytes, so that hardly any record
// lies in one piece.
func shattered(t testing.TB, count int32, encoded []byte, piece int) Batch {
	t.Helper()
	data := appendSnappy([]byte(assemble(t, None, count, nil)), nil)
	for len(encoded) > 0 {
		n := min(piece, len(encoded))
		block := appendSnappy(nil, encoded[:n])[xerialHeader:]
		data, encoded = append(data, block...), encoded[n:]
	}
	Batch(data).setCodec(Snappy)
	return patched(data, func(b Batch) { put32(b[atLength:], int32(len(b)-LogOverhead)) })
}

func TestRecordsThatCrossFromPieceToPieceAreJudgedAlike(t *testing.T) {
	opts := AnyOptions()
	opts.RequireKeys = true
	var lookup Lookup
	for piece := 1; piece <= 9; piece++ {
		for name, encoded := range malformedRecords() {
			_, _, err := NewValidator().Validate(shattered(t, 2, encoded, piece), AnyOptions())
			if kafka.CodeOf(err) != kafka.InvalidRecord {
				t.Errorf("%s in pieces of %d: %v", name, piece, err)
			}
		}
		plain := build(t)
		batch := shattered(t, 3, plain.Records(), piece)
		_, summary, err := NewValidator().Validate(batch, AnyOptions())
		if err != nil || summary.MaxTimestamp != 2000 || summary.MaxTimestampOffsetDelta != 1 {
			t.Errorf("pieces of %d: %+v, %v", piece, summary, err)
		}
		if got, ok, err := lookup.MaxTimestamp(batch, 0); err != nil || !ok || got != (TimestampOffset{1, 2000}) {
			t.Errorf("pieces of %d: %+v, %v", piece, got, err)
		}
		_, _, err = NewValidator().Validate(batch, opts)
		if diff := cmp.Diff([]int32{1}, refusedRecords(err)); diff != "" {
			t.Errorf("pieces of %d, keys (-want +got):\n%s", piece, diff)
		}
	}
}
