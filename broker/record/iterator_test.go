package record

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOneIteratorWalksOverBatchesOfAnyCodec(t *testing.T) {
	var it Iterator
	for round := range 2 {
		for _, codec := range allCodecs {
			batch := build(t, withCodec(codec), func(opts *BuilderOptions) { opts.BaseOffset = 100 })
			if err := it.Reset(batch); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for it.Next() {
				lines = append(lines, describe(it.Offset(), it.Timestamp(), it.Record()))
			}
			if diff := cmp.Diff(javaFew(100), lines); diff != "" || it.Err() != nil {
				t.Errorf("%s, round %d: %v (-want +got):\n%s", codec, round, it.Err(), diff)
			}
			if it.Next() {
				t.Errorf("%s: a record follows the last one", codec)
			}
		}
	}
}

func TestRecordsOfAPlainBatchAliasIt(t *testing.T) {
	batch := build(t)
	var it Iterator
	if err := it.Reset(batch); err != nil || !it.Next() {
		t.Fatal(err)
	}
	key := it.Record().Key
	copy(batch[bytes.Index(batch, []byte("key")):], "KEY")
	if string(key) != "KEY" || cap(key) != len(key) {
		t.Errorf("key is %q, capacity %d", key, cap(key))
	}
}

func TestUnderLogAppendTimeAllRecordsHaveTheBatchsTime(t *testing.T) {
	batch := build(t, func(opts *BuilderOptions) { opts.TimestampType = LogAppendTime })
	var it Iterator
	if err := it.Reset(batch); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		if it.Timestamp() != 3000 {
			t.Errorf("offset %d has %d", it.Offset(), it.Timestamp())
		}
	}
}

func TestGapsThatCompactionLeavesAreNoError(t *testing.T) {
	batch := Batch(readGolden(t, "compacted"))
	want := []string{
		`offset 72623859790382858 at 1000: "kept" = null`,
		`offset 72623859790382926 at 1001: "kept too" = "v"`,
	}
	if diff := cmp.Diff(want, describeAll(t, batch)); diff != "" {
		t.Error(diff)
	}
	if batch.NextOffset() != batch.BaseOffset()+71 {
		t.Errorf("next offset is %d", batch.NextOffset())
	}
	empty := assemble(t, None, 0, nil)
	put32(empty[atLastOffsetDelta:], 9)
	if lines := describeAll(t, empty); lines != nil || empty.NextOffset() != 10 {
		t.Errorf("an empty batch up to %d has %q", empty.NextOffset(), lines)
	}
}

func TestTheIteratorStopsAtWhatCannotBe(t *testing.T) {
	for name, encoded := range malformedRecords() {
		for _, codec := range allCodecs {
			var it Iterator
			batch := assemble(t, codec, 2, encoded)
			if name == "PD-05: offset deltas from 1" || name == "PD-05: offset deltas with a gap" {
				// What compaction may leave, as long as the batch's range says so.
				put32(batch[atLastOffsetDelta:], 2)
				if lines := describeAll(t, batch); len(lines) != 2 {
					t.Errorf("%s in %s: %q", name, codec, lines)
				}
				put32(batch[atLastOffsetDelta:], 1)
			}
			if err := it.Reset(batch); err != nil {
				t.Errorf("%s in %s: %v", name, codec, err)
			}
			records := 0
			for it.Next() {
				records++
			}
			var corrupt *CorruptError
			if !errors.As(it.Err(), &corrupt) || records > 2 {
				t.Errorf("%s in %s: %d records, %v", name, codec, records, it.Err())
			}
		}
	}
}

func TestAnIteratorHoldsNoMoreThanItMay(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		batch := bomb(t, codec, 1<<20)
		it := Iterator{MaxDecompressed: 1 << 20}
		var corrupt *CorruptError
		if err := it.Reset(batch); !errors.As(err, &corrupt) || it.Next() || it.Err() != err {
			t.Errorf("%s: %v", codec, err)
		}
		it.MaxDecompressed = 2 << 20
		if err := it.Reset(batch); err != nil || !it.Next() || len(it.Record().Value) != 1<<20 {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

// modelRecord is a record as the property test thinks of it.
type modelRecord struct {
	timestamp  int64
	key, value []byte
	headers    []Header
}

func drawRecord(t *rapid.T) modelRecord {
	field := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		// Not random to the last byte, so that it compresses, and sometimes larger than a piece of a decompressor.
		block := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "block")
		return append([]byte{}, bytes.Repeat(block, rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 1, 2500}).Draw(t, "times"))...)
	})
	headers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Header {
		return Header{Key: rapid.StringN(0, 10, 20).Draw(t, "header"), Value: field.Draw(t, "value")}
	}), 0, 3)
	return modelRecord{
		timestamp: rapid.Int64().Draw(t, "timestamp"),
		key:       field.Draw(t, "key"), value: field.Draw(t, "value"), headers: headers.Draw(t, "headers"),
	}
}

func TestWhatIsBuiltIsReadAndAcceptedWhateverItIs(t *testing.T) {
	var it Iterator
	validator := NewValidator()
	rapid.Check(t, func(t *rapid.T) {
		opts := PlainProducer()
		opts.Codec = rapid.SampledFrom(allCodecs).Draw(t, "codec")
		model := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 8).Draw(t, "records")
		builder := NewBuilder(opts)
		for _, r := range model {
			builder.Append(r.timestamp, r.key, r.value, r.headers...)
		}
		batch, summary, err := validator.Validate(builder.Build(), AnyOptions())
		if err != nil || int(summary.Count) != len(model) {
			t.Fatalf("%+v, %v", summary, err)
		}
		if err := it.Reset(batch); err != nil {
			t.Fatal(err)
		}
		maxTimestamp := NoTimestamp
		for i, want := range model {
			if !it.Next() {
				t.Fatalf("record %d: %v", i, it.Err())
			}
			maxTimestamp = max(maxTimestamp, want.timestamp)
			if got := asModel(&it); !same(got, want) || it.Offset() != int64(i) {
				t.Fatalf("record %d is %+v instead of %+v", i, got, want)
			}
		}
		if it.Next() || it.Err() != nil || batch.MaxTimestamp() != maxTimestamp {
			t.Fatalf("%v, max timestamp %d instead of %d", it.Err(), batch.MaxTimestamp(), maxTimestamp)
		}
	})
}

func asModel(it *Iterator) modelRecord {
	got := modelRecord{timestamp: it.Timestamp(), key: it.Record().Key, value: it.Record().Value}
	for key, value := range it.Record().Headers() {
		got.headers = append(got.headers, Header{Key: string(key), Value: value})
	}
	return got
}

// same tells null from empty, as fmt does.
func same(a, b modelRecord) bool {
	if len(a.headers) == 0 && len(b.headers) == 0 {
		a.headers, b.headers = nil, nil
	}
	return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
}
