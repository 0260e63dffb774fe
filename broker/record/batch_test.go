package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// build makes a batch of the few records that the golden files have, too.
func build(t testing.TB, change ...func(*BuilderOptions)) Batch {
	t.Helper()
	opts := PlainProducer()
	for _, apply := range change {
		apply(&opts)
	}
	builder := NewBuilder(opts)
	appendFew(builder)
	return builder.Build()
}

func withCodec(codec Codec) func(*BuilderOptions) {
	return func(opts *BuilderOptions) { opts.Codec = codec }
}

func TestNextCutsBatchAfterBatch(t *testing.T) {
	first, second := build(t), build(t, withCodec(LZ4))
	data := append(bytes.Clone(first), second...)
	batch, rest, err := Next(data)
	if err != nil || !bytes.Equal(batch, first) || !bytes.Equal(rest, second) {
		t.Fatalf("first is %v, rest has %d bytes, %v", batch, len(rest), err)
	}
	if &batch[0] != &data[0] || cap(batch) != len(first) {
		t.Error("the batch must alias data, and must not be able to grow into what follows")
	}
	batch, rest, err = Next(rest)
	if err != nil || !bytes.Equal(batch, second) || len(rest) != 0 {
		t.Fatalf("second is %v, rest has %d bytes, %v", batch, len(rest), err)
	}
}

func TestNextTellsDataThatEndsFromDataThatIsCorrupt(t *testing.T) {
	batch := build(t)
	for n := range batch {
		if _, rest, err := Next(batch[:n]); !errors.Is(err, ErrShort) || len(rest) != n {
			t.Fatalf("%d bytes of a batch: %v", n, err)
		}
	}
	length := func(value int32) []byte {
		changed := bytes.Clone(batch)
		binary.BigEndian.PutUint32(changed[atLength:], uint32(value))
		return changed
	}
	magic := func(value byte) []byte {
		changed := bytes.Clone(batch)
		changed[atMagic] = value
		return changed
	}
	for name, test := range map[string]struct {
		data     []byte
		position int
	}{
		"a length of zero":                        {length(0), atLength},
		"a length one short of a header":          {length(minLength - 1), atLength},
		"a negative length":                       {length(-1), atLength},
		"the most negative length":                {length(math.MinInt32), atLength},
		"a length whose size overflows int32":     {length(maxLength + 1), atLength},
		"the largest length":                      {length(math.MaxInt32), atLength},
		"format version 1":                        {magic(1), atMagic},
		"format version 3":                        {magic(3), atMagic},
		"a negative format version":               {magic(0xff), atMagic},
		"zeros, as a torn write leaves them":      {make([]byte, 100), atMagic},
		"a wrong version before all of the batch": {magic(1)[:PrefixSize], atMagic},
	} {
		var corrupt *CorruptError
		if _, _, err := Next(test.data); !errors.As(err, &corrupt) || corrupt.Position != test.position {
			t.Errorf("%s: %v", name, err)
		} else if kafka.CodeOf(err) != kafka.CorruptMessage {
			t.Errorf("%s: code %v", name, kafka.CodeOf(err))
		}
	}
	if _, _, err := Next(length(maxLength)); !errors.Is(err, ErrShort) {
		t.Errorf("the largest length that fits: %v", err)
	}
	if batch, _, err := Next(length(minLength)); err != nil || len(batch) != HeaderSize {
		t.Errorf("a header alone: %d bytes, %v", len(batch), err)
	}
}

func TestSizeOfNeedsOnlyThePrefix(t *testing.T) {
	batch := build(t)
	if size, err := SizeOf(batch[:PrefixSize]); err != nil || size != len(batch) {
		t.Errorf("size is %d, %v", size, err)
	}
	if _, err := SizeOf(batch[:PrefixSize-1]); !errors.Is(err, ErrShort) {
		t.Errorf("less than the prefix: %v", err)
	}
}

// kmsg.RecordBatch is a second opinion on where each field is.
func TestEveryFieldIsWhereAnotherImplementationHasIt(t *testing.T) {
	opts := goldenFields()
	opts.Codec, opts.TimestampType, opts.Transactional, opts.Control = Zstd, LogAppendTime, true, true
	builder := NewBuilder(opts)
	appendFew(builder)
	batch := builder.Build()

	var other kmsg.RecordBatch
	if err := other.ReadFrom(batch); err != nil {
		t.Fatal(err)
	}
	got := kmsg.RecordBatch{
		FirstOffset: batch.BaseOffset(), Length: int32(batch.Size() - LogOverhead),
		PartitionLeaderEpoch: int32(batch.LeaderEpoch()), Magic: batch.Magic(), CRC: int32(batch.CRC()),
		Attributes: batch.Attributes(), LastOffsetDelta: batch.LastOffsetDelta(),
		FirstTimestamp: batch.BaseTimestamp(), MaxTimestamp: batch.MaxTimestamp(), ProducerID: batch.ProducerID(),
		ProducerEpoch: batch.ProducerEpoch(), FirstSequence: batch.BaseSequence(), NumRecords: batch.Count(),
		Records: batch.Records(),
	}
	if diff := cmp.Diff(other, got); diff != "" {
		t.Errorf("(-kmsg +ours):\n%s", diff)
	}
	if sum := crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)); sum != batch.CRC() {
		t.Errorf("checksum is %08x instead of %08x", batch.CRC(), sum)
	}
	if batch.Codec() != Zstd || batch.TimestampType() != LogAppendTime || !batch.IsTransactional() ||
		!batch.IsControl() || batch.HasDeleteHorizon() {
		t.Errorf("attributes are %016b", batch.Attributes())
	}
}

func TestOffsetsAndEpochAreAssignedOutsideTheChecksum(t *testing.T) {
	batch := build(t)
	batch.SetBaseOffset(1 << 40)
	batch.SetLeaderEpoch(7)
	if err := batch.VerifyCRC(); err != nil {
		t.Error(err)
	}
	if batch.BaseOffset() != 1<<40 || batch.LastOffset() != 1<<40+2 || batch.NextOffset() != 1<<40+3 ||
		batch.LeaderEpoch() != 7 {
		t.Errorf("header is %s, epoch %d", batch, batch.LeaderEpoch())
	}
}

func TestEveryBitBehindTheChecksumCounts(t *testing.T) {
	batch := build(t)
	for at := atCRC; at < len(batch); at++ {
		for bit := range 8 {
			batch[at] ^= 1 << bit
			var corrupt *CorruptError
			if err := batch.VerifyCRC(); !errors.As(err, &corrupt) {
				t.Fatalf("bit %d of byte %d: %v", bit, at, err)
			}
			batch[at] ^= 1 << bit
		}
	}
	if err := batch.VerifyCRC(); err != nil {
		t.Error(err)
	}
}

func TestSequencesWrapFromTheLargestToZero(t *testing.T) {
	for _, test := range []struct{ sequence, increment, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1},
		{math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		if got := AddSequence(test.sequence, test.increment); got != test.want {
			t.Errorf("%d + %d = %d instead of %d", test.sequence, test.increment, got, test.want)
		}
	}
	batch := build(t, func(opts *BuilderOptions) {
		opts.ProducerID, opts.ProducerEpoch, opts.BaseSequence = 1, 0, math.MaxInt32-1
	})
	if batch.LastSequence() != 0 {
		t.Errorf("last sequence is %d", batch.LastSequence())
	}
	if batch := build(t); batch.LastSequence() != NoSequence {
		t.Errorf("without a sequence the last one is %d", batch.LastSequence())
	}
}

func TestCodecsHaveKafkasNamesAndNumbers(t *testing.T) {
	for number, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		codec, err := ParseCodec(name)
		if err != nil || codec != Codec(number) || codec.String() != name || !codec.Known() {
			t.Errorf("%s is %d, %v", name, codec, err)
		}
	}
	if codec, err := ParseCodec("uncompressed"); err != nil || codec != None {
		t.Errorf("uncompressed is %s, %v", codec, err)
	}
	if _, err := ParseCodec("producer"); err == nil {
		t.Error("producer is no codec")
	}
	for _, codec := range []Codec{5, 6, 7} {
		if codec.Known() {
			t.Errorf("%s is known", codec)
		}
	}
}
