package segment_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

func TestAnObjectSaysOfItsDataWhatIsTrue(t *testing.T) {
	b := threeBatches()
	object := newObject(t, b, tailFor(b, 100, 110))
	data := bytesOf(t, object)
	if !bytes.HasPrefix(data, b.data) {
		t.Error("the batches are not byte for byte those of the log")
	}
	if want := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); object.CRC32C() != want {
		t.Errorf("the object's checksum is said to be %08x, it is %08x", object.CRC32C(), want)
	}
	tail, err := segment.Verify(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	want := tailFor(b, 100, 110)
	want.BatchCount, want.RecordCount = 3, 10
	want.MinTimestamp, want.MaxTimestamp, want.MaxTimestampOffset = 1000, 1030, 104
	want.ChunkBytes = segment.DefaultChunkBytes
	want.Checksums = []uint32{crc32.Checksum(b.data, crc32.MakeTable(crc32.Castagnoli))}
	if diff := cmp.Diff(want, *tail, cmpopts.IgnoreUnexported(segment.Tail{}, segment.Contents{})); diff != "" {
		t.Errorf("the tail differs (-want +got):\n%s", diff)
	}
	entry := tail.Entry()
	wantEntry := command.SegmentEntry{BaseOffset: 100, EndOffset: 110, LeaderEpoch: 3, UploadID: id(0x50),
		DataBytes: int64(len(b.data)), ObjectBytes: int64(len(data)), TailBytes: int32(len(data) - len(b.data)),
		MinTimestamp: 1000, MaxTimestamp: 1030, MaxTimestampOffset: 104, FirstAppendedAt: 1_700_000_000_000,
		LastAppendedAt: 1_700_000_009_000, Flags: command.HasAbortedTransactions}
	if diff := cmp.Diff(wantEntry, entry); diff != "" {
		t.Errorf("the manifest entry differs (-want +got):\n%s", diff)
	}
	if written := object.Tail.Entry(); written != entry {
		t.Errorf("the writer's entry %+v is not the reader's %+v", written, entry)
	}
}

func TestEachDamagedByteIsFound(t *testing.T) {
	b := threeBatches()
	data := bytesOf(t, newObject(t, b, tailFor(b, 100, 110)))
	for i := range data {
		data[i] ^= 0x10
		if _, err := segment.Verify(t.Context(), bytes.NewReader(data), int64(len(data))); !segment.IsCorrupt(err) {
			t.Errorf("byte %d damaged: %v", i, err)
		}
		data[i] ^= 0x10
	}
	for size := range len(data) {
		if _, err := segment.Verify(t.Context(), bytes.NewReader(data[:size]), int64(size)); !segment.IsCorrupt(err) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
	}
}

func TestDamageIsReportedWithItsPlace(t *testing.T) {
	b := threeBatches()
	data := bytesOf(t, newObject(t, b, tailFor(b, 100, 110)))
	data[b.positions[1]+70]++
	_, err := segment.Verify(t.Context(), bytes.NewReader(data), int64(len(data)))
	var damage *segment.CorruptError
	if !errors.As(err, &damage) || damage.Position != b.positions[1] || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("%v", err)
	}
}

func TestOnlyDataThatFitsBecomesAnObject(t *testing.T) {
	sound := []batchSpec{{baseOffset: 100, timestamps: []int64{1, 2}}, {baseOffset: 102, timestamps: []int64{3, 4}}}
	cases := []struct {
		name      string
		base, end int64
		specs     []batchSpec
		change    func(*built, *segment.Tail)
		want      string // in the error; empty: it fits
	}{
		{"batches that tile the range", 100, 104, sound, nil, ""},
		{"a range that begins inside the first batch", 101, 104, sound, nil, ""},
		{"a range that begins after the first batch", 102, 104, sound, nil, "the first batch ends before offset 102"},
		{"a hole before the first batch", 90, 104, sound, nil, ""},
		{"a hole after the last batch", 100, 120, sound, nil, ""},
		{"a hole between batches", 100, 200, []batchSpec{sound[0], {baseOffset: 150, timestamps: []int64{3}}}, nil, ""},
		{"a batch past the end", 100, 103, sound, nil, "the last batch ends at offset 104, the range at 103"},
		{"batches that overlap", 100, 104, []batchSpec{sound[0], {baseOffset: 101, timestamps: []int64{3, 4, 5}}}, nil,
			"batch [101, 104) of 3 records"},
		{"the same batch twice", 100, 104, []batchSpec{sound[0], sound[0]}, nil, "follows offset 101"},
		{"half a batch at the end", 100, 104, sound, func(b *built, tail *segment.Tail) { tail.DataBytes -= 5 },
			"runs past the end of the data"},
		{"a byte changed", 100, 104, sound, func(b *built, _ *segment.Tail) { b.data[80]++ }, "checksum"},
		{"no batch at all", 100, 104, nil, nil, ""},
		{"no topic name", 100, 104, sound, func(_ *built, tail *segment.Tail) { tail.Topic = "" }, "not named"},
		{"an index that points into a batch", 100, 104, sound,
			func(b *built, tail *segment.Tail) { tail.OffsetIndex[7]++ }, "where no batch begins"},
		{"an index that is out of order", 100, 104, sound, func(b *built, tail *segment.Tail) {
			tail.OffsetIndex = append(tail.OffsetIndex, tail.OffsetIndex...)
		}, "where no batch begins"},
		{"a time index past the range", 100, 104, sound,
			func(b *built, tail *segment.Tail) { tail.TimeIndex[11] = 99 }, "time index"},
		{"epochs out of order", 100, 104, sound, func(_ *built, tail *segment.Tail) {
			tail.LeaderEpochs = []segment.EpochStart{{Epoch: 2, StartOffset: 5}, {Epoch: 2, StartOffset: 9}}
		}, "leader epoch 2 does not follow 2"},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			b := build(min(test.base, 100), test.specs...)
			tail := tailFor(b, test.base, test.end)
			tail.IndexBaseOffset = min(test.base, 100)
			if test.change != nil {
				test.change(&b, &tail)
			}
			object, err := segment.New(t.Context(), bytes.NewReader(b.data), tail)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				data := bytesOf(t, object)
				if _, err := segment.Verify(t.Context(), bytes.NewReader(data), int64(len(data))); err != nil {
					t.Error(err)
				}
				return
			}
			if !segment.IsCorrupt(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestTheMaxTimestampIsThatOfTheFirstRecordThatHasIt(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			b := build(0, batchSpec{0, []int64{7, 9, 8}, codec}, batchSpec{3, []int64{9, 9}, codec},
				batchSpec{5, []int64{1, 10, 10, 2}, codec})
			tail := newObject(t, b, tailFor(b, 0, 9)).Tail
			if tail.MaxTimestamp != 10 || tail.MaxTimestampOffset != 6 || tail.MinTimestamp != 1 {
				t.Errorf("max %d at %d, min %d", tail.MaxTimestamp, tail.MaxTimestampOffset, tail.MinTimestamp)
			}
		})
	}
	t.Run("the records make no sense, which the broker was told not to check", func(t *testing.T) {
		options := record.PlainProducer()
		builder := record.NewBuilder(options)
		builder.Append(5, nil, []byte("x"))
		builder.Append(6, nil, []byte("y"))
		batch := builder.Build()
		batch[record.HeaderSize] = 0xff
		binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
		b := built{data: batch}
		tail := newObject(t, b, tailFor(b, 0, 2)).Tail
		if tail.MaxTimestamp != 6 || tail.MaxTimestampOffset != 1 {
			t.Errorf("max %d at %d", tail.MaxTimestamp, tail.MaxTimestampOffset)
		}
	})
	t.Run("no record has a timestamp", func(t *testing.T) {
		b := build(0, batchSpec{0, []int64{-1, -1}, record.None})
		tail := newObject(t, b, tailFor(b, 0, 2)).Tail
		if tail.MaxTimestamp != -1 || tail.MaxTimestampOffset != -1 || tail.MinTimestamp != -1 {
			t.Errorf("max %d at %d, min %d", tail.MaxTimestamp, tail.MaxTimestampOffset, tail.MinTimestamp)
		}
	})
}

func TestAnObjectReadsTheSameInWhateverPieces(t *testing.T) {
	b := threeBatches()
	object := newObject(t, b, tailFor(b, 100, 110))
	whole := bytesOf(t, object)
	rapid.Check(t, func(t *rapid.T) {
		position := rapid.IntRange(0, len(whole)+5).Draw(t, "position")
		p := make([]byte, rapid.IntRange(0, len(whole)+5).Draw(t, "length"))
		n, err := object.ReadAt(p, int64(position))
		want := whole[min(position, len(whole)):min(position+len(p), len(whole))]
		if !bytes.Equal(p[:n], want) || (n < len(p)) != (err == io.EOF) {
			t.Fatalf("read %d bytes, %v; want %d", n, err, len(want))
		}
	})
}

func TestDataThatShrinksUnderAnObjectIsAnError(t *testing.T) {
	b := threeBatches()
	source := &shrinking{data: b.data}
	object, err := segment.New(t.Context(), source, tailFor(b, 100, 110))
	if err != nil {
		t.Fatal(err)
	}
	source.data = b.data[:100]
	if n, err := object.ReadAt(make([]byte, object.Size()), 0); n != 100 || err != io.ErrUnexpectedEOF {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

type shrinking struct{ data []byte }

func (s *shrinking) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(s.data).ReadAt(p, off)
}

func TestATailIsReadWithOneRequestIfItsSizeIsKnownElseWithTwoAtMost(t *testing.T) {
	b := threeBatches()
	for _, snapshotBytes := range []int{10, 1 << 20} {
		tail := tailFor(b, 100, 110)
		tail.ProducerSnapshot = bytes.Repeat([]byte{1}, snapshotBytes)
		object := newObject(t, b, tail)
		entry, key := object.Tail.Entry(), object.Tail.Key().String()
		bucket := &countingBucket{Bucket: objectstore.NewMemory()}
		if err := bucket.Put(t.Context(), key, object, object.Size(), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, tailBytes := range []int32{entry.TailBytes, 0} {
			bucket.gets = 0
			got, err := segment.ReadTail(t.Context(), bucket, key, entry.ObjectBytes, tailBytes)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.AppendTo(nil), object.Tail.AppendTo(nil)) {
				t.Error("the tail that was read is not the one that was put")
			}
			wantGets := 1
			if tailBytes == 0 && snapshotBytes > 10 {
				wantGets = 2
			}
			if bucket.gets != wantGets {
				t.Errorf("%d requests for a tail of %d bytes, %d known", bucket.gets, entry.TailBytes, tailBytes)
			}
		}
	}
}

func TestATailThatIsNotWhatTheManifestSaysIsRefused(t *testing.T) {
	b := threeBatches()
	object := newObject(t, b, tailFor(b, 100, 110))
	entry, key := object.Tail.Entry(), object.Tail.Key().String()
	bucket := objectstore.NewMemory()
	other := object.Tail.Key()
	other.UploadID = id(0x70)
	for _, name := range []string{key, other.String()} {
		if err := bucket.Put(t.Context(), name, object, object.Size(), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]struct {
		key         string
		objectBytes int64
		tailBytes   int32
	}{
		"another upload's object":    {other.String(), entry.ObjectBytes, entry.TailBytes},
		"a tail too small":           {key, entry.ObjectBytes, entry.TailBytes - 1},
		"a tail too large":           {key, entry.ObjectBytes, entry.TailBytes + 1},
		"a tail less than a trailer": {key, entry.ObjectBytes, 5},
		"a tail of a negative size":  {key, entry.ObjectBytes, -5},
		"an object too small":        {key, entry.ObjectBytes - 3, 0},
		"an object of no size":       {key, 0, 0},
	} {
		_, err := segment.ReadTail(t.Context(), bucket, read.key, read.objectBytes, read.tailBytes)
		if !segment.IsCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := segment.ReadTail(t.Context(), bucket, key+"x", entry.ObjectBytes, entry.TailBytes)
	if !errors.Is(err, objectstore.ErrNotFound) || segment.IsCorrupt(err) {
		t.Errorf("a missing object: %v", err)
	}
}

func TestChunksAreVerifiedWhereverTheyWereRead(t *testing.T) {
	var specs []batchSpec
	for i := range int64(2500) {
		specs = append(specs, batchSpec{baseOffset: i * 30, timestamps: make([]int64, 30)})
	}
	b := build(0, specs...)
	if len(b.data) < 2*segment.DefaultChunkBytes {
		t.Fatalf("%d bytes are too few chunks for the test", len(b.data))
	}
	tail := newObject(t, b, tailFor(b, 0, 75_000)).Tail
	const chunk = segment.DefaultChunkBytes
	end := int64(len(b.data))
	for _, r := range [][2]int64{{0, chunk}, {0, end}, {chunk, 2 * chunk}, {2 * chunk, end}, {chunk, end}} {
		if err := tail.VerifyChunks(r[0], b.data[r[0]:r[1]]); err != nil {
			t.Errorf("[%d, %d): %v", r[0], r[1], err)
		}
	}
	for _, r := range [][2]int64{{0, chunk - 1}, {1, chunk}, {chunk, end - 1}} {
		if err := tail.VerifyChunks(r[0], b.data[r[0]:r[1]]); err == nil || segment.IsCorrupt(err) {
			t.Errorf("[%d, %d): %v", r[0], r[1], err)
		}
	}
	b.data[chunk+17]++
	var damage *segment.CorruptError
	if err := tail.VerifyChunks(0, b.data); !errors.As(err, &damage) || damage.Position != chunk {
		t.Errorf("a damaged second chunk: %v", err)
	}
}

func TestVerifyStopsWhenTheContextEnds(t *testing.T) {
	b := threeBatches()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := segment.New(ctx, bytes.NewReader(b.data), tailFor(b, 100, 110)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

type countingBucket struct {
	objectstore.Bucket
	gets int
}

func (c *countingBucket) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	c.gets++
	return c.Bucket.Get(ctx, key, offset, dst)
}
