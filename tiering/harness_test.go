package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
	"github.com/firnlog/firn/tiering"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/upload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testBroker kafka.BrokerID = 1

var testCluster = kafka.UUID{0xc1}

// disks are what survives a crash of the broker, and the bucket, which does not crash with it.
type disks struct {
	files  *vfs.Mem
	pebble *pebblevfs.MemFS
	bucket *objectstore.Memory
}

func newDisks(t testing.TB) *disks {
	d := &disks{files: vfs.NewMem(), pebble: pebblevfs.NewCrashableMem(), bucket: objectstore.NewMemory()}
	must(t, vfs.MkdirAllDurable(d.files, "log"))
	return d
}

// crash gives the disks as a power cut leaves them.
func (d *disks) crash(seed uint64) *disks {
	return &disks{
		files: d.files.CrashClone(rand.New(rand.NewPCG(seed, 1))),
		pebble: d.pebble.CrashClone(pebblevfs.CrashCloneCfg{
			UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, 2)),
		}),
		bucket: d.bucket,
	}
}

// setup is how a broker is started.
type setup struct {
	config tiering.Config
	topic  map[string]string // settings of the topic
	policy storage.FlushPolicy
	files  func(vfs.FS) vfs.FS // wraps the log's file system; nil does not
	static func(name string) (string, bool)
	// step is called before and after each write to the bucket, each listing and each proposal ("put", "put done",
	// "commit-segment", "commit-segment done"). An error takes the place of the answer and, before, of the deed.
	step func(name string) error
}

func usual() setup {
	return setup{
		config: tiering.Config{
			TaskInterval: 30 * time.Second, Uploads: upload.Limits{Concurrency: 10},
			UploadDeadline: time.Minute, Reservation: 5 * time.Minute,
			Grace: 15 * time.Minute, FetchConcurrency: 10, FetchQueue: 100, FetchMemoryBytes: 128 << 20,
			ReadAheadBytes: 32 << 20,
		},
		topic: map[string]string{"remote.storage.enable": "true"},
	}
}

// broker is a tier with all it stands on: real logs and a real metastore on file systems in memory, a bucket in memory.
// What replica does of it (high watermark, leader epochs) is played by watch.
type broker struct {
	t        testing.TB
	disks    *disks
	setup    setup
	bucket   *objectstore.Faulty
	registry *prometheus.Registry

	db   *state.DB
	meta *metastore.Store
	logs *storage.Manager
	tier *tiering.Manager

	stop    context.CancelFunc
	running sync.WaitGroup
	closed  bool

	mu    sync.Mutex // guards the fields below
	calls []string   // to the bucket
	fails []string   // what the tier reported
	gone  []string   // objects that were collected
}

var (
	testTopic = kafka.TopicID{0x70}
	events    = kafka.TopicPartition{Topic: "events", Partition: 0}
	eventsID  = kafka.TopicIDPartition{ID: testTopic, Partition: 0}
)

// bump begins a new leader epoch.
var bump = command.BumpLeaderEpochs{Broker: testBroker}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// start starts a broker on what is on the disks. A new cluster gets the topic "events" with one partition.
func start(t testing.TB, d *disks, s setup) *broker {
	t.Helper()
	b := &broker{t: t, disks: d, setup: s, registry: prometheus.NewRegistry()}
	b.bucket = objectstore.NewFaulty(d.bucket, func(call objectstore.Call, fault objectstore.Fault) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, string(call.Operation))
	})
	logger := slog.New(slog.DiscardHandler)
	b.db = get[*state.DB](t)(state.Open(state.Options{
		FS: d.pebble, Dir: "state", Logger: logger, OnFatal: func(err error) { t.Error(err) },
	}))
	b.meta = get[*metastore.Store](t)(metastore.Open(metastore.Options{
		FS: d.pebble, Dir: "raft", NodeID: testBroker, State: b.db, Logger: logger,
	}))
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.run(ctx, b.meta.Run)
	must(t, b.meta.WaitReady(ctx))
	b.propose(command.InitCluster{ClusterID: testCluster})
	b.openLogs(ctx, logger)
	b.tier = tiering.New(tiering.Options{
		Logger: logger, Registerer: b.registry, BrokerID: testBroker, ClusterID: testCluster,
		Bucket: &steppedBucket{b.bucket, s.perform}, Metadata: &steppedMetadata{b.meta, s.perform},
		Garbage: b.meta, Reserved: b.meta.Reserved, Logs: b.logs,
		Layers: func(*image.Image) config.BrokerLayers { return config.BrokerLayers{Static: s.static} },
		Config: s.config,
		Events: &tiering.Events{UploadFailed: func(_ kafka.TopicPartition, base int64, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.fails = append(b.fails, fmt.Sprintf("%d: %v", base, err))
		}, ObjectDeleted: func(key string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.gone = append(b.gone, key)
		}},
		Random: rand.New(rand.NewPCG(1, 1)),
	})
	b.meta.Watch(b.watch)
	b.meta.Watch(b.tier.Apply)
	b.run(ctx, b.tier.Run)
	isNew := len(b.meta.Image().Brokers) == 0
	b.propose(command.RegisterBroker{ID: testBroker, Directories: []kafka.UUID{b.logs.Directories()[0].ID}})
	if isNew {
		b.createTopic(testTopic, events.Topic, 1)
	}
	b.settle()
	t.Cleanup(func() {
		if !b.closed {
			b.kill()
		}
	})
	return b
}

func (b *broker) openLogs(ctx context.Context, logger *slog.Logger) {
	files := vfs.FS(b.disks.files)
	if b.setup.files != nil {
		files = b.setup.files(files)
	}
	b.logs = get[*storage.Manager](b.t)(storage.NewManager(storage.ManagerOptions{
		FS: files, Dirs: []storage.Directory{{Path: "log"}},
		Owner: storage.Owner{ClusterID: testCluster, NodeID: testBroker},
		Store: b.db.Space(state.SpaceStorage), SyncStore: b.db.Flush, Policy: b.setup.policy, Logger: logger,
		Remote: func(id kafka.TopicIDPartition) (storage.RemoteRange, bool) {
			partition, found := b.meta.Image().PartitionByID(id)
			if !found || partition.Tier == nil {
				return storage.RemoteRange{}, false
			}
			return storage.RemoteRange{StartOffset: partition.Tier.Start, EndOffset: partition.Tier.End}, true
		},
		Events: &storage.Events{SegmentRolled: func(tp kafka.TopicPartition, base int64) {
			if b.tier != nil {
				b.tier.SegmentRolled(tp, base)
			}
		}},
	}))
	result, err := b.logs.Load(ctx, func(tp kafka.TopicPartition, id kafka.TopicID) (storage.Config, bool) {
		topic, found := b.meta.Image().TopicByID(id)
		return b.logConfig(), found && topic.Name == tp.Topic
	})
	must(b.t, err)
	for _, offline := range result.Offline {
		b.t.Fatal(offline.Err)
	}
	if !result.Clean {
		b.propose(bump)
	}
	b.run(ctx, b.logs.Run)
}

// logConfig rolls only on demand and indexes densely, so that look-ups have something to do.
func (b *broker) logConfig() storage.Config { return storage.Config{IndexIntervalBytes: 200} }

func (b *broker) createTopic(id kafka.TopicID, name string, partitions int) {
	topic := command.NewTopic{ID: id, Name: name, Configs: b.setup.topic}
	for range partitions {
		topic.Partitions = append(topic.Partitions, command.NewPartition{
			Replicas: []kafka.BrokerID{testBroker}, Directories: []kafka.UUID{b.logs.Directories()[0].ID},
		})
	}
	for _, result := range b.propose(command.CreateTopics{Topics: []command.NewTopic{topic}}).([]command.TopicResult) {
		must(b.t, result.Err)
	}
}

// watch plays the part of replica.
func (b *broker) watch(img *image.Image, delta image.Delta) {
	for _, topic := range delta.TopicsDeleted {
		for i := range topic.Partitions {
			_ = b.logs.Delete(kafka.TopicPartition{Topic: topic.Name, Partition: int32(i)})
		}
	}
	for topic := range img.Topics() {
		for i := range topic.Partitions {
			b.lead(topic, int32(i))
		}
	}
}

func (b *broker) lead(topic *image.Topic, index int32) {
	tp := kafka.TopicPartition{Topic: topic.Name, Partition: index}
	log, err := b.logs.Create(tp, topic.ID, b.logConfig(), kafka.UUID{})
	if err != nil {
		b.t.Error(err)
		return
	}
	advance := func(flushed int64) {
		log.SetHighWatermark(flushed)
		b.tier.Advanced(tp)
	}
	log.AssignEpoch(topic.Partitions[index].Epoch)
	log.OnFlush(advance)
	advance(log.FlushedOffset())
	if tier := topic.Partitions[index].Tier; tier != nil && tier.Start > log.LogStartOffset() {
		if err := log.MoveLogStart(tier.Start); err != nil {
			b.t.Error(err)
		}
	}
}

func (b *broker) run(ctx context.Context, part func(context.Context) error) {
	b.running.Go(func() {
		if err := part(ctx); err != nil && !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	})
}

// close stops the broker cleanly.
func (b *broker) close() {
	b.halt()
	must(b.t, b.logs.Close())
	must(b.t, b.meta.Close())
	must(b.t, b.db.Close())
}

// halt stops what runs.
func (b *broker) halt() {
	b.closed = true
	b.stop()
	b.running.Wait()
}

// crash cuts the power and starts again on what is left.
func (b *broker) crash(seed uint64) *broker {
	b.t.Helper()
	left := b.disks.crash(seed)
	b.kill()
	return start(b.t, left, b.setup)
}

// kill ends a broker whose disks are of no interest any more.
func (b *broker) kill() {
	b.halt()
	_ = b.logs.Close()
	_ = b.meta.Close()
	_ = b.db.Close()
}

// settle waits until nothing happens any more by itself.
func (b *broker) settle() { synctest.Wait() }

// sleep lets time pass.
func (b *broker) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *broker) propose(cmd command.Command) any {
	b.t.Helper()
	return get[any](b.t)(b.meta.Propose(context.Background(), cmd))
}

func (b *broker) log() *storage.Log {
	b.t.Helper()
	return get[*storage.Log](b.t)(b.logs.Log(events))
}

// produce appends a batch of n records, with timestamps from timestamp on.
func (b *broker) produce(n int, timestamp int64, options ...func(*record.BuilderOptions)) {
	b.t.Helper()
	b.append(batchOf(n, timestamp, options...))
}

func (b *broker) append(batch record.Batch) {
	b.t.Helper()
	must(b.t, appendTo(b.log(), batch))
}

func appendTo(log *storage.Log, batch record.Batch) error {
	opts := storage.AppendOptions{LeaderEpoch: log.LatestEpoch(), AppendedAt: time.Now().UnixMilli()}
	if batch.IsControl() { // which no producer may send
		opts.Origin = storage.FromCoordinator
		_, err := log.Append(batch, record.Summary{Count: 1, MaxTimestamp: batch.MaxTimestamp(), Size: len(batch)}, opts)
		return err
	}
	batch, summary, err := record.NewValidator().Validate(slices.Clone(batch), record.AnyOptions())
	if err != nil {
		return err
	}
	if batch.IsTransactional() {
		opts.Guard = log.BeginVerification(storage.TransactionStart{
			ProducerID: batch.ProducerID(), ProducerEpoch: batch.ProducerEpoch(), BaseSequence: batch.BaseSequence(),
		})
	}
	_, err = log.Append(batch, summary, opts)
	return err
}

func batchOf(n int, timestamp int64, options ...func(*record.BuilderOptions)) record.Batch {
	opts := record.PlainProducer()
	for _, option := range options {
		option(&opts)
	}
	builder := record.NewBuilder(opts)
	for i := range n {
		builder.Append(timestamp+int64(i), fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "value %d of %d", i, timestamp))
	}
	return builder.Build()
}

// seal ends the active segment and waits until it is in the bucket, if nothing keeps it from that.
func (b *broker) seal() {
	b.t.Helper()
	must(b.t, b.log().Roll())
	b.sleep(time.Second)
}

// tree is the manifest.
func (b *broker) tree() *manifest.Tree {
	b.t.Helper()
	return get[*manifest.Tree](b.t)(b.tier.Manifests().Get(context.Background(), eventsID))
}

func (b *broker) tierState() image.TierState {
	b.t.Helper()
	partition, found := b.meta.Image().PartitionByID(eventsID)
	if !found || partition.Tier == nil {
		b.t.Fatal("the partition is not tiered")
	}
	return *partition.Tier
}

// dropLocal removes the local copy of everything that is remote.
func (b *broker) dropLocal() {
	b.t.Helper()
	_ = get[int](b.t)(b.log().MoveLocalStart(b.tierState().End, "test"))
}

// fetch reads as replica does: locally if it can.
func (b *broker) fetch(ctx context.Context, req storage.RemoteReadRequest) (storage.RemoteReadResult, bool, error) {
	found, err := b.log().Read(storage.ReadRequest(req))
	if errors.Is(err, storage.ErrNotLocal) {
		result, err := b.fetchRemote(ctx, req)
		return result, true, err
	}
	if err != nil {
		return storage.RemoteReadResult{}, false, err
	}
	result := storage.RemoteReadResult{FirstOffset: found.FirstOffset, NextOffset: found.NextOffset, Release: func() {}}
	if found.Size > 0 {
		defer found.Region.Release()
		result.Data = make([]byte, found.Size)
		if n, err := found.Region.ReadAt(result.Data, 0); n < found.Size {
			return result, false, err
		}
	}
	return result, false, nil
}

type answer struct {
	result storage.RemoteReadResult
	err    error
}

func (b *broker) fetchRemote(ctx context.Context, req storage.RemoteReadRequest) (storage.RemoteReadResult, error) {
	got := <-b.startFetch(ctx, req)
	if got.result.Region.Size() > 0 { // a file, of the local log or of the cache
		got.result.Data = make([]byte, got.result.Region.Size())
		_, err := got.result.Region.ReadAt(got.result.Data, 0)
		must(b.t, err)
	}
	return got.result, got.err
}

func (b *broker) startFetch(ctx context.Context, req storage.RemoteReadRequest) <-chan answer {
	done := make(chan answer, 1)
	b.tier.StartRead(ctx, eventsID, req, func(result storage.RemoteReadResult, err error) {
		done <- answer{result, err}
	})
	return done
}

// readAll reads from an offset to the end of what is committed, and returns the batches.
func (b *broker) readAll(offset int64) []byte {
	b.t.Helper()
	var all []byte
	upTo := b.log().HighWatermark()
	for offset < upTo {
		result, _, err := b.fetch(context.Background(), storage.RemoteReadRequest{
			Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, UpTo: upTo,
		})
		must(b.t, err)
		if len(result.Data) == 0 || result.NextOffset <= offset {
			b.t.Fatalf("no progress at offset %d of %d", offset, upTo)
		}
		all = append(all, result.Data...)
		result.Release()
		offset = result.NextOffset
	}
	return all
}

// keys lists the bucket.
func (b *broker) keys() []string {
	b.t.Helper()
	var keys []string
	must(b.t, b.disks.bucket.List(context.Background(), "", "", func(object objectstore.ObjectInfo) error {
		keys = append(keys, object.Key)
		return nil
	}))
	return keys
}

// metric reads a metric, summed up over its labels.
func (b *broker) metric(name string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	must(b.t, err)
	var sum float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return sum
}

func (b *broker) failures() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.fails)
}

// inBubble runs a test in fake time.
func inBubble(t *testing.T, test func(t *testing.T)) { synctest.Test(t, test) }

func testdata(name string) string { return filepath.Join("testdata", name) }
