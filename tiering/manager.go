package tiering

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/fetch"
	"github.com/firnlog/firn/tiering/gc"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/upload"
)

// Manager is the tier of one broker. Its methods may be called concurrently, and before Run.
type Manager struct {
	options   Options
	manifests *manifest.Manifests
	uploader  *upload.Uploader
	reader    *fetch.Reader
	collector *gc.Collector
	changed   chan struct{} // has room for one: wanted is not what it was

	mu sync.RWMutex // guards the fields below
	// wanted is which tasks ought to run; Run brings it about.
	wanted map[kafka.TopicIDPartition]assignment
	// tasks are those that run, for whoever knows a partition by its name.
	tasks map[kafka.TopicPartition]*upload.Task
}

// New makes the tier of a broker. Nothing happens before Run.
func New(options Options) *Manager {
	options = options.withDefaults()
	m := &Manager{
		options: options,
		changed: make(chan struct{}, 1),
		wanted:  map[kafka.TopicIDPartition]assignment{},
		tasks:   map[kafka.TopicPartition]*upload.Task{},
	}
	cfg, events := options.Config, options.Events
	m.manifests = manifest.New(manifest.Options{
		Source: options.Metadata, Bucket: options.Bucket, ClusterID: options.ClusterID, CacheBytes: manifestCacheBytes,
		Registerer: options.Registerer,
	})
	m.uploader = upload.New(upload.Options{
		MaxTopicSeries: options.MaxTopicSeries,
		Logger:         options.Logger, Registerer: options.Registerer, ClusterID: options.ClusterID,
		Bucket: options.Bucket, Metadata: options.Metadata, Logs: options.Logs.Log, NewUploadID: options.NewUploadID,
		Checkpointed: options.Checkpointed,
		Events: upload.Events{
			Uploaded: events.SegmentUploaded, Committed: events.SegmentCommitted, Failed: events.UploadFailed,
		},
		Interval: cfg.TaskInterval, Limits: cfg.Uploads,
		Deadline: cfg.UploadDeadline, Reservation: cfg.Reservation, Shape: cfg.Shape,
	})
	m.reader = fetch.New(fetch.Options{
		MaxTopicSeries: options.MaxTopicSeries,
		Logger:         options.Logger, Registerer: options.Registerer, Bucket: options.Bucket,
		Metadata: options.Metadata, Manifests: m.manifests, Local: m.localLog, Cache: options.Cache,
		Concurrency: cfg.FetchConcurrency, Queue: cfg.FetchQueue,
		MemoryBytes: cfg.FetchMemoryBytes, ReadAheadBytes: cfg.ReadAheadBytes,
	})
	m.collector = gc.New(gc.Options{
		Logger: options.Logger, Registerer: options.Registerer, BrokerID: options.BrokerID, ClusterID: options.ClusterID,
		Bucket: options.Bucket, Metadata: options.Metadata, Source: options.Garbage, ObjectDeleted: events.ObjectDeleted,
		Claim: options.Claim, CheckpointsNeeded: cfg.Checkpoints, Reserved: options.Reserved, Has: m.manifests.Has,
		Interval: cfg.TaskInterval, Grace: cfg.Grace, UploadDeadline: cfg.UploadDeadline, Reservation: cfg.Reservation,
	})
	if options.Registerer != nil {
		options.Registerer.MustRegister(&lagCollector{manager: m})
	}
	return m
}

// Collection tells what is to be deleted from the bucket, and what it waits for.
func (m *Manager) Collection() gc.Status { return m.collector.Status() }

// Collect has what is due deleted at once.
func (m *Manager) Collect() { m.collector.Wake() }

// manifestCacheBytes is for the manifests of a few thousand partitions that are read, and what of them is sealed.
const manifestCacheBytes = 64 << 20

// SetConcurrency changes how many requests of reads there are at a time.
func (m *Manager) SetConcurrency(reads int) { m.reader.SetConcurrency(reads) }

// SetUploadLimits changes what uploads are held to.
func (m *Manager) SetUploadLimits(limits upload.Limits) { m.uploader.SetLimits(limits) }

// Run copies, reads and collects until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { m.supervise(ctx); return nil })
	group.Go(func() error { m.manifests.Run(ctx); return nil })
	group.Go(func() error { m.reader.Run(ctx); return nil })
	if m.options.Cache != nil {
		group.Go(func() error { return m.options.Cache.Run(ctx) })
	}
	group.Go(func() error { m.collector.Run(ctx); return nil })
	return group.Wait()
}

// SegmentRolled tells that a log has begun a new segment: the one before it can be copied soon.
func (m *Manager) SegmentRolled(tp kafka.TopicPartition, _ int64) {
	if task := m.task(tp); task != nil {
		task.Wake()
	}
}

// Advanced tells that the high watermark of a partition has moved. It is cheap, since that happens all the time.
func (m *Manager) Advanced(tp kafka.TopicPartition) {
	if task := m.task(tp); task != nil {
		task.Advanced()
	}
}

func (m *Manager) task(tp kafka.TopicPartition) *upload.Task {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.tasks[tp]
}

// StartRead implements replica.RemoteLog.
func (m *Manager) StartRead(ctx context.Context, tp kafka.TopicIDPartition, req storage.RemoteReadRequest,
	done func(storage.RemoteReadResult, error),
) {
	m.reader.StartRead(ctx, tp, req, done)
}

// OffsetForTimestamp implements replica.RemoteLog.
func (m *Manager) OffsetForTimestamp(ctx context.Context, tp kafka.TopicIDPartition, timestamp int64) (
	storage.TimestampOffset, bool, error,
) {
	return m.reader.OffsetForTimestamp(ctx, tp, timestamp)
}

// MaxTimestamp implements replica.RemoteLog.
func (m *Manager) MaxTimestamp(ctx context.Context, tp kafka.TopicIDPartition) (storage.TimestampOffset, bool, error) {
	return m.reader.MaxTimestamp(ctx, tp)
}

// Manifests say which segments are remote.
func (m *Manager) Manifests() *manifest.Manifests { return m.manifests }

// AdvanceStart moves the log start offset of a tiered partition by a commit of the metastore; objects wholly below it
// are collected later. If the outcome is unknown it may be called again: a start that is reached already stays.
func (m *Manager) AdvanceStart(ctx context.Context, tp kafka.TopicIDPartition, offset int64) error {
	partition, found := m.options.Metadata.Image().PartitionByID(tp)
	if !found {
		return fmt.Errorf("advance the start of %s: %w", tp, kafka.UnknownTopicOrPartition)
	}
	if partition.Leader != m.options.BrokerID {
		return fmt.Errorf("advance the start of %s: %w", tp, kafka.NotLeaderOrFollower)
	}
	for attempt := 1; ; attempt++ {
		err := m.proposeStart(ctx, tp, partition, offset)
		switch {
		case err == nil:
			m.collector.Wake()
			return nil
		case errors.Is(err, command.ErrTierMoved) && attempt < advanceAttempts:
			m.manifests.Forget(tp) // what was counted is in another reference by now
		default:
			return fmt.Errorf("advance the start of %s to %d: %w", tp, offset, err)
		}
	}
}

// advanceAttempts: a seal may come between counting and the commit, but not again and again.
const advanceAttempts = 3

func (m *Manager) proposeStart(ctx context.Context, tp kafka.TopicIDPartition, partition *image.Partition, offset int64,
) error {
	var below command.Below
	if partition.Tier != nil {
		tree, err := m.manifests.Get(ctx, tp)
		if err == nil {
			below, err = tree.Below(ctx, offset)
		}
		if err != nil {
			return err
		}
	}
	_, err := m.options.Metadata.Propose(ctx, command.AdvanceStart{
		Partition: tp, LeaderEpoch: partition.Epoch, Start: offset, ElapsedMs: m.options.Metadata.ElapsedMs(), Below: below,
	})
	return err
}

// localLog finds the local log of a partition that is known by its id.
func (m *Manager) localLog(tp kafka.TopicIDPartition) (*storage.Log, error) {
	topic, found := m.options.Metadata.Image().TopicByID(tp.ID)
	if !found {
		return nil, fmt.Errorf("local log of %s: %w", tp, kafka.UnknownTopicID)
	}
	return m.options.Logs.Log(kafka.TopicPartition{Topic: topic.Name, Partition: tp.Partition})
}

// Apply takes over a change of the cluster's metadata; Store.Watch calls it. It neither waits nor proposes.
func (m *Manager) Apply(img *image.Image, delta image.Delta) {
	m.mu.Lock()
	changed := m.assign(img, delta)
	m.mu.Unlock()
	for _, topic := range delta.TopicsDeleted {
		m.uploader.ForgetTopic(topic.Name)
		m.reader.ForgetTopic(topic.Name)
	}
	if len(delta.TopicsDeleted) > 0 || delta.ControllerChanged || delta.Reset {
		m.collector.Wake()
	}
	if !changed {
		return
	}
	select {
	case m.changed <- struct{}{}:
	default: // Run has not looked yet and will find this, too
	}
}
