package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ours   = kafka.UUID{0xc1}
	theirs = kafka.UUID{0xc2}
	third  = kafka.UUID{0xc3}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func id(first byte) kafka.UUID {
	return kafka.UUID{first, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
}

func entry(base, end int64, epoch kafka.LeaderEpoch) command.SegmentEntry {
	return command.SegmentEntry{
		BaseOffset: base, EndOffset: end, LeaderEpoch: epoch, UploadID: id(byte(base/10 + 1)), DataBytes: 1000,
		ObjectBytes: 1200, TailBytes: 200, MinTimestamp: base, MaxTimestamp: end - 1, MaxTimestampOffset: end - 1,
		FirstAppendedAt: base, LastAppendedAt: end,
	}
}

// fakeMetadata is a metadata log that a test writes by hand.
type fakeMetadata struct {
	mu        sync.Mutex // guards the fields below
	image     *image.Image
	items     map[kafka.TopicIDPartition][]command.Item
	recorded  []command.Checkpoint
	propose   error
	groups    []Group
	groupsErr error
	garbage   uint64
}

func newFakeMetadata() *fakeMetadata {
	return &fakeMetadata{
		image: image.Empty().With(func(next *image.Image) { next.Controller, next.ClusterID = 1, ours }),
		items: map[kafka.TopicIDPartition][]command.Item{},
	}
}

func (m *fakeMetadata) Image() *image.Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.image
}

func (m *fakeMetadata) Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	partition, found := m.image.PartitionByID(tp)
	if !found {
		return nil, nil, kafka.UnknownTopicID
	}
	return partition.Tier, m.items[tp], nil
}

func (m *fakeMetadata) Propose(_ context.Context, cmd command.Command) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.propose != nil {
		return nil, m.propose
	}
	m.recorded = append(m.recorded, cmd.(command.CheckpointWritten).Checkpoint)
	return nil, nil
}

func (m *fakeMetadata) ElapsedMs() int64 { return 1 }

// world is a writer with what surrounds it, in a bubble of fake time.
type world struct {
	t        *testing.T
	meta     *fakeMetadata
	bucket   *objectstore.Memory
	failing  func(objectstore.Call) bool // which calls to the bucket fail from now on
	puts     []string                    // keys
	writer   *Writer
	stop     context.CancelFunc
	stopped  chan struct{}
	random   byte
	interval time.Duration
}

func inBubble(t *testing.T, body func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, meta: newFakeMetadata(), bucket: objectstore.NewMemory(), interval: time.Minute}
		defer func() { w.end() }()
		body(t, w)
	})
}

// begin starts a writer on the bucket, as a new process does.
func (w *world) begin() {
	bucket := &tracedBucket{Bucket: w.bucket, world: w}
	w.writer = NewWriter(Options{
		Logger: slog.New(slog.DiscardHandler), BrokerID: 1, ClusterID: ours, Bucket: bucket, Metadata: w.meta,
		Claim: NewClaim(bucket, ours, nil),
		Groups: func() ([]Group, error) {
			w.meta.mu.Lock()
			defer w.meta.mu.Unlock()
			return w.meta.groups, w.meta.groupsErr
		},
		Uncollected: func() (uint64, error) { return w.meta.garbage, nil },
		Internal:    kafka.IsInternalTopic, Interval: w.interval,
		NewID: func() kafka.UUID { w.random++; return kafka.UUID{0xee, 15: w.random} },
	})
	img := w.meta.Image()
	w.writer.Apply(img, image.Delta{Index: img.Index, Reset: true})
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.stopped = stop, make(chan struct{})
	writer, stopped := w.writer, w.stopped
	go func() {
		defer close(stopped)
		writer.Run(ctx)
	}()
	synctest.Wait()
}

func (w *world) end() {
	if w.stop != nil {
		w.stop()
		<-w.stopped
		w.stop = nil
	}
}

// change makes the next image and tells the writer.
func (w *world) change(edit func(*image.Image) (*image.Image, image.Delta)) {
	w.meta.mu.Lock()
	next, delta := edit(w.meta.image)
	next = next.With(func(img *image.Image) { img.Index++ })
	delta.Index = next.Index
	w.meta.image = next
	w.meta.mu.Unlock()
	if w.writer != nil && w.stop != nil {
		w.writer.Apply(next, delta)
	}
}

func (w *world) createTopic(first byte, name string, partitions int) *image.Topic {
	topic := &image.Topic{ID: id(first), Name: name, Configs: map[string]string{"remote.storage.enable": "true"}}
	topic.Partitions = make([]image.Partition, partitions)
	w.change(func(img *image.Image) (*image.Image, image.Delta) {
		delta := image.Delta{TopicsCreated: []*image.Topic{topic}}
		for i := range topic.Partitions {
			delta.PartitionsChanged = append(delta.PartitionsChanged,
				kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)})
		}
		return img.WithTopic(topic), delta
	})
	return topic
}

// commit makes a segment part of a partition's remote log.
func (w *world) commit(topic *image.Topic, partition int32, segment command.SegmentEntry) {
	tp := kafka.TopicIDPartition{ID: topic.ID, Partition: partition}
	w.meta.mu.Lock()
	w.meta.items[tp] = append(w.meta.items[tp], segment)
	first := w.meta.items[tp][0].Summary().BaseOffset
	w.meta.mu.Unlock()
	w.change(func(img *image.Image) (*image.Image, image.Delta) {
		return img.WithTier(tp, &image.TierState{
				Start: first, End: segment.EndOffset, Version: 3, Segments: int64(len(w.meta.items[tp])),
			}),
			image.Delta{TierChanged: []kafka.TopicIDPartition{tp}}
	})
}

// pass lets time go by, in which the writer does what is due.
func (w *world) pass(d time.Duration) {
	_ = w.meta.Image() // its lock orders what the test has changed before what the writer sees; time alone does not
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) read() *Checkpoint {
	w.t.Helper()
	read, err := Read(w.t.Context(), w.bucket, ours)
	must(w.t, err)
	return read
}

// keys lists the bucket.
func (w *world) keys(prefix string) (keys []string) {
	w.t.Helper()
	must(w.t, w.bucket.List(w.t.Context(), prefix, "", func(object objectstore.ObjectInfo) error {
		keys = append(keys, object.Key)
		return nil
	}))
	return keys
}

// put stores an object.
func put(t testing.TB, bucket objectstore.Bucket, key string, data []byte) {
	t.Helper()
	must(t, bucket.Put(t.Context(), key, strings.NewReader(string(data)), int64(len(data)), objectstore.PutOptions{}))
}

func object(t testing.TB, bucket objectstore.Bucket, key string) []byte {
	t.Helper()
	info, err := bucket.Stat(t.Context(), key)
	must(t, err)
	data := make([]byte, info.Size)
	_, err = bucket.Get(t.Context(), key, 0, data)
	must(t, err)
	return data
}

// tracedBucket notes what is written, and fails what the test wants to fail.
type tracedBucket struct {
	objectstore.Bucket
	world *world
}

var errBroken = fmt.Errorf("broken: %w", errors.Join(objectstore.ErrUnavailable))

func (b *tracedBucket) fails(operation objectstore.Operation, key string) bool {
	return b.world.failing != nil && b.world.failing(objectstore.Call{Operation: operation, Key: key})
}
