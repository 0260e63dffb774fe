package upload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/budget"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// Metadata is the cluster's metadata as uploads need it.
type Metadata interface {
	Image() *image.Image
	// Propose has a command applied. Its result is visible in Image and Items once it has returned.
	Propose(ctx context.Context, cmd command.Command) (any, error)
	// Items is a partition's tier state, and the top level of its manifest.
	Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error)
	ElapsedMs() int64
}

// Events are told of what uploads do; each func is optional and must not block.
type Events struct {
	// Uploaded: the object is in the bucket and not yet part of the log.
	Uploaded func(tp kafka.TopicPartition, entry command.SegmentEntry)
	// Committed: the object is part of the log, so that local copies of it may go.
	Committed func(tp kafka.TopicPartition, entry command.SegmentEntry)
	// Failed: an upload will be tried again.
	Failed func(tp kafka.TopicPartition, baseOffset int64, err error)
}

// Options are what all tasks of a broker share.
type Options struct {
	Logger      *slog.Logger
	Registerer  prometheus.Registerer // nil registers nothing
	ClusterID   kafka.UUID
	Bucket      objectstore.Bucket
	Metadata    Metadata
	Logs        func(tp kafka.TopicPartition) (*storage.Log, error)
	NewUploadID func() kafka.UUID // random: an id is never drawn twice
	// Checkpointed waits until a checkpoint knows the topic as it is now, since a restore could do nothing with a segment
	// of a topic that it does not know; nil does not wait.
	Checkpointed func(ctx context.Context, topic kafka.TopicID) error
	Events       Events

	Interval    time.Duration // between two looks when nothing happens
	Deadline    time.Duration // of one upload
	Reservation time.Duration // of an upload id; longer than Deadline
	Limits      Limits
	Shape       manifest.Shape

	// MaxTopicSeries is the number of topics above which the series of single ones are left out of the metrics.
	MaxTopicSeries int
}

// Limits bound what all tasks of a broker do together; they may change while they work.
type Limits struct {
	Concurrency    int           // uploads at a time
	BytesPerSecond int64         // of all uploads, on average; 0 is no limit
	RollAfter      time.Duration // for which a record may wait in an open segment before that is sealed; 0 is for ever
}

// Uploader makes the tasks of a broker and bounds what they do together.
type Uploader struct {
	options Options
	metrics metrics
	slots   queue // for uploads under way
	budget  *budget.Bytes
	// rollAfter is the limit of that name.
	rollAfter atomic.Int64
}

// New makes an uploader. It runs nothing: tasks do.
func New(options Options) *Uploader {
	metrics := newMetrics(options.Registerer, options.MaxTopicSeries)
	u := &Uploader{options: options, metrics: metrics, budget: budget.New(0)}
	u.SetLimits(options.Limits)
	return u
}

// NewTask makes the task of a partition. random spreads its retries.
func (u *Uploader) NewTask(partition Partition, settings Settings, random *rand.Rand) *Task {
	t := &Task{uploader: u, options: &u.options, partition: partition, random: random, wake: make(chan struct{}, 1)}
	t.reserved.init(t)
	t.sealing.retry = newBackoff(random)
	t.settings.Store(&settings)
	return t
}

// errStuck: the store neither finished nor gave up.
var errStuck = errors.New("the object store has not answered long after the deadline")

// stuckAfter is how long a put may take to notice that its deadline is over.
const stuckAfter = 10 * time.Second

// source is a segment on its way: what is put, and what gives back the segment and the slot.
type source struct {
	object  *segment.Object
	release func()
	free    func()
}

// put stores the object. Whatever the store does, put returns soon after ctx has ended; a put that hangs keeps its
// source and its slot until it returns, so that hanging ones cannot pile up.
func (u *Uploader) put(ctx context.Context, s source) error {
	key := s.object.Tail.Key().String()
	watch := newWatch(u.options.Logger, key, s.object.Size())
	done := make(chan error)
	abandoned := make(chan struct{})
	defer close(abandoned)
	go func() { // ends with the put, which ctx ends; who does not wait for it any more has said so
		defer s.free()
		err := u.options.Bucket.Put(ctx, key, s.object, s.object.Size(),
			objectstore.PutOptions{CRC32C: s.object.CRC32C(), HasCRC32C: true, Sent: func(n int64) { watch.sent.Add(n) }})
		s.release()
		select {
		case done <- err:
		case <-abandoned:
			u.discard(key)
		}
	}()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	var late <-chan time.Time // once the deadline is over
	over := ctx.Done()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			watch.tell()
		case <-over:
			over, late = nil, time.After(stuckAfter)
		case <-late:
			u.metrics.stuck.Inc()
			return fmt.Errorf("put %s: %w", key, errStuck)
		}
	}
}

// discard removes what a put may have stored after all, long after it was given up: its upload id may have lapsed and
// been collected by then, and nobody would look for the object again. It was never offered for a commit.
func (u *Uploader) discard(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), u.options.Deadline)
	defer cancel()
	if err := u.options.Bucket.Delete(ctx, key); err != nil {
		u.options.Logger.Warn("an object of an upload that was given up may be left in the bucket", "key", key, "err", err)
	}
}

// acquire waits for a slot, and until the segment's bytes may go.
func (u *Uploader) acquire(ctx context.Context, job Job) (free func(), err error) {
	if err := u.slots.enter(ctx, job.Appended.First); err != nil {
		return nil, err
	}
	waited, err := u.budget.Spend(ctx, job.Bytes)
	u.metrics.throttled.Add(waited.Seconds())
	if err != nil {
		u.slots.leave()
		return nil, err
	}
	u.metrics.inFlight.Inc()
	return func() { u.metrics.inFlight.Dec(); u.slots.leave() }, nil
}

// SetLimits changes the limits. Uploads under way go on.
func (u *Uploader) SetLimits(limits Limits) {
	u.slots.setWidth(max(limits.Concurrency, 1))
	u.budget.SetRate(float64(limits.BytesPerSecond))
	u.rollAfter.Store(int64(limits.RollAfter))
}

// ForgetTopic lets go of what is kept for a deleted topic's metrics.
func (u *Uploader) ForgetTopic(topic string) { u.metrics.forget(topic) }
