package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// drawn is a history of a few partitions with objects of all sizes.
func drawn(t testing.TB, seed uint64) *history {
	h := newHistory(t, seed, 1+int(seed%3))
	for i := range h.snapshot.Partitions {
		for range 2 + h.random.IntN(4) {
			switch h.random.IntN(3) {
			case 0:
				h.addRandom(int32(i), 1+h.random.IntN(100*kib), 3*kib)
			case 1:
				h.addRandom(int32(i), mib+h.random.IntN(5*mib/2), 60*kib)
			case 2:
				h.addRandom(int32(i), mib+h.random.IntN(5*mib/2), 3*mib) // batches larger than a split
			}
		}
		p := &h.snapshot.Partitions[i]
		if h.random.IntN(2) == 0 {
			h.seal(int32(i), 1+h.random.IntN(len(p.Items)))
		}
		if h.random.IntN(2) == 0 {
			p.Start = h.random.Int64N(p.End)
		}
	}
	return h
}

func (h *history) drawOptions() Options {
	return Options{
		Bucket: h.bucket, Snapshot: h.snapshot, Concurrency: 1 + h.random.IntN(8),
		SplitBytes: []int64{1, mib, 2 * mib, 0}[h.random.IntN(4)], ReadCommitted: h.random.IntN(2) == 0,
		ControlBatches: h.random.IntN(2) == 0,
	}
}

func (h *history) drawRanges() []Range {
	ranges := h.snapshot.Ranges()
	if h.random.IntN(2) == 0 {
		for i := range ranges {
			end := ranges[i].To
			ranges[i].From = h.random.Int64N(end)
			ranges[i].To = ranges[i].From + h.random.Int64N(end+10-ranges[i].From) // may be past the end
		}
	}
	return ranges
}

// Whatever there is, however it is cut, whatever part is wanted: it comes out once, and in order.
func TestReadsDeliverWhatThereIs(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := drawn(t, seed)
			options, ranges := h.drawOptions(), h.drawRanges()
			want := h.want(ranges, options)
			reader := NewReader(options)
			got, err := collect(t.Context(), reader, ranges)
			must(t, err)
			if !slices.Equal(got.records, want) {
				t.Fatalf("%d records instead of %d", len(got.records), len(want))
			}
			for _, wanted := range ranges {
				p := h.snapshot.Partitions[wanted.Partition]
				if to := min(wanted.To, p.End); max(wanted.From, p.Start) < to && got.next[wanted.Partition] != to {
					t.Errorf("partition %d ends at offset %d instead of %d", wanted.Partition, got.next[wanted.Partition], to)
				}
			}
			checkSplits(t, reader, ranges, got)
		})
	}
}

// checkSplits reads split by split, as somebody does to whom they were sent.
func checkSplits(t *testing.T, reader *Reader, ranges []Range, want collected) {
	t.Helper()
	var records []known
	var before Split
	count := 0
	for split, err := range reader.Splits(t.Context(), ranges) {
		must(t, err)
		if split.Key == before.Key && split.Position != before.Position+before.Size {
			t.Errorf("a split at %d follows one that ends at %d", split.Position, before.Position+before.Size)
		}
		before, count = split, count+1
		sent := Split{Partition: split.Partition, Entry: split.Entry, Key: split.Key, Position: split.Position,
			Size: split.Size, From: split.From, To: split.To}
		chunk, err := reader.ReadSplit(t.Context(), sent)
		must(t, err)
		found, err := decode(chunk)
		must(t, err)
		records = append(records, found...)
	}
	if !slices.Equal(records, want.records) || count != len(want.splits) {
		t.Errorf("%d records in %d splits instead of %d in %d", len(records), count, len(want.records), len(want.splits))
	}
}

// A bit that is wrong in the bucket, anywhere, is found, or nobody has looked at it. What comes before it is delivered.
func TestDamageIsFound(t *testing.T) {
	found := 0
	for seed := range uint64(10) {
		h := newHistory(t, seed, 1)
		h.addRandom(0, 30*kib, 3*kib)
		h.addRandom(0, 3*mib, []int{20 * kib, 50 * kib, 2 * mib}[seed%3])
		h.addRandom(0, 2*mib, 50*kib)
		options := Options{Bucket: h.bucket, Snapshot: h.snapshot, Concurrency: 3, SplitBytes: mib, ControlBatches: true}
		items := h.snapshot.Partitions[0].Items
		at := h.random.IntN(len(items))
		reader := NewReader(options)
		position := h.random.Int64N(items[at].Summary().ObjectBytes)
		if splits := slices.Collect(splitsOf(t, reader, h.snapshot.Ranges())); seed%2 == 0 { // where two splits meet
			split := splits[h.random.IntN(len(splits))]
			at = slices.IndexFunc(items, func(item command.Item) bool {
				return item.Summary().BaseOffset == split.Entry.BaseOffset
			})
			position = max(split.Position+split.Size-1-h.random.Int64N(4*kib), 0)
		}
		key := h.key(at)
		h.flip(key, position)
		got, err := collect(t.Context(), reader, h.snapshot.Ranges())
		var damaged *DamagedError
		want := h.want(h.snapshot.Ranges(), options)
		if !errors.As(err, &damaged) || damaged.Key != key {
			t.Fatalf("seed %d: a bit at %d of object %d: error %v", seed, position, at, err)
		}
		found++
		want = slices.DeleteFunc(want, func(one known) bool { return one.offset >= damaged.Next })
		if !slices.Equal(got.records, want) || damaged.Next < items[at].Summary().BaseOffset {
			t.Errorf("seed %d: %d records instead of %d, then %v", seed, len(got.records), len(want), err)
		}
	}
	if found < 10 {
		t.Errorf("only %d were found", found)
	}
}

func splitsOf(t *testing.T, reader *Reader, ranges []Range) func(func(Split) bool) {
	return func(yield func(Split) bool) {
		for split, err := range reader.Splits(t.Context(), ranges) {
			must(t, err)
			if !yield(split) {
				return
			}
		}
	}
}

// key is that of an object of partition 0.
func (h *history) key(index int) string { return h.keyOf(0, index) }

func (h *history) tp(partition int32) kafka.TopicIDPartition {
	return kafka.TopicIDPartition{ID: topicID, Partition: partition}
}

// keyOf is the key of an object that is at the top of the manifest.
func (h *history) keyOf(partition int32, index int) string {
	return segment.KeyOfItem(cluster, h.tp(partition), h.snapshot.Partitions[partition].Items[index]).String()
}

// moveObject gives an object another name, and the snapshot with it.
func (h *history) moveObject(partition int32, index int) {
	h.t.Helper()
	key := h.keyOf(partition, index)
	p := &h.snapshot.Partitions[partition]
	entry := p.Items[index].(command.SegmentEntry)
	data := make([]byte, entry.ObjectBytes)
	_, err := h.bucket.Get(context.Background(), key, 0, data)
	must(h.t, err)
	tail, err := segment.ParseTailOf(key, entry.ObjectBytes, data[entry.DataBytes:])
	must(h.t, err)
	moved := *tail
	moved.UploadID = h.id()
	object, err := segment.New(context.Background(), bytes.NewReader(data[:entry.DataBytes]), moved)
	must(h.t, err)
	must(h.t, h.bucket.Put(context.Background(), object.Tail.Key().String(), object, object.Size(),
		objectstore.PutOptions{}))
	must(h.t, h.bucket.Delete(context.Background(), key))
	p.Items = slices.Clone(p.Items)
	p.Items[index] = object.Tail.Entry()
}

// flip damages an object in the bucket.
func (h *history) flip(key string, position int64) {
	h.t.Helper()
	info, err := h.bucket.Stat(context.Background(), key)
	must(h.t, err)
	data := make([]byte, info.Size)
	_, err = h.bucket.Get(context.Background(), key, 0, data)
	must(h.t, err)
	data[position] ^= 1 << h.random.IntN(8)
	must(h.t, h.bucket.Put(context.Background(), key, bytes.NewReader(data), info.Size, objectstore.PutOptions{}))
}

// What was damaged on the way is read again: nobody notices, wherever it was.
func TestDamageOnTheWayComesRight(t *testing.T) {
	for seed := range uint64(9) {
		h := newHistory(t, seed, 1)
		h.addRandom(0, 3*mib, 40*kib)
		h.addRandom(0, 50*kib, 5*kib)
		var answers atomic.Int64
		wrong := h.random.Int64N(5) // which of the answers; the end of one is where it meets the next
		bucket := &watched{Getter: h.bucket, spoil: func(_ string, _ int64, data []byte) {
			if answers.Add(1) == wrong+1 {
				near := min([]int{1, 2000, len(data)}[seed%3], len(data)) // to the end
				data[len(data)-1-rand.New(rand.NewPCG(seed, 1)).IntN(near)] ^= 1
			}
		}}
		options := Options{Bucket: bucket, Snapshot: h.snapshot, Concurrency: 2, SplitBytes: mib}
		got, err := collect(t.Context(), NewReader(options), h.snapshot.Ranges())
		must(t, err)
		if want := h.want(h.snapshot.Ranges(), options); !slices.Equal(got.records, want) {
			t.Errorf("seed %d: %d records instead of %d", seed, len(got.records), len(want))
		}
		if answers.Load() <= 5 {
			t.Errorf("seed %d: %d answers: nothing was read again", seed, answers.Load())
		}
	}
}

// A small object takes one request; a large one takes one for its tail and one a split, which overlap by little.
func TestRequests(t *testing.T) {
	h := newHistory(t, 1, 1)
	for range 5 {
		h.addRandom(0, 200*kib, 10*kib)
	}
	bucket := &watched{Getter: h.bucket}
	read := func(options Options) {
		t.Helper()
		options.Bucket, options.Snapshot = bucket, h.snapshot
		_, err := collect(t.Context(), NewReader(options), h.snapshot.Ranges())
		must(t, err)
	}
	read(Options{})
	if bucket.data != 5 || bucket.tails != 0 {
		t.Errorf("small objects: %d requests for data, %d for tails", bucket.data, bucket.tails)
	}
	h = newHistory(t, 2, 1)
	h.addRandom(0, 10*mib, 50*kib)
	bucket = &watched{Getter: h.bucket}
	read(Options{SplitBytes: 2 * mib})
	size := h.snapshot.Partitions[0].Items[0].Summary().ObjectBytes
	if bucket.data != 6 || bucket.tails != 1 || bucket.bytes > size+size/50 {
		t.Errorf("a large object of %d bytes: %d requests for data, %d for its end, %d bytes", size, bucket.data,
			bucket.tails, bucket.bytes)
	}
}

// Memory is bounded, however slow whoever takes the records is.
func TestThereAreOnlySoManySplitsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t, 1, 2)
		for i := range 40 {
			h.addRandom(int32(i%2), 4*kib, kib)
		}
		bucket := &watched{Getter: h.bucket, delay: func() time.Duration { return time.Second }}
		const concurrency = 4
		var decoded, decoding, visited, most atomic.Int64
		reader := NewReader(Options{Bucket: bucket, Snapshot: h.snapshot, Concurrency: concurrency})
		err := Read(t.Context(), reader, h.snapshot.Ranges(),
			func(chunk *Chunk) ([]known, error) {
				most.Store(max(most.Load(), decoding.Add(1)))
				time.Sleep(time.Millisecond)
				decoding.Add(-1)
				decoded.Add(1)
				return decode(chunk)
			}, func(Delivered, []known) error {
				if visited.Add(1) == 3 {
					time.Sleep(time.Minute)
					synctest.Wait()
					if ahead := decoded.Load() - 2; ahead != 2*concurrency {
						t.Errorf("%d splits are decoded while one is visited", ahead)
					}
				}
				return nil
			})
		must(t, err)
		if bucket.most != concurrency || most.Load() > concurrency || visited.Load() != 40 {
			t.Errorf("%d requests and %d decoders at a time, %d splits", bucket.most, most.Load(), visited.Load())
		}
	})
}

// One partition is as fast as many, and slow answers hold up nobody but themselves.
func TestOnePartitionIsReadAsFastAsMany(t *testing.T) {
	took := func(partitions int) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(t, 1, partitions)
			for i := range 64 {
				h.addRandom(int32(i%partitions), 8*kib, kib)
			}
			bucket := &watched{Getter: h.bucket, delay: func() time.Duration { return 100 * time.Millisecond }}
			options := Options{Bucket: bucket, Snapshot: h.snapshot}
			began := time.Now()
			got, err := collect(t.Context(), NewReader(options), h.snapshot.Ranges())
			must(t, err)
			if !slices.Equal(got.records, h.want(h.snapshot.Ranges(), options)) {
				t.Error("not all is there")
			}
			took = time.Since(began)
		})
		return took
	}
	if one, many := took(1), took(16); one > many+100*time.Millisecond || one > 900*time.Millisecond {
		t.Errorf("one partition takes %v, sixteen take %v", one, many)
	}
}

func TestAnErrorOfWhoeverTakesEndsTheRead(t *testing.T) {
	h := drawn(t, 5)
	failure := errors.New("the disk is full")
	for _, options := range []Options{{Concurrency: 1}, {Concurrency: 8, SplitBytes: mib}} {
		options.Bucket, options.Snapshot = h.bucket, h.snapshot
		reader := NewReader(options)
		err := Read(t.Context(), reader, h.snapshot.Ranges(), decode,
			func(Delivered, []known) error { return failure })
		if !errors.Is(err, failure) {
			t.Errorf("error %v", err)
		}
		second := slices.Collect(splitsOf(t, reader, h.snapshot.Ranges()))[1]
		visited := 0
		err = Read(t.Context(), reader, h.snapshot.Ranges(), func(chunk *Chunk) (int, error) {
			if chunk.Split.Key == second.Key && chunk.Split.Position == second.Position {
				return 0, failure
			}
			return 0, nil
		}, func(Delivered, int) error { visited++; return nil })
		if !errors.Is(err, failure) || visited != 1 {
			t.Errorf("error %v after %d splits", err, visited)
		}
		ctx, stop := context.WithCancel(t.Context())
		err = Read(ctx, reader, h.snapshot.Ranges(), decode, func(Delivered, []known) error { stop(); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v after the end of its context", err)
		}
		stop()
	}
}

// Who waits for a store that does not answer can be stopped.
func TestAReadThatWaitsCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := drawn(t, 7)
		faulty := objectstore.NewFaulty(h.bucket, nil, objectstore.Rule{
			When: objectstore.On(objectstore.OpGet), Then: objectstore.Stall(),
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err := collect(ctx, NewReader(Options{Bucket: faulty, Snapshot: h.snapshot}), h.snapshot.Ranges())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// An object that is gone is told, with the offset to go on from: with what has taken its place, nothing is lost and
// nothing comes twice.
func TestAReadGoesOnAfterAnObjectIsGone(t *testing.T) {
	for seed := range uint64(5) {
		h := newHistory(t, seed, 2)
		for i := range 6 {
			h.addRandom(int32(i%2), 1+h.random.IntN(3*mib), 20*kib)
		}
		earlier := *h.snapshot
		earlier.Partitions = slices.Clone(h.snapshot.Partitions)
		partition := int32(seed % 2)
		lost := h.random.IntN(3)
		gone := h.keyOf(partition, lost)
		h.moveObject(partition, lost) // what a rewrite does, to an object of another name
		options := Options{Bucket: h.bucket, Snapshot: &earlier, SplitBytes: mib}
		first, err := collect(t.Context(), NewReader(options), h.snapshot.Ranges())
		var missing *GoneError
		if !errors.As(err, &missing) || missing.Key != gone || missing.Partition != partition ||
			!errors.Is(err, objectstore.ErrNotFound) {
			t.Fatalf("seed %d: error %v, gone is %s", seed, err, gone)
		}
		if known, found := first.next[partition]; found && known != missing.Next || !found && missing.Next != 0 {
			t.Errorf("seed %d: %d was delivered, the error says %d", seed, known, missing.Next)
		}
		ranges, skipped := h.snapshot.RangesFrom(first.next)
		options.Snapshot = h.snapshot
		second, err := collect(t.Context(), NewReader(options), ranges)
		must(t, err)
		want := h.want(h.snapshot.Ranges(), options)
		if got := append(first.records, second.records...); !slices.Equal(sorted(got), sorted(want)) || len(skipped) > 0 {
			t.Errorf("seed %d: %d records instead of %d, skipped %v", seed, len(got), len(want), skipped)
		}
	}
}

func sorted(records []known) []known {
	slices.SortStableFunc(records, func(a, b known) int {
		return int(a.partition-b.partition)<<32 + int(a.offset-b.offset)
	})
	return records
}

func TestASealedPartThatIsGoneIsToldToo(t *testing.T) {
	h := newHistory(t, 1, 1)
	for range 6 {
		h.addRandom(0, 20*kib, 5*kib)
	}
	h.seal(0, 2)
	first := h.snapshot.Partitions[0].Items[0].Summary()
	reference := h.snapshot.Partitions[0].Items[0].(command.Reference)
	reader := NewReader(Options{Bucket: h.bucket, Snapshot: h.snapshot})
	tree, err := reader.manifests.Get(t.Context(), h.tp(0))
	must(t, err)
	key := tree.Key(reference).String()
	must(t, h.bucket.Delete(t.Context(), key))
	_, err = collect(t.Context(), reader, []Range{{From: first.EndOffset, To: 1 << 40}})
	must(t, err)
	got, err := collect(t.Context(), reader, []Range{{From: 1, To: first.EndOffset + 1}})
	var missing *GoneError
	if !errors.As(err, &missing) || missing.Key != key || missing.Next != 1 || len(got.records) > 0 {
		t.Errorf("error %v", err)
	}
}

func TestRangesToGoOnFrom(t *testing.T) {
	snapshot := &Snapshot{Partitions: []Partition{
		{Partition: 0, Start: 10, End: 20}, {Partition: 1, Start: 0, End: 0}, {Partition: 2, Start: 5, End: 9},
		{Partition: 4, Start: 30, End: 40},
	}}
	if diff := cmp.Diff([]Range{{0, 10, 20}, {2, 5, 9}, {4, 30, 40}}, snapshot.Ranges()); diff != "" {
		t.Error(diff)
	}
	ranges, skipped := snapshot.RangesFrom(map[int32]int64{0: 12, 2: 9, 4: 25, 7: 1})
	if diff := cmp.Diff([]Range{{0, 12, 20}, {4, 30, 40}}, ranges); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Range{{4, 25, 30}}, skipped); diff != "" {
		t.Error(diff)
	}
}

// A manifest that leaves something out is no reason to leave it out silently.
func TestAGapInTheManifestIsAnError(t *testing.T) {
	h := newHistory(t, 1, 1)
	for range 3 {
		h.addRandom(0, 20*kib, 5*kib)
	}
	p := &h.snapshot.Partitions[0]
	p.End += 5
	got, err := collect(t.Context(), NewReader(Options{Bucket: h.bucket, Snapshot: h.snapshot}), h.snapshot.Ranges())
	if err == nil || len(got.records) == 0 {
		t.Errorf("error %v after %d records", err, len(got.records))
	}
	p.Items = p.Items[1:]
	got, err = collect(t.Context(), NewReader(Options{Bucket: h.bucket, Snapshot: h.snapshot}), h.snapshot.Ranges())
	if err == nil || len(got.records) > 0 {
		t.Errorf("error %v after %d records", err, len(got.records))
	}
}
