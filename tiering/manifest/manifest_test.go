package manifest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// modelRecord is a record of the model that look-ups are compared with.
type modelRecord struct{ offset, timestamp int64 }

// drawRun makes a run of segments and the records in it. A segment may have no record at all.
func drawRun(t *rapid.T) (entries []command.SegmentEntry, records map[kafka.UUID][]modelRecord) {
	records = map[kafka.UUID][]modelRecord{}
	offset := rapid.Int64Range(0, 5).Draw(t, "base")
	for i := range int64(rapid.IntRange(0, 14).Draw(t, "segments")) {
		entry := command.SegmentEntry{BaseOffset: offset, MinTimestamp: -1, MaxTimestamp: -1, MaxTimestampOffset: -1,
			UploadID: uploadOf(i), DataBytes: rapid.Int64Range(0, 100).Draw(t, "bytes"), TailBytes: 50}
		entry.ObjectBytes = entry.DataBytes + 50
		for range rapid.IntRange(1, 5).Draw(t, "offsets") {
			if timestamp := rapid.Int64Range(-10, 20).Draw(t, "timestamp"); timestamp >= 0 {
				records[entry.UploadID] = append(records[entry.UploadID], modelRecord{offset, timestamp})
				if entry.MinTimestamp < 0 || timestamp < entry.MinTimestamp {
					entry.MinTimestamp = timestamp
				}
				if timestamp > entry.MaxTimestamp {
					entry.MaxTimestamp, entry.MaxTimestampOffset = timestamp, offset
				}
			}
			offset++
		}
		entry.EndOffset = offset
		entries = append(entries, entry)
	}
	return entries, records
}

// drawTree makes a run whose oldest segments are sealed in leaves and those in nodes, and a tree that caches little.
func drawTree(t *rapid.T) (*manifest.Tree, []command.SegmentEntry, map[kafka.UUID][]modelRecord) {
	entries, records := drawRun(t)
	s := newStore(t)
	s.set(entries)
	s.seal(manifest.Shape{
		Head: rapid.IntRange(3, 12).Draw(t, "head"), Leaf: rapid.IntRange(2, 3).Draw(t, "leaf"),
		Node: rapid.IntRange(2, 3).Draw(t, "node"),
	})
	if len(entries) > 0 {
		s.tier.Start = rapid.Int64Range(s.tier.Start, s.tier.End-1).Draw(t, "start")
		s.tier.Segments, s.tier.Bytes = 0, 0
		s.count(entries)
	}
	return s.tree(s.manifests(rapid.Int64Range(0, 3000).Draw(t, "cache"))), entries, records
}

func TestEachOffsetBelongsToTheSegmentWhoseRangeHoldsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, entries, _ := drawTree(t)
		offset := rapid.Int64Range(0, 80).Draw(t, "offset")
		want := slices.IndexFunc(entries, func(entry command.SegmentEntry) bool {
			return entry.BaseOffset <= offset && offset < entry.EndOffset
		})
		got, ok, err := tree.Find(context.Background(), offset)
		if err != nil || ok != (want >= 0) || ok && got != entries[want] {
			t.Fatalf("offset %d: %+v, %v, %v instead of %d", offset, got, ok, err, want)
		}
	})
}

func TestARangeIsListedInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, entries, _ := drawTree(t)
		from := rapid.Int64Range(0, 80).Draw(t, "from")
		to := rapid.Int64Range(0, 80).Draw(t, "to")
		var want, got []command.SegmentEntry
		for _, entry := range entries {
			if entry.EndOffset > from && entry.BaseOffset < to {
				want = append(want, entry)
			}
		}
		for entry, err := range tree.Segments(context.Background(), from, to) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, entry)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("[%d, %d): %v instead of %v", from, to, got, want)
		}
		for range tree.Segments(context.Background(), from, to) { // it can be left early
			break
		}
	})
}

func TestALookUpByTimeLeadsToTheFirstRecordAtOrAfterIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, entries, records := drawTree(t)
		timestamp := rapid.Int64Range(0, 21).Draw(t, "timestamp")
		from := rapid.Int64Range(0, 80).Draw(t, "from")
		suits := func(record modelRecord) bool { return record.offset >= from && record.timestamp >= timestamp }
		want := modelRecord{-1, -1}
		for _, entry := range entries {
			if at := slices.IndexFunc(records[entry.UploadID], suits); at >= 0 && want.offset < 0 {
				want = records[entry.UploadID][at]
			}
		}
		got := modelRecord{-1, -1}
		steps := 0
		for next := from; got.offset < 0; steps++ {
			entry, ok, err := tree.FindTimestamp(context.Background(), timestamp, next)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if at := slices.IndexFunc(records[entry.UploadID], suits); at >= 0 {
				got = records[entry.UploadID][at]
			}
			next = entry.EndOffset
		}
		if got != want || steps > 2 {
			t.Fatalf("timestamp %d from %d: %v after %d segments instead of %v", timestamp, from, got, steps, want)
		}
	})
}

func TestTheLargestTimestampIsFoundWithoutReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, entries, records := drawTree(t)
		from := rapid.Int64Range(0, 80).Draw(t, "from")
		largest := func(records []modelRecord) (best modelRecord) {
			best = modelRecord{-1, -1}
			for _, record := range records {
				if record.offset >= from && record.timestamp > best.timestamp {
					best = record
				}
			}
			return best
		}
		var all []modelRecord
		for _, entry := range entries {
			all = append(all, records[entry.UploadID]...)
		}
		want := largest(all)
		got := modelRecord{-1, -1}
		peak, ok, err := tree.MaxTimestamp(context.Background(), from)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			got = modelRecord{peak.Offset, peak.Timestamp}
		}
		entry, ok, err := tree.Straddling(context.Background(), from)
		if err != nil {
			t.Fatal(err)
		}
		if ok { // the one that has to be read
			if rest := largest(records[entry.UploadID]); rest.timestamp >= got.timestamp {
				got = rest
			}
		}
		if got != want {
			t.Fatalf("from %d: %v instead of %v", from, got, want)
		}
	})
}

func TestWhatIsLiveAndWhatIsBelowAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, entries, _ := drawTree(t)
		live, err := tree.Live(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var segments, bytes int64
		end := int64(-1)
		for i, item := range live {
			s := item.Summary()
			if i == 0 && s.Level > 0 && s.BaseOffset < tree.Start || i > 0 && s.BaseOffset != end {
				t.Fatalf("item %d is %+v, with the start at %d", i, s, tree.Start)
			}
			segments, bytes, end = segments+s.Segments, bytes+s.ObjectBytes, s.EndOffset
		}
		if segments != tree.Count || bytes != tree.Bytes {
			t.Fatalf("%d segments with %d bytes instead of %d with %d", segments, bytes, tree.Count, tree.Bytes)
		}
		start := rapid.Int64Range(0, 80).Draw(t, "new start")
		got, err := tree.Below(context.Background(), start)
		if err != nil {
			t.Fatal(err)
		}
		var want command.Below
		for _, item := range tree.Items() {
			s := item.Summary()
			if s.Level == 0 || s.BaseOffset >= start || s.EndOffset <= start {
				continue
			}
			want.Reference = s.UploadID
			for _, entry := range entries {
				if entry.BaseOffset >= s.BaseOffset && entry.EndOffset <= start {
					want.Segments, want.Bytes = want.Segments+1, want.Bytes+entry.ObjectBytes
				}
			}
		}
		if got != want {
			t.Fatalf("below %d: %+v instead of %+v", start, got, want)
		}
	})
}

func TestSealingLeavesAHeadAndFewReferences(t *testing.T) {
	s := newStore(t)
	shape := manifest.Shape{Head: 8, Leaf: 4, Node: 6}
	all := segments(1000)
	s.set(all[:1])
	most := 0
	for i, entry := range all[1:] {
		s.items = append(s.items, entry)
		s.seal(shape)
		var counts [3]int
		for _, item := range s.items {
			counts[item.Summary().Level]++
		}
		if counts[0] >= shape.Head || counts[1] >= shape.Node || counts[2] != i/24 && counts[2] != max(i/24-1, 0) {
			t.Fatalf("after %d segments: %d segments, %d leaves, %d nodes", i+2, counts[0], counts[1], counts[2])
		}
		most = max(most, counts[0]+counts[1])
	}
	if most != shape.Head-1+shape.Node-1 {
		t.Errorf("at most %d items besides nodes", most)
	}
}

func TestDueNeverReachesOverAReference(t *testing.T) {
	entries := segments(6)
	key := segment.Key{ClusterID: cluster, Partition: tp, UploadID: kafka.UUID{9}}
	_, leaf := manifest.Seal(key, "events", 0, []command.Item{entries[1], entries[2]})
	items := []command.Item{entries[0], leaf, entries[3], entries[4], entries[5]}
	due := manifest.Shape{Head: 4, Leaf: 4, Node: 2}.Due(items)
	if !slices.Equal(due, items[2:]) {
		t.Errorf("%v is due", due)
	}
}

func TestAMillionSegmentsNeedTwoLoads(t *testing.T) {
	s := newStore(t)
	shape := manifest.DefaultShape()
	s.set(nil)
	all := segments(70_000)
	s.count(all)
	for i, entry := range all {
		s.items, s.tier.End = append(s.items, entry), entry.EndOffset
		if i%shape.Leaf == 0 {
			s.seal(shape)
		}
	}
	m := s.manifests(1 << 20)
	tree := s.tree(m)
	if n := len(tree.Items()); n > 4+shape.Node+shape.Head {
		t.Errorf("%d items at the top", n)
	}
	entry, ok, err := tree.Find(t.Context(), 123_456)
	if err != nil || !ok || entry.BaseOffset != 123_450 || s.gets > 2 {
		t.Errorf("%+v, %v, %v after %d loads", entry, ok, err, s.gets)
	}
	if _, _, err := tree.Find(t.Context(), 123_456); err != nil || s.gets > 2 {
		t.Errorf("%v: what is in memory was loaded again, %d times", err, s.gets)
	}
}

// The cache has a bound, whatever is looked up.
func TestTheCacheIsBounded(t *testing.T) {
	s := newStore(t)
	s.set(segments(2000))
	s.seal(manifest.Shape{Head: 20, Leaf: 10, Node: 10})
	const limit = 50_000
	m := s.manifests(limit)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		if _, ok, err := s.tree(m).Find(t.Context(), rng.Int64N(20_000)); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if got := s.metric("firn_tier_manifest_cache_bytes"); got > limit {
			t.Fatalf("%v bytes are kept", got)
		}
	}
	if s.gets < 100 {
		t.Errorf("only %d loads: the limit does not bite", s.gets)
	}
}

func TestManyWhoAskAtOnceLoadOnce(t *testing.T) {
	s := newStore(t)
	s.set(segments(40))
	s.seal(manifest.Shape{Head: 20, Leaf: 10, Node: 10})
	tree := s.tree(s.manifests(1 << 20))
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, ok, err := tree.Find(context.Background(), 5); err != nil || !ok {
				t.Error(ok, err)
			}
		})
	}
	group.Wait()
	if s.gets != 1 {
		t.Errorf("%d loads", s.gets)
	}
}

// The objects of a restored topic are found under the id of the cluster that wrote them.
func TestSealedObjectsOfAPredecessorAreFound(t *testing.T) {
	s := newStore(t)
	s.origins = []kafka.UUID{{0xc0}}
	s.set(segments(40))
	s.seal(manifest.Shape{Head: 35, Leaf: 10, Node: 10})
	s.origins = append(s.origins, cluster)
	s.seal(manifest.Shape{Head: 20, Leaf: 10, Node: 10})
	tree := s.tree(s.manifests(0))
	for offset := int64(5); offset < 400; offset += 10 {
		if entry, ok, err := tree.Find(t.Context(), offset); err != nil || !ok || entry.BaseOffset != offset-5 {
			t.Fatalf("offset %d: %+v, %v, %v", offset, entry, ok, err)
		}
	}
	if first, second := tree.Key(tree.Items()[0]), tree.Key(tree.Items()[1]); first.ClusterID == second.ClusterID {
		t.Errorf("%s and %s", first, second)
	}
}

func TestARunWithAGapIsNoManifest(t *testing.T) {
	s := newStore(t)
	entries := segments(3)
	s.set([]command.SegmentEntry{entries[0], entries[2]})
	m := s.manifests(0)
	if _, err := m.Get(t.Context(), tp); !errors.Is(err, kafka.KafkaStorageError) {
		t.Errorf("%v", err)
	}
	for name, unknown := range map[string]kafka.TopicIDPartition{
		"topic": {ID: kafka.TopicID{9}}, "partition": {ID: tp.ID, Partition: 3},
	} {
		if _, err := m.Get(t.Context(), unknown); !errors.Is(err, kafka.NotLeaderOrFollower) {
			t.Errorf("an unknown %s: %v", name, err)
		}
	}
	if _, err := m.Get(t.Context(), kafka.TopicIDPartition{ID: tp.ID}); !errors.Is(err, kafka.KafkaStorageError) {
		t.Errorf("a partition whose tier is not open: %v", err)
	}
}
