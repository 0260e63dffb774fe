package compaction

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
)

// logOf makes a log of batches with so many records each, all of them in one sealed segment.
func logOf(codec record.Codec, records, keys, batchRecords, valueBytes int) *memLog {
	log := &memLog{steps: -1, settings: Settings{SegmentBytes: 1 << 30, IndexBytes: 1 << 20}}
	sealed := memSegment{}
	options := record.PlainProducer()
	options.Codec = codec
	value := make([]byte, valueBytes)
	var key [16]byte
	for n := 0; n < records; n += batchRecords {
		options.BaseOffset = int64(n)
		b := record.NewBuilder(options)
		for i := range batchRecords {
			binary.BigEndian.PutUint64(key[8:], uint64((n+i)*7919%keys))
			for at := 0; at+8 <= len(value); at += 16 {
				binary.BigEndian.PutUint64(value[at:], uint64(n+i)*0x9e3779b97f4a7c15)
			}
			b.Append(int64(1000+n+i), key[:], value)
		}
		batch := b.Build()
		sealed.batches = append(sealed.batches, batch)
		sealed.Size += int64(len(batch))
	}
	sealed.EndOffset = int64(records)
	log.stable = sealed.EndOffset
	log.segments = []memSegment{sealed, {Segment: Segment{BaseOffset: sealed.EndOffset, EndOffset: sealed.EndOffset}}}
	return log
}

func TestCO04MoreKeysThanMemoryTakeSeveralPasses(t *testing.T) {
	const keys = 1000
	log := logOf(record.None, keys, keys, 10, 20)
	work := newWorkspace(keys/5*slotBytes, 0.9)
	passes := 0
	for log.cleaned < keys {
		before := log.cleaned
		stats, err := clean(t.Context(), log, work, passOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if log.cleaned <= before || stats.EndOffset != log.cleaned || stats.TargetOffset != keys {
			t.Fatalf("cleaned from %d to %d: %+v", before, log.cleaned, stats)
		}
		passes++
	}
	if passes < 5 {
		t.Errorf("%d passes are too few for the memory", passes)
	}
	if log.replaced != 0 {
		t.Error("a segment that stays as it is was written anew")
	}
}

// Records that compress well are more than a small map expects: the pass takes all its memory instead of ending.
func TestASmallMapGrows(t *testing.T) {
	const keys = 1 << 16
	log := logOf(record.Zstd, keys, keys, 1<<14, 0)
	work := newWorkspace(4*keys*slotBytes, 0.9)
	if log.segments[0].Size/minRecordBytes+tailSlots > keys {
		t.Fatal("the records are too large for this test")
	}
	stats, err := clean(t.Context(), log, work, passOptions{})
	if err != nil || stats.EndOffset != keys || stats.MapBytesRead != log.segments[0].Size {
		t.Fatalf("%+v, %v", stats, err)
	}
}

// What the map did not reach is kept as it is: tombstones whose horizon has come, older values of keys, and records
// without a key.
func TestWhatTheMapDidNotReachIsKept(t *testing.T) {
	log := logOf(record.None, 20, 20, 10, 0)
	sealed := &log.segments[0]
	tail := func(horizon bool) record.Batch {
		b := record.NewBuilder(record.PlainProducer())
		b.Append(1, []byte("deleted"), []byte("old"))
		b.Append(1, []byte("deleted"), nil)
		b.Append(1, nil, []byte("without a key"))
		batch := b.Build()
		batch.SetBaseOffset(sealed.EndOffset)
		if !horizon {
			return batch
		}
		var filter record.Filter
		out, _, err := filter.Append(nil, batch, record.FilterOptions{Choose: record.All{}, DeleteHorizon: 5})
		if err != nil || !record.Batch(out).HasDeleteHorizon() {
			t.Fatal("no delete horizon", err)
		}
		return out
	}
	for _, horizon := range []bool{false, true} {
		batch := tail(horizon)
		sealed.batches = append(sealed.batches, batch)
		sealed.Size, sealed.EndOffset = sealed.Size+int64(len(batch)), batch.NextOffset()
	}
	log.stable = sealed.EndOffset
	log.segments[1].BaseOffset, log.segments[1].EndOffset = log.stable, log.stable
	whole := allRecords(t, log)

	work := newWorkspace(15*slotBytes, 1)
	stats, err := clean(t.Context(), log, work, passOptions{Now: 1000})
	if err != nil || stats.EndOffset >= 20 || stats.TargetOffset != 26 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if got := allRecords(t, log); !slices.Equal(got, whole) || len(got) != 26 || stats.WithoutKey != 0 {
		t.Errorf("%q are left of %q, %d had no key", got, whole, stats.WithoutKey)
	}
	for log.cleaned < log.stable {
		if _, err := clean(t.Context(), log, work, passOptions{Now: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	// The last one of the key is the tombstone at 24, whose horizon has come.
	if left := allRecords(t, log); len(left) != 20 {
		t.Errorf("in the end there are %q", left)
	}
}

// allRecords are those of the sealed segments.
func allRecords(t *testing.T, log *memLog) (all []string) {
	t.Helper()
	var records record.Iterator
	for _, b := range log.segments[0].batches {
		if err := records.Reset(b); err != nil {
			t.Fatal(err)
		}
		for records.Next() {
			r := records.Record()
			all = append(all, fmt.Sprintf("%d %x=%x, none: %v", records.Offset(), r.Key, r.Value, r.Value == nil))
		}
	}
	return all
}

// The level of the topic holds for batches of the codec that the broker compresses with, and for no others.
func TestLevelsAreThoseOfTheTopicsCodec(t *testing.T) {
	sizes := map[string]int64{}
	for name, settings := range map[string]Settings{
		"default": {}, "thorough": {Codec: record.LZ4, Level: 17}, "of another codec": {Codec: record.Zstd, Level: 17},
	} {
		log := logOf(record.LZ4, 4000, 3250, 500, 20) // half of a batch goes
		log.settings.Codec, log.settings.Level = settings.Codec, settings.Level
		stats, err := clean(t.Context(), log, newWorkspace(1<<20, 0.9), passOptions{})
		if err != nil || stats.GroupsWritten != 1 {
			t.Fatalf("%+v, %v", stats, err)
		}
		sizes[name] = stats.BytesWritten
	}
	if sizes["thorough"] >= sizes["default"] || sizes["of another codec"] != sizes["default"] {
		t.Errorf("sizes by level: %v", sizes)
	}
}

func TestCO02AbortedDataOfBothHalvesStaysInvisible(t *testing.T) {
	options := record.PlainProducer()
	options.ProducerID, options.Transactional = 7, true
	log := &memLog{steps: -1, settings: Settings{SegmentBytes: 1 << 30, IndexBytes: 1 << 20}}
	sealed := memSegment{}
	add := func(b record.Batch) {
		b.SetBaseOffset(sealed.EndOffset)
		sealed.batches = append(sealed.batches, b)
		sealed.Size += int64(len(b))
		sealed.EndOffset = b.NextOffset()
	}
	plain := func(key string) record.Batch {
		b := record.NewBuilder(record.PlainProducer())
		b.Append(1, []byte(key), []byte("committed"))
		return b.Build()
	}
	aborted := func() record.Batch {
		b := record.NewBuilder(options)
		b.Append(1, []byte("a"), []byte("aborted"))
		return b.Build()
	}
	add(plain("a"))
	add(aborted())
	for i := range 20 {
		add(plain(fmt.Sprint("k", i)))
	}
	add(aborted())
	sealed.aborted = []storage.AbortedTransaction{{ProducerID: 7, FirstOffset: 1, LastOffset: sealed.EndOffset}}
	add(record.NewEndMarker(7, 0, 1, record.EndMarker{Type: record.Abort}))
	add(plain("end"))
	log.stable = sealed.EndOffset
	log.segments = []memSegment{sealed, {Segment: Segment{BaseOffset: log.stable, EndOffset: log.stable}}}

	work := newWorkspace(10*slotBytes, 0.9)
	markers := func() (n int) {
		for _, b := range log.segments[0].batches {
			if record.Batch(b).IsControl() {
				n++
			}
		}
		return n
	}
	for log.cleaned < log.stable {
		first := log.cleaned == 0
		if _, err := clean(t.Context(), log, work, passOptions{Now: 10}); err != nil {
			t.Fatal(err)
		}
		if first && (log.cleaned == log.stable || markers() != 1 || len(log.segments[0].aborted) != 1) {
			t.Fatalf("after the first half, up to %d, there are %d markers, %v", log.cleaned, markers(),
				log.segments[0].aborted)
		}
		if value := firstValue(t, log, "a"); value != "committed" {
			t.Fatalf("key a is %q", value)
		}
	}
	if len(log.segments[0].aborted) != 0 {
		t.Errorf("rows of a transaction without records are left: %v", log.segments[0].aborted)
	}
}

func firstValue(t *testing.T, log *memLog, key string) string {
	var records record.Iterator
	for _, b := range log.segments[0].batches {
		if err := records.Reset(b); err != nil {
			t.Fatal(err)
		}
		for records.Next() {
			if string(records.Record().Key) == key {
				return string(records.Record().Value)
			}
		}
	}
	return ""
}

func TestCO01TheLastOffsetStays(t *testing.T) {
	log := logOf(record.None, 10, 10, 10, 20)
	sealed := &log.segments[0]
	marker := record.NewEndMarker(7, 0, 1, record.EndMarker{Type: record.Commit})
	marker.SetBaseOffset(10)
	sealed.batches, sealed.EndOffset = append(sealed.batches, marker), 11
	log.segments[1].BaseOffset, log.stable = 11, 11
	for now := range int64(4) {
		log.cleaned = 0
		if _, err := clean(t.Context(), log, newWorkspace(1<<16, 0.9), passOptions{Now: now}); err != nil {
			t.Fatal(err)
		}
		batches := log.segments[0].batches
		if last := record.Batch(batches[len(batches)-1]); last.NextOffset() != 11 {
			t.Fatalf("the log ends with %s", last)
		}
	}
	batches := log.segments[0].batches
	if last := record.Batch(batches[len(batches)-1]); last.Count() != 0 || !last.IsControl() {
		t.Fatalf("%s is no empty control batch", last)
	}
}

func TestADamagedBatchEndsThePass(t *testing.T) {
	log := logOf(record.LZ4, 10, 5, 10, 20)
	batch := log.segments[0].batches[0]
	clear(batch[record.HeaderSize:])
	_, err := clean(t.Context(), log, newWorkspace(1<<16, 0.9), passOptions{})
	var corrupt *record.CorruptError
	if !errors.As(err, &corrupt) || log.cleaned != 0 {
		t.Fatalf("%v, cleaned up to %d", err, log.cleaned)
	}
}

func TestAPassIsThrottledAndEnds(t *testing.T) {
	log := logOf(record.None, 100_000, 50_000, 100, 20)
	size := log.segments[0].Size
	work := newWorkspace(4<<20, 0.9)
	sum, last := int64(0), Stats{}
	throttle := func(_ context.Context, bytes int) error { sum += int64(bytes); return nil }
	stats, err := clean(t.Context(), log, work, passOptions{Throttle: throttle, Progress: func(s Stats) { last = s }})
	if err != nil {
		t.Fatal(err)
	}
	if all := 2*size + stats.BytesWritten; sum > all || sum < all-throttleBytes {
		t.Errorf("the throttle saw %d of %d bytes", sum, all)
	}
	if last.GroupsWritten != 1 || stats.RecordsRead != 100_000 || stats.RecordsKept != 50_000 ||
		stats.BytesToRead != stats.MapBytesRead+stats.BytesRead {
		t.Errorf("%+v, then %+v", last, stats)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.cleaned = 0
	if _, err := clean(ctx, log, work, passOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v instead of an end", err)
	}
}

func BenchmarkPass(b *testing.B) {
	for _, codec := range []record.Codec{record.None, record.LZ4, record.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			const records = 1 << 18
			log := logOf(codec, records, records/2, 128, 100)
			before := log.segments[0]
			work := newWorkspace(32<<20, 0.9)
			b.SetBytes(before.Size)
			b.ReportAllocs()
			for b.Loop() {
				log.cleaned, log.segments[0] = 0, before
				if _, err := clean(b.Context(), log, work, passOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
