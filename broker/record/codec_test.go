package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
)

// payloads are what codecs treat differently: nothing, less than a block, several blocks, and what does not compress.
func payloads() map[string][]byte {
	random := make([]byte, 300_000)
	generator := rand.NewChaCha8([32]byte{1})
	_, _ = generator.Read(random)
	var text []byte
	for i := range 30_000 {
		text = fmt.Appendf(text, "line %d of %d\n", i%100, i%7)
	}
	return map[string][]byte{
		"nothing": {}, "a byte": {7}, "a block": text[:60_000], "blocks": text, "zeros": make([]byte, 1<<20),
		"noise": random,
	}
}

// kgo's own codecs are a second opinion in both directions.
func TestCodecsUnderstandThoseOfFranzGo(t *testing.T) {
	theirs := kgo.DefaultDecompressor()
	for codec, compression := range map[Codec]kgo.CompressionCodec{
		Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(),
		Zstd: kgo.ZstdCompression(),
	} {
		compressor, err := kgo.DefaultCompressor(compression)
		if err != nil {
			t.Fatal(err)
		}
		var ours reusedCodecs
		for name, payload := range payloads() {
			encoded, _ := compressor.Compress(new(bytes.Buffer), payload)
			decoded, err := ours.decode(codec, encoded)
			if err != nil || !bytes.Equal(decoded, payload) {
				t.Errorf("%s of %s by kgo: %d bytes, %v", name, codec, len(decoded), err)
			}
			if len(payload) == 0 && codec == Snappy {
				continue // a frame without a block, which kgo does not read; but no batch has no records
			}
			for _, level := range []int{DefaultLevel, 1, 22} {
				encoded, err := ours.append(nil, payload, codec, level)
				if err != nil {
					t.Fatal(err)
				}
				decoded, err := theirs.Decompress(encoded, kgo.CompressionCodecType(codec))
				if err != nil || !bytes.Equal(decoded, payload) {
					t.Errorf("%s of %s level %d for kgo: %d bytes, %v", name, codec, level, len(decoded), err)
				}
			}
		}
	}
}

// reusedCodecs is a compressor and a source that are used again and again, as pools do.
type reusedCodecs struct {
	compressor
	source source
}

func (c *reusedCodecs) decode(codec Codec, data []byte) ([]byte, error) {
	return c.source.appendAll(nil, codec, data, maxDecompressed)
}

func TestWhatIsCompressedComesBackAndAppendsBehindWhatIsThere(t *testing.T) {
	var both reusedCodecs
	rapid.Check(t, func(t *rapid.T) {
		codec := rapid.SampledFrom(allCodecs).Draw(t, "codec")
		level := rapid.IntRange(-10, 30).Draw(t, "level")
		block := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "block")
		payload := bytes.Repeat(block, rapid.IntRange(0, 700).Draw(t, "times"))
		encoded, err := both.append([]byte("before"), payload, codec, level)
		if err != nil || !bytes.HasPrefix(encoded, []byte("before")) {
			t.Fatalf("%s: %v", codec, err)
		}
		decoded, err := both.decode(codec, encoded[len("before"):])
		if err != nil || !bytes.Equal(decoded, payload) {
			t.Fatalf("%s: %d of %d bytes, %v", codec, len(decoded), len(payload), err)
		}
	})
}

func TestPD13SnappyIsFramedAsJavaWantsIt(t *testing.T) {
	encoded := appendSnappy(nil, []byte("payload"))
	want := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9}
	if !bytes.HasPrefix(encoded, want) {
		t.Errorf("framing is % x", encoded)
	}
}

func TestSnappyIsReadBareFramedAndStrungTogether(t *testing.T) {
	framed := appendSnappy(nil, []byte("one"))
	littleEndian := bytes.Clone(framed)
	binary.LittleEndian.PutUint32(littleEndian[8:], 1)
	var both reusedCodecs
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"bare":                      {framed[20:], "one"},
		"framed":                    {framed, "one"},
		"framed twice":              {append(bytes.Clone(framed), framed...), "oneone"},
		"with a version in reverse": {littleEndian, "one"},
		"without blocks":            {framed[:16], ""},
		"with an empty block":       {append(bytes.Clone(framed), 0, 0, 0, 1, 0), "one"},
	} {
		if got, err := both.decode(Snappy, test.data); err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, data := range map[string][]byte{
		"a block size that is negative": append(bytes.Clone(framed), 0xff, 0xff, 0xff, 0xff),
		"a block size beyond the end":   append(bytes.Clone(framed), 0, 0, 0, 2, 0),
		"a header that is cut off":      framed[:15],
		"a block size that is cut off":  framed[:18],
		"a block with a huge claim":     {0xff, 0xff, 0xff, 0xff, 0x0f, 0},
	} {
		if _, err := both.decode(Snappy, data); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestLZ4FramesThatKafkasConsumersCannotReadAreRefused(t *testing.T) {
	var both reusedCodecs
	frame, err := both.append(nil, bytes.Repeat([]byte("payload "), 100), LZ4, DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	header := func(change func(frame []byte)) []byte {
		changed := bytes.Clone(frame)
		change(changed)
		changed[6] = lz4HeaderChecksum(changed[4:6])
		return changed
	}
	oldChecksum := bytes.Clone(frame)
	oldChecksum[6] = lz4HeaderChecksum(frame[:6])
	for name, data := range map[string][]byte{
		"no magic":                                header(func(f []byte) { f[0]++ }),
		"another version of the format":           header(func(f []byte) { f[4] ^= lz4VersionMask }),
		"blocks that need those before them":      header(func(f []byte) { f[4] ^= lz4Independent }),
		"a dictionary":                            header(func(f []byte) { f[4] ^= lz4Dictionary }),
		"a block size that does not exist":        header(func(f []byte) { f[5] = 3 << 4 }),
		"the header checksum of old clients":      oldChecksum,
		"a content size that is cut off":          header(func(f []byte) { f[4] ^= lz4ContentSize })[:10],
		"a block larger than the frame says":      header(func(f []byte) { f[9] = 2 }),
		"a block that is cut off":                 frame[:len(frame)-5],
		"no end mark":                             frame[:len(frame)-4],
		"a block checksum that is wrong":          header(func(f []byte) { f[4] ^= lz4BlockChecksum }),
		"only a header":                           frame[:7],
		"a block that is garbage":                 header(func(f []byte) { f[11] ^= 0xff }),
		"a block that is not compressed, cut off": header(func(f []byte) { f[10] = 0x80 })[:20],
	} {
		if _, err := both.decode(LZ4, data); err == nil {
			t.Errorf("%s: the frame is read", name)
		}
	}
	if got, err := both.decode(LZ4, append(bytes.Clone(frame), "behind the end"...)); err != nil || len(got) != 800 {
		t.Errorf("what follows the end mark counts: %v", err)
	}
}

func TestXXH32IsTheOneOfTheSpecification(t *testing.T) {
	for text, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(text)); got != want {
			t.Errorf("%q: %08x instead of %08x", text, got, want)
		}
	}
}

// allocated is how many bytes a call takes from the heap.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bomb is a batch of one record whose value is zeros, a lot of them.
func bomb(t testing.TB, codec Codec, value int) Batch {
	t.Helper()
	return assemble(t, codec, 1, rawRecords(rawRecord{value: string(make([]byte, value))}))
}

// zstdBomb is the same in zstd, made of blocks that repeat a byte, so that making it costs nothing.
func zstdBomb(t testing.TB, value int) Batch {
	t.Helper()
	const (
		maxBlock  = 128 << 10
		last      = 1
		raw, rle  = 0 << 1, 1 << 1
		sizeShift = 3
		window    = 10 << 3 // 2^20 bytes
	)
	block := func(dst []byte, kind, size int, content []byte) []byte {
		header := kind | size<<sizeShift
		return append(append(dst, byte(header), byte(header>>8), byte(header>>16)), content...)
	}
	prefix := []byte{0, 0, 0, 0} // attributes, two deltas, an empty key
	prefix = binary.AppendVarint(prefix, int64(value))
	record := append(binary.AppendVarint(nil, int64(len(prefix)+value+1)), prefix...)
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, window}
	frame = block(frame, raw, len(record), record)
	for ; value > 0; value -= maxBlock {
		frame = block(frame, rle, min(value, maxBlock), []byte{0})
	}
	frame = block(frame, raw|last, 1, []byte{0}) // no headers
	batch := append(assemble(t, None, 1, nil), frame...)
	batch.setCodec(Zstd)
	return patched(batch, func(b Batch) { put32(b[atLength:], int32(len(b)-LogOverhead)) })
}

func TestADecompressionBombIsCheckedWithoutHoldingIt(t *testing.T) {
	const bombBytes, holds = 24 << 20, 12 << 20 // the tables and windows of the codecs
	for name, batch := range map[string]Batch{
		"gzip": bomb(t, Gzip, bombBytes), "lz4": bomb(t, LZ4, bombBytes), "zstd": bomb(t, Zstd, bombBytes),
		"zstd of repeated bytes": zstdBomb(t, 4*bombBytes),
	} {
		validator := NewValidator()
		used := allocated(func() {
			if _, _, err := validator.Validate(batch, AnyOptions()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if used > holds {
			t.Errorf("%s: %d bytes for a batch of %d", name, used, len(batch))
		}
	}
}

func TestMoreThanAnyBatchMayHoldIsTooLarge(t *testing.T) {
	validator := NewValidator()
	validator.maxDecompressed = 1 << 20
	for _, codec := range allCodecs[1:] {
		_, _, err := validator.Validate(bomb(t, codec, 1<<20), AnyOptions())
		if kafka.CodeOf(err) != kafka.MessageTooLarge {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

func TestABombIsNotEncodedAgain(t *testing.T) {
	opts := AnyOptions()
	opts.MaxBytes, opts.Target = 1<<20, Recode(None, DefaultLevel)
	_, _, err := NewValidator().Validate(bomb(t, Zstd, 1<<20), opts)
	if kafka.CodeOf(err) != kafka.MessageTooLarge {
		t.Errorf("more than may be stored: %v", err)
	}
	opts.Target = Recode(LZ4, DefaultLevel)
	validator := NewValidator()
	validator.maxRecoded = 1 << 20
	_, _, err = validator.Validate(bomb(t, Zstd, 1<<20), opts)
	if kafka.CodeOf(err) != kafka.MessageTooLarge {
		t.Errorf("more than is held: %v", err)
	}
}

func TestALimitEndsDecompression(t *testing.T) {
	for _, codec := range allCodecs {
		var s source
		data := bomb(t, codec, 1<<20).Records()
		_, err := s.appendAll(nil, codec, data, 1<<20)
		if err != errTooMuch {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

func TestAClaimedSizeReservesNothing(t *testing.T) {
	single := binary.LittleEndian.AppendUint32([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0}, 1<<30) // zstd with a size of 1 GiB
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3}                                 // a window of 128 MiB
	lz4Header := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, lz4MaxBlockClass << 4}
	lz4Header = append(lz4Header, lz4HeaderChecksum(lz4Header[4:]))
	for name, test := range map[string]struct {
		codec Codec
		data  []byte
	}{
		"a size of zstd":           {Zstd, append(single, 1, 0, 0)},
		"a window of zstd":         {Zstd, append(window, 1, 0, 0)},
		"a block size of lz4":      {LZ4, append(lz4Header, 2, 0, 0, 0, 0x10, 'x', 0, 0, 0, 0)},
		"a size of bare snappy":    {Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0, 'x'}},
		"garbage instead of gzip":  {Gzip, bytes.Repeat([]byte{0x1f, 0x8b, 8}, 20)},
		"a first block of no size": {Zstd, single},
	} {
		var s source
		used := allocated(func() { _, _ = s.appendAll(nil, test.codec, test.data, maxDecompressed) })
		if used > 2<<20 {
			t.Errorf("%s: %d bytes are reserved", name, used)
		}
	}
}

func TestZstdFramesWithALargeWindowAreRead(t *testing.T) {
	payload := payloads()["blocks"]
	for _, window := range []int{1 << 20, maxZstdWindow, maxZstdWindow * 2, 128 << 20} {
		encoder, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		var streamed bytes.Buffer
		encoder.Reset(&streamed)
		if _, err := encoder.Write(payload); err != nil {
			t.Fatal(err)
		}
		if err := encoder.Close(); err != nil {
			t.Fatal(err)
		}
		var both reusedCodecs
		if got, err := both.decode(Zstd, streamed.Bytes()); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("window of %d: %d bytes, %v", window, len(got), err)
		}
	}
}

func TestRecodingKeepsAllButTheCodec(t *testing.T) {
	for _, from := range allCodecs {
		for _, to := range allCodecs {
			data := []byte(build(t, withCodec(from), func(opts *BuilderOptions) {
				opts.ProducerID, opts.ProducerEpoch, opts.BaseSequence = 4711, 3, 99
			}))
			before := bytes.Clone(data)
			opts := AnyOptions()
			opts.Target = Recode(to, DefaultLevel)
			batch, summary, err := NewValidator().Validate(data, opts)
			if err != nil {
				t.Fatal(err)
			}
			if summary.Rewritten != (from != to) || summary.Size != len(batch) || summary.MaxTimestamp != 3000 {
				t.Errorf("%s to %s: %+v", from, to, summary)
			}
			if !bytes.Equal(data, before) {
				t.Errorf("%s to %s: the request was changed", from, to)
			}
			if err := batch.VerifyCRC(); err != nil || batch.Codec() != to || batch.Size() != len(batch) {
				t.Errorf("%s to %s: %s, %v", from, to, batch, err)
			}
			want := build(t, withCodec(to), func(opts *BuilderOptions) {
				opts.ProducerID, opts.ProducerEpoch, opts.BaseSequence = 4711, 3, 99
			})
			if !bytes.Equal(batch, want) {
				t.Errorf("%s to %s: not what the producer would have made of it", from, to)
			}
		}
	}
}

func TestRecodingStillChecksAndStamps(t *testing.T) {
	opts := AnyOptions()
	opts.Target, opts.TimestampLogAppend, opts.Now = Recode(Zstd, 9), true, 77
	batch, summary, err := NewValidator().Validate(build(t, withCodec(Gzip)), opts)
	if err != nil || batch.TimestampType() != LogAppendTime || batch.MaxTimestamp() != 77 || batch.VerifyCRC() != nil {
		t.Errorf("%s: %+v, %v", batch, summary, err)
	}
	for name, encoded := range malformedRecords() {
		_, _, err := NewValidator().Validate(assemble(t, Gzip, 2, encoded), opts)
		if kafka.CodeOf(err) != kafka.InvalidRecord {
			t.Errorf("%s: %v", name, err)
		}
	}
	noise := payloads()["noise"]
	opts.MaxBytes = int32(len(noise))
	if _, _, err := NewValidator().Validate(bomb(t, Gzip, len(noise)*2), opts); err != nil {
		t.Errorf("what is small again: %v", err)
	}
	builder := NewBuilder(PlainProducer())
	builder.Append(0, nil, noise[:1000])
	plain := builder.Build()
	opts.Target, opts.MaxBytes = Recode(LZ4, DefaultLevel), int32(len(plain))
	if _, _, err := NewValidator().Validate(plain, opts); kafka.CodeOf(err) != kafka.MessageTooLarge {
		t.Errorf("noise that grew by its frame: %v", err)
	}
}
