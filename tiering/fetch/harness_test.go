package fetch

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib = 1 << 20

var (
	cluster = kafka.UUID{0xc1}
	tp      = kafka.TopicIDPartition{ID: kafka.TopicID{0x70}}
)

// remote is a partition whose segments a test puts straight into a bucket.
type remote struct {
	t        testing.TB
	bucket   *objectstore.Memory
	registry *prometheus.Registry
	entries  []command.SegmentEntry
	data     [][]byte // of each segment
	next     int64    // offset
	tier     image.TierState
	local    *storage.Log

	mu      sync.Mutex // guards the fields below
	listed  int        // how often the manifest was decoded
	gets    []string   // requests to the bucket: "object part"
	delay   time.Duration
	damage  int // so many answers come damaged
	refuse  error
	onGet   func() // called before a request, without the lock
	inside  int    // requests at this moment
	mostGet int    // the most there were at a time
}

func newRemote(t testing.TB) *remote {
	return &remote{t: t, bucket: objectstore.NewMemory(), registry: prometheus.NewRegistry()}
}

// Image implements Metadata.
func (r *remote) Image() *image.Image {
	r.mu.Lock()
	defer r.mu.Unlock()
	tier := r.tier
	return image.Empty().WithTopic(&image.Topic{
		ID: tp.ID, Name: "events", Partitions: []image.Partition{{Tier: &tier}},
	})
}

// Items implements manifest.Source.
func (r *remote) Items(kafka.TopicIDPartition) (*image.TierState, []command.Item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed++
	var items []command.Item
	for _, entry := range r.entries {
		items = append(items, entry)
	}
	tier := r.tier
	return &tier, items, nil
}

// Get implements segment.Getter: it keeps the books, and fails as the test wants it.
func (r *remote) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	r.mu.Lock()
	r.gets = append(r.gets, r.describe(key, offset))
	r.inside++
	r.mostGet = max(r.mostGet, r.inside)
	delay, refuse, damaged := r.delay, r.refuse, r.damage > 0
	if damaged {
		r.damage--
	}
	onGet := r.onGet
	r.mu.Unlock()
	if onGet != nil {
		onGet()
	}
	defer func() {
		r.mu.Lock()
		r.inside--
		r.mu.Unlock()
	}()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if refuse != nil {
		return 0, refuse
	}
	n, err := r.bucket.Get(ctx, key, offset, dst)
	if damaged && n > 0 {
		dst[n/2] ^= 0xff
	}
	return n, err
}

// describe names a request by the segment's number and the part of it; it needs mu.
func (r *remote) describe(key string, offset int64) string {
	for i, entry := range r.entries {
		if strings.Contains(key, entry.UploadID.Hex()) {
			if offset >= entry.DataBytes {
				return fmt.Sprintf("%d tail", i)
			}
			return fmt.Sprintf("%d chunk %d", i, offset/maxChunkBytes)
		}
	}
	return "stranger"
}

// requests returns what the bucket was asked for since the last time, in order.
func (r *remote) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	gets := r.gets
	r.gets = nil
	return gets
}

// add puts a segment of these batches into the bucket; it answers for as many offsets as they have, and hole more.
func (r *remote) add(hole int64, batches ...record.Batch) {
	r.t.Helper()
	base := r.next
	var data, offsetIndex []byte
	for _, batch := range batches {
		batch = bytes.Clone(batch)
		batch.SetBaseOffset(r.next)
		batch.SetLeaderEpoch(kafka.LeaderEpoch(len(r.entries)))
		if len(data) > 0 {
			offsetIndex = appendIndex(offsetIndex, batch.LastOffset()-base, len(data))
		}
		data = append(data, batch...)
		r.next = batch.NextOffset()
	}
	r.next += hole
	id := kafka.UUID{1, byte(len(r.entries) >> 8), byte(len(r.entries))}
	tail := segment.Tail{
		ClusterID: cluster, Partition: tp, Topic: "events", BaseOffset: base, EndOffset: r.next, UploadID: id,
		LeaderEpoch: kafka.LeaderEpoch(len(r.entries)), IndexBaseOffset: base, OffsetIndex: offsetIndex,
		FirstAppendedAt: -1, LastAppendedAt: -1,
	}
	for i, entry := range r.entries {
		tail.LeaderEpochs = append(tail.LeaderEpochs,
			segment.EpochStart{Epoch: kafka.LeaderEpoch(i), StartOffset: entry.BaseOffset})
	}
	tail.LeaderEpochs = append(tail.LeaderEpochs,
		segment.EpochStart{Epoch: kafka.LeaderEpoch(len(r.entries)), StartOffset: base})
	tail.DataBytes = int64(len(data))
	object, err := segment.New(context.Background(), bytes.NewReader(data), tail)
	must(r.t, err)
	must(r.t, r.bucket.Put(context.Background(), object.Tail.Key().String(), object, object.Size(),
		objectstore.PutOptions{}))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data = append(r.data, data)
	r.entries = append(r.entries, object.Tail.Entry())
	r.tier.End, r.tier.Segments, r.tier.Version = r.next, r.tier.Segments+1, r.tier.Version+1
}

func appendIndex(index []byte, relative int64, position int) []byte {
	return append(index, byte(relative>>24), byte(relative>>16), byte(relative>>8), byte(relative),
		byte(position>>24), byte(position>>16), byte(position>>8), byte(position))
}

// advance moves the log start as AdvanceStart does.
func (r *remote) advance(start int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.entries) > 0 && r.entries[0].EndOffset <= start {
		r.entries = r.entries[1:]
	}
	r.tier.Start, r.tier.Version = start, r.tier.Version+1
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batchOf builds a batch of n records whose values together have about the given size.
func batchOf(n, bytes int, timestamp int64) record.Batch {
	random := rand.NewChaCha8([32]byte{byte(timestamp), byte(timestamp >> 8), byte(bytes)})
	builder := record.NewBuilder(record.PlainProducer())
	for i := range n {
		value := make([]byte, bytes/n)
		_, _ = random.Read(value[:min(len(value), 64)])
		for filled := 64; filled < len(value); filled *= 2 {
			copy(value[filled:], value[:filled])
		}
		builder.Append(timestamp+int64(i), nil, value)
	}
	return builder.Build()
}

// reader makes a Reader that runs until the test ends.
func (r *remote) reader(change ...func(*Options)) *Reader {
	r.t.Helper()
	options := Options{
		Logger: slog.New(slog.DiscardHandler), Registerer: r.registry, Bucket: r, Metadata: r,
		Manifests: manifest.New(manifest.Options{Source: r, Bucket: r, ClusterID: cluster, CacheBytes: mib}),
		Local: func(kafka.TopicIDPartition) (*storage.Log, error) {
			if r.local == nil {
				return nil, kafka.KafkaStorageError
			}
			return r.local, nil
		},
		Concurrency: 10, Queue: 100, MemoryBytes: 128 * mib, ReadAheadBytes: 32 * mib,
	}
	for _, fn := range change {
		fn(&options)
	}
	reader := New(options)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); reader.Run(ctx) }()
	for reader.background().Err() != nil { // until Run has begun
		time.Sleep(time.Millisecond)
	}
	r.t.Cleanup(func() { stop(); <-done })
	return reader
}

// bytesOf is what an answer has.
func bytesOf(t testing.TB, result storage.RemoteReadResult) []byte {
	t.Helper()
	if result.Region.Size() == 0 {
		return result.Data
	}
	data := make([]byte, result.Region.Size())
	_, err := result.Region.ReadAt(data, 0)
	must(t, err)
	return data
}

type answer struct {
	result storage.RemoteReadResult
	err    error
}

func startRead(ctx context.Context, reader *Reader, req storage.RemoteReadRequest) <-chan answer {
	done := make(chan answer, 1)
	reader.StartRead(ctx, tp, req, func(result storage.RemoteReadResult, err error) { done <- answer{result, err} })
	return done
}

// read reads from an offset, up to maxBytes.
func (r *remote) read(reader *Reader, offset int64, maxBytes int) (storage.RemoteReadResult, error) {
	got := <-startRead(context.Background(), reader, storage.RemoteReadRequest{
		Offset: offset, MaxBytes: maxBytes, AtLeastOne: true, UpTo: r.next,
	})
	return got.result, got.err
}

// tail has the tail of a segment read.
func (r *remote) tail(reader *Reader, index int) {
	r.t.Helper()
	key := segment.KeyOf(cluster, tp, r.entries[index]).String()
	_, err := reader.tails.get(context.Background(), key, r.entries[index])
	must(r.t, err)
}

// localLog makes a local log whose first local offset is start, with two records.
func localLog(t testing.TB, start int) *storage.Log {
	t.Helper()
	files := vfs.NewMem()
	must(t, vfs.MkdirAllDurable(files, "log"))
	logs, err := storage.NewManager(storage.ManagerOptions{
		FS: files, Dirs: []storage.Directory{{Path: "log"}}, Store: store{}, Logger: slog.New(slog.DiscardHandler),
		Owner: storage.Owner{ClusterID: cluster, NodeID: 1},
	})
	must(t, err)
	t.Cleanup(func() { must(t, logs.Close()) })
	_, err = logs.Load(context.Background(), func(kafka.TopicPartition, kafka.TopicID) (storage.Config, bool) {
		return storage.Config{}, false
	})
	must(t, err)
	log, err := logs.Create(kafka.TopicPartition{Topic: "events"}, tp.ID, storage.Config{}, kafka.UUID{})
	must(t, err)
	for _, records := range []int{start, 2} {
		batch, summary, err := record.NewValidator().Validate(batchOf(records, 10*records, 0), record.AnyOptions())
		must(t, err)
		_, err = log.Append(batch, summary, storage.AppendOptions{})
		must(t, err)
		must(t, log.Flush())
		log.SetHighWatermark(log.EndOffset())
		if records == start {
			must(t, log.Roll())
		}
	}
	_, err = log.MoveLocalStart(int64(start), "test")
	must(t, err)
	return log
}

// store is a storage.Store in memory, for one goroutine.
type store map[string][]byte

func (s store) Get(key []byte) ([]byte, error) { return s[string(key)], nil }

func (s store) Set(key, value []byte) error {
	s[string(key)] = bytes.Clone(value)
	return nil
}

func (s store) Delete(key []byte) error {
	delete(s, string(key))
	return nil
}

func (s store) Scan(prefix []byte, visit func(key, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(key, string(prefix)) {
			if err := visit([]byte(key), s[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// metric reads a metric, summed up over its labels.
func (r *remote) metric(name string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	must(r.t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		var sum float64
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
		return sum
	}
	return 0
}

func checksum(data []byte) uint32 { return crc32.ChecksumIEEE(data) }
