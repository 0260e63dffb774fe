package tiering_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/state"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// history makes the manifest of a partition with a long past, as its leader would have sealed it: segments of ten
// offsets each. The sealed objects go to the bucket; the segments have none, as nobody reads them.
func history(t testing.TB, bucket objectstore.Bucket, tp kafka.TopicIDPartition, segments int64) (
	restored command.RestoredPartition,
) {
	t.Helper()
	restored = command.RestoredPartition{
		Replicas: []kafka.BrokerID{testBroker}, Directories: []kafka.UUID{{}}, LeaderEpoch: 1, Tiered: true,
		End: segments * 10, Version: segments + 1, Bytes: segments * 1000, Segments: segments,
	}
	shape := manifest.DefaultShape()
	sealed := 0
	seal := func() {
		for run := shape.Due(restored.Items); run != nil; run = shape.Due(restored.Items) {
			sealed++
			key := segment.Key{ClusterID: testCluster, Partition: tp, UploadID: kafka.UUID{9, byte(sealed >> 8), byte(sealed)}}
			data, reference := manifest.Seal(key, events.Topic, 0, run)
			key = segment.KeyOfItem(testCluster, tp, reference)
			must(t, bucket.Put(context.Background(), key.String(), bytes.NewReader(data), int64(len(data)),
				objectstore.PutOptions{}))
			var next []command.Item
			for _, item := range restored.Items {
				switch {
				case item == run[0]:
					next = append(next, reference)
				case item.Summary().BaseOffset >= reference.EndOffset || item.Summary().BaseOffset < reference.BaseOffset:
					next = append(next, item)
				}
			}
			restored.Items = next
		}
	}
	for i := range segments {
		restored.Items = append(restored.Items, command.SegmentEntry{
			BaseOffset: i * 10, EndOffset: i*10 + 10, UploadID: kafka.UUID{7, byte(i >> 16), byte(i >> 8), byte(i)},
			DataBytes: 900, ObjectBytes: 1000, TailBytes: 100, MinTimestamp: i * 100, MaxTimestamp: i*100 + 99,
			MaxTimestampOffset: i*10 + 9, FirstAppendedAt: i * 100, LastAppendedAt: i*100 + 99,
		})
		if (i+1)%int64(shape.Leaf) == 0 {
			seal()
		}
	}
	return restored
}

// restoreCommands give a topic these partitions, some at a time.
func restoreCommands(partitions []command.RestoredPartition) (commands []command.Command) {
	const portion = 100
	for first := 0; first < len(partitions); first += portion {
		commands = append(commands, command.RestoreTopics{Topics: []command.RestoredTopic{{
			ID: testTopic, Name: events.Topic, Configs: map[string]string{"remote.storage.enable": "true"},
			Origins: []kafka.UUID{testCluster}, First: int32(first),
			Partitions: partitions[first:min(first+portion, len(partitions))],
		}}})
	}
	return commands
}

// openedStore is a metastore on a disk.
type openedStore struct {
	*metastore.Store
	close func()
}

func openStore(t testing.TB, fs pebblevfs.FS, dir string) openedStore {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	db := get[*state.DB](t)(state.Open(state.Options{FS: fs, Dir: dir + "state", Logger: logger}))
	store := get[*metastore.Store](t)(metastore.Open(metastore.Options{
		FS: fs, Dir: dir + "raft", NodeID: testBroker, State: db, Logger: logger,
	}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx) }()
	must(t, store.WaitReady(ctx))
	return openedStore{store, func() {
		cancel()
		must(t, <-done)
		must(t, store.Close())
		must(t, db.Close())
	}}
}

// populate writes a metastore that knows the partitions.
func populate(t testing.TB, fs pebblevfs.FS, dir string, partitions []command.RestoredPartition) {
	t.Helper()
	store := openStore(t, fs, dir)
	defer store.close()
	commands := append([]command.Command{
		command.InitCluster{ClusterID: testCluster}, command.RegisterBroker{ID: testBroker},
	}, restoreCommands(partitions)...)
	for _, cmd := range commands {
		result := get[any](t)(store.Propose(context.Background(), cmd))
		if topics, are := result.([]command.TopicResult); are {
			must(t, topics[0].Err)
		}
	}
}

func heapBytes() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// BenchmarkHistory shows what a long history costs: the start of the metastore, memory and look-ups. One run says
// it all: -benchtime 1x.
func BenchmarkHistory(b *testing.B) {
	for _, segments := range []int64{1000, 1_000_000} {
		b.Run(fmt.Sprint(segments, " segments"), func(b *testing.B) {
			bucket := objectstore.NewMemory()
			partition := history(b, bucket, eventsID, segments)
			dir := b.TempDir() + "/"
			populate(b, pebblevfs.Default, dir, []command.RestoredPartition{partition})
			measure(b, dir, bucket, 1, segments)
		})
	}
}

// BenchmarkManyHeads is the same for many partitions with as many entries as a head has at most.
func BenchmarkManyHeads(b *testing.B) {
	const partitions = 10_000
	for _, segments := range []int64{1, 127} {
		b.Run(fmt.Sprintf("%d partitions of %d", partitions, segments), func(b *testing.B) {
			all := make([]command.RestoredPartition, partitions)
			for i := range all {
				all[i] = unsealed(segments)
			}
			dir := b.TempDir() + "/"
			populate(b, pebblevfs.Default, dir, all)
			measure(b, dir, objectstore.NewMemory(), partitions, segments)
		})
	}
}

// unsealed is a manifest of segments one by one.
func unsealed(segments int64) command.RestoredPartition {
	whole := command.RestoredPartition{
		Replicas: []kafka.BrokerID{testBroker}, Directories: []kafka.UUID{{}}, LeaderEpoch: 1, Tiered: true,
		End: segments * 10, Version: segments + 1, Bytes: segments * 1000, Segments: segments,
	}
	for i := range segments {
		whole.Items = append(whole.Items, command.SegmentEntry{
			BaseOffset: i * 10, EndOffset: i*10 + 10, UploadID: kafka.UUID{7, byte(i)}, DataBytes: 900, ObjectBytes: 1000,
			TailBytes: 100, MinTimestamp: i * 100, MaxTimestamp: i*100 + 99, MaxTimestampOffset: i*10 + 9,
		})
	}
	return whole
}

// measure opens a metastore and looks things up.
func measure(b *testing.B, dir string, bucket objectstore.Bucket, partitions int, segments int64) {
	before := heapBytes()
	begun := time.Now()
	store := openStore(b, pebblevfs.Default, dir)
	defer store.close()
	started := time.Since(begun)
	opened := heapBytes() - before
	const cacheBytes = 8 << 20
	counting := &countingBucket{Bucket: bucket}
	manifests := manifest.New(manifest.Options{
		Source: store, Bucket: counting, ClusterID: testCluster, CacheBytes: cacheBytes,
	})
	rng := rand.New(rand.NewPCG(1, 1))
	lookUps := 0
	begun = time.Now()
	for b.Loop() {
		for range 20_000 {
			tp := kafka.TopicIDPartition{ID: testTopic, Partition: rng.Int32N(int32(partitions))}
			tree := get[*manifest.Tree](b)(manifests.Get(context.Background(), tp))
			if _, found, err := tree.Find(context.Background(), rng.Int64N(segments*10)); !found || err != nil {
				b.Fatal(found, err)
			}
			lookUps++
		}
	}
	took := time.Since(begun)
	b.ReportMetric(float64(started.Microseconds())/1000, "start-ms")
	b.ReportMetric(opened/(1<<20), "heap-MiB")
	b.ReportMetric((heapBytes()-before)/(1<<20), "heap-MiB-after")
	b.ReportMetric(float64(took.Nanoseconds())/1000/float64(lookUps), "µs/look-up")
	b.ReportMetric(float64(counting.gets)/float64(lookUps), "loads/look-up")
	b.ReportMetric(0, "ns/op") // says nothing
	runtime.KeepAlive(manifests)
}

type countingBucket struct {
	objectstore.Bucket
	gets int
}

func (c *countingBucket) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	c.gets++
	return c.Bucket.Get(ctx, key, offset, dst)
}

// An upload costs the same number of requests however long the history is: one, and one in 64 for a leaf.
func TestAnUploadCostsTheSameHoweverLongTheHistoryIs(t *testing.T) {
	for _, segments := range []int64{1000, 100_000} {
		inBubble(t, func(t *testing.T) {
			const uploads = 320
			d := newDisks(t)
			partition := history(t, d.bucket, eventsID, segments)
			populate(t, d.pebble, "", []command.RestoredPartition{partition})
			s := usual()
			var steps names
			s.step = steps.step
			b := start(t, d, s)
			must(t, b.log().TruncateFullyAndStartAt(partition.End))
			restored, _ := b.meta.Image().PartitionByID(eventsID)
			b.log().AssignEpoch(restored.Epoch)
			for range uploads {
				b.produce(1, 1<<40)
				b.seal()
			}
			if got := b.tierState(); got.Segments != segments+uploads {
				t.Errorf("the tier is %+v: %q", got, b.failures())
			}
			b.close()
			requests := 0
			for _, call := range b.calls {
				if call != string(objectstore.OpList) { // of lapsed reservations, by the clock
					requests++
				}
			}
			if want := uploads + uploads/64; requests < want || requests > want+1 {
				t.Errorf("on top of %d segments, %d uploads took %d requests instead of %d", segments, uploads, requests, want)
			}
		})
	}
}
