package record

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// mixed has a value, a tombstone and a value, with a gap of offsets.
func mixed(codec Codec) Batch {
	options := goldenFields()
	options.Codec = codec
	builder := NewBuilder(options)
	builder.AppendAt(0, 1000, []byte("a"), []byte("1"), Header{Key: "h", Value: []byte("x")})
	builder.AppendAt(1, 3000, []byte("b"), nil)
	builder.AppendAt(70, 2000, []byte("c"), []byte("3"))
	return builder.Build()
}

// keepIf chooses one record after the other.
type keepIf struct {
	keep    func(*Record) bool
	verdict [ChooserRecords]bool
}

func (k *keepIf) See(at int, r *Record) { k.verdict[at] = k.keep(r) }

func (k *keepIf) Choose(keep []bool) { copy(keep, k.verdict[:]) }

func keepKeys(keys string) Chooser {
	return &keepIf{keep: func(r *Record) bool { return bytes.Contains([]byte(keys), r.Key) }}
}

func TestFilteredBatchesAreWhatTheGoldenFilesHold(t *testing.T) {
	var filter Filter
	for name, opts := range map[string]FilterOptions{
		"filter-some":    {Choose: keepKeys("ac"), DeleteHorizon: 9000},
		"filter-horizon": {Choose: keepKeys("bc"), DeleteHorizon: 9000},
		"filter-empty":   {RetainEmpty: true, DeleteHorizon: 9000},
	} {
		out, _, err := filter.Append(nil, mixed(None), opts)
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, name, out)
	}
}

func TestRecordsThatAreKeptAreWhatTheyWere(t *testing.T) {
	var filter Filter
	for _, codec := range allCodecs {
		b := mixed(codec)
		all := describeAll(t, b)
		for mask := range 8 {
			index, want := -1, []string(nil)
			for i, line := range all {
				if mask>>i&1 != 0 {
					want = append(want, line)
				}
			}
			keep := &keepIf{keep: func(*Record) bool { index++; return mask>>index&1 != 0 }}
			prefix := []byte("before")
			out, filtered, err := filter.Append(prefix, b, FilterOptions{Choose: keep, RetainEmpty: true, DeleteHorizon: 9000})
			if err != nil || !bytes.HasPrefix(out, prefix) || int(filtered.Records) != len(want) {
				t.Fatalf("%s, %b: %+v, %v", codec, mask, filtered, err)
			}
			got := Batch(out[len(prefix):])
			if err := got.VerifyCRC(); err != nil || got.Size() != len(got) {
				t.Fatalf("%s, %b: %s, %v", codec, mask, got, err)
			}
			if lines := describeAll(t, got); !slices.Equal(lines, want) {
				t.Errorf("%s, %b: %q instead of %q", codec, mask, lines, want)
			}
			if got.BaseOffset() != b.BaseOffset() || got.LastOffset() != b.LastOffset() ||
				got.LastSequence() != b.LastSequence() || got.HasDeleteHorizon() != (mask&2 != 0) {
				t.Errorf("%s, %b: %s became %s", codec, mask, b, got)
			}
		}
	}
}

func TestABatchOfWhichAllIsKeptIsCopied(t *testing.T) {
	var filter Filter
	for _, codec := range allCodecs {
		horizon, _, err := filter.Append(nil, mixed(codec), FilterOptions{Choose: keepKeys("abc"), DeleteHorizon: 9000})
		if err != nil || Batch(horizon).BaseTimestamp() != 9000 {
			t.Fatal(err)
		}
		again, filtered, err := filter.Append(nil, horizon, FilterOptions{Choose: keepKeys("abc"), DeleteHorizon: 10_000})
		if err != nil || !filtered.Unchanged || !bytes.Equal(again, horizon) {
			t.Errorf("%s: %+v, %v", codec, filtered, err)
		}
	}
	gone, filtered, err := filter.Append(nil, mixed(None), FilterOptions{})
	if len(gone) != 0 || filtered != (Filtered{}) || err != nil {
		t.Errorf("%x, %+v, %v instead of nothing", gone, filtered, err)
	}
}

// A batch of more records than are decided about at once, and one of just as many.
func TestBatchesOfManyRecordsAreChosenFrom(t *testing.T) {
	var filter Filter
	for _, count := range []int{ChooserRecords - 1, ChooserRecords, ChooserRecords + 1, 3*ChooserRecords + 7} {
		builder := NewBuilder(PlainProducer())
		for i := range count {
			builder.Append(int64(1000+i), fmt.Appendf(nil, "%d", i), []byte("value"))
		}
		b := builder.Build()
		all := describeAll(t, b)
		var want []string
		for i := 0; i < len(all); i += 3 {
			want = append(want, all[i])
		}
		third := &keepIf{keep: func(r *Record) bool { return r.OffsetDelta%3 == 0 }}
		out, filtered, err := filter.Append(nil, b, FilterOptions{Choose: third})
		if err != nil || int(filtered.Records) != len(want) {
			t.Fatalf("%d records: %+v, %v", count, filtered, err)
		}
		if got := describeAll(t, out); !slices.Equal(got, want) {
			t.Errorf("%d records: %d are left instead of %d", count, len(got), len(want))
		}
		last := int64(1000 + (count-1)/3*3)
		if got := Batch(out).MaxTimestamp(); got != last {
			t.Errorf("%d records: the largest timestamp is %d instead of %d", count, got, last)
		}
		whole, filtered, err := filter.Append(nil, b, FilterOptions{Choose: All{}})
		if err != nil || !filtered.Unchanged || !bytes.Equal(whole, b) {
			t.Errorf("%d records, all kept: %+v, %v", count, filtered, err)
		}
	}
}

// A topic's level is used where a batch is written anew.
func TestFilteredBatchesAreCompressedAtTheLevelAskedFor(t *testing.T) {
	options := PlainProducer()
	options.Codec = Gzip
	builder := NewBuilder(options)
	for i := range 400 {
		builder.Append(1000, fmt.Appendf(nil, "key %d", i*i), fmt.Appendf(nil, "a value that repeats itself %d", i))
	}
	b := builder.Build()
	size := map[int]int{}
	for _, level := range []int{1, 9} {
		var filter Filter
		keep := &keepIf{keep: func(r *Record) bool { return r.OffsetDelta > 0 }}
		out, _, err := filter.Append(nil, b, FilterOptions{Choose: keep, Level: level})
		if err != nil {
			t.Fatal(err)
		}
		size[level] = len(out)
	}
	if size[9] >= size[1] {
		t.Errorf("%d bytes at level 9, %d at level 1", size[9], size[1])
	}
}

func TestADamagedBatchIsNotFiltered(t *testing.T) {
	var filter Filter
	for _, codec := range allCodecs {
		b := mixed(codec)
		b = b[:len(b)-3]
		out, _, err := filter.Append([]byte("x"), b, FilterOptions{Choose: keepKeys("a")})
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || string(out) != "x" {
			t.Errorf("%s: %q, %v", codec, out, err)
		}
	}
}

func TestBatchesAreFilteredWithoutAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var filter Filter
	index := 0
	keep := &keepIf{keep: func(*Record) bool { index++; return index%2 == 0 }}
	for codec, most := range map[Codec]float64{None: 0, LZ4: 1, Zstd: 2} {
		b, out := request(16<<10, codec), make([]byte, 0, 64<<10)
		got := testing.AllocsPerRun(20, func() {
			if _, _, err := filter.Append(out, b, FilterOptions{Choose: keep}); err != nil {
				t.Fatal(err)
			}
		})
		if got > most {
			t.Errorf("%s: %v allocations", codec, got)
		}
	}
}

// FuzzFilter holds what is left of a batch to what was in it, whatever was stored.
func FuzzFilter(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, _, err := Next(data)
		if err != nil {
			return
		}
		it := Iterator{MaxDecompressed: 1 << 20}
		if it.Reset(b) != nil {
			return // more than a test wants to hold
		}
		var want []string
		for it.Next() {
			if it.Offset()%2 == 0 {
				want = append(want, fmt.Sprintf("%d %d %x %x", it.Offset(), it.Record().TimestampDelta+b.BaseTimestamp(),
					it.Record().Key, it.Record().Value))
			}
		}
		var filter Filter
		keep := &keepIf{keep: func(r *Record) bool { return (b.BaseOffset()+int64(r.OffsetDelta))%2 == 0 }}
		out, _, err := filter.Append(nil, b, FilterOptions{Choose: keep, RetainEmpty: true, DeleteHorizon: 5})
		if (err == nil) != (it.Err() == nil) {
			t.Fatalf("%v to filter, %v to read", err, it.Err())
		}
		if err != nil {
			return
		}
		left := Batch(out)
		if it.Reset(left) != nil || left.Size() != len(left) {
			t.Fatalf("%s became %s", b, left)
		}
		for it.Next() {
			if len(want) == 0 || want[0] != fmt.Sprintf("%d %d %x %x", it.Offset(),
				it.Record().TimestampDelta+left.BaseTimestamp(), it.Record().Key, it.Record().Value) {
				t.Fatalf("record %d instead of %v", it.Offset(), want)
			}
			want = want[1:]
		}
		if it.Err() != nil || len(want) > 0 {
			t.Fatalf("%v, and %d records are missing", it.Err(), len(want))
		}
	})
}
