package tiering

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/cache"
	"github.com/firnlog/firn/tiering/gc"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/upload"
)

// Metadata is the cluster's metadata as the tier needs it; metastore.Store is one.
type Metadata interface {
	Image() *image.Image
	// Propose has a command applied. Its result is visible in Image and Items once it has returned.
	Propose(ctx context.Context, cmd command.Command) (any, error)
	// Items is a partition's tier state, and the top level of its manifest.
	Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error)
	ElapsedMs() int64
}

// Logs are the broker's local logs; storage.Manager has them.
type Logs interface {
	Log(tp kafka.TopicPartition) (*storage.Log, error)
}

// Options are what a Manager is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	BrokerID   kafka.BrokerID
	ClusterID  kafka.UUID
	Bucket     objectstore.Bucket
	Metadata   Metadata
	Garbage    gc.Source // what may be deleted from the bucket; metastore.Store knows
	// Reserved lists the upload ids of a partition that are not committed yet; metastore.Store knows.
	Reserved func(tp kafka.TopicIDPartition) ([]kafka.UUID, error)
	Claim    gc.Claim // asked before something is deleted; nil: nobody can take the bucket over
	Logs     Logs
	// Checkpointed returns once a checkpoint in the bucket knows a topic as it is now: no segment of it becomes part of
	// the log before. Nil: there are no checkpoints.
	Checkpointed func(ctx context.Context, topic kafka.TopicID) error
	Cache        *cache.Cache // of what is read; nil keeps nothing on the disk. Run runs it
	// Layers are the broker's settings below those of a topic.
	Layers func(*image.Image) config.BrokerLayers
	Config Config
	Events *Events // nil: nobody wants to know
	// NewUploadID draws a random id; nil draws from the system's generator. Random spreads retries; nil is seeded by it.
	NewUploadID func() kafka.UUID
	Random      *mathrand.Rand

	// MaxTopicSeries is the number of topics above which the series of single ones are left out of the metrics.
	MaxTopicSeries int
}

// Config are the settings of the tier; the root package says what they are called.
type Config struct {
	TaskInterval     time.Duration // between two looks at what to copy, when nothing happens
	Uploads          upload.Limits
	UploadDeadline   time.Duration  // of one upload
	Reservation      time.Duration  // of an upload id; longer than UploadDeadline
	Grace            time.Duration  // from the removal of an object's last reference to that of the object
	Checkpoints      int            // that must be durable without an object before it goes
	FetchConcurrency int            // requests to the bucket at a time, for reads
	FetchQueue       int            // reads that may wait
	FetchMemoryBytes int64          // what has been read and is kept, or is being read
	ReadAheadBytes   int64          // ahead of one reader
	Shape            manifest.Shape // of manifests; zero is manifest.DefaultShape
}

// Events are told of what the tier does; each func is optional and must not block.
type Events struct {
	// SegmentUploaded: the object is in the bucket and not yet part of the log.
	SegmentUploaded func(tp kafka.TopicPartition, entry command.SegmentEntry)
	// SegmentCommitted: the object is part of the log, so that local copies of it may go.
	SegmentCommitted func(tp kafka.TopicPartition, entry command.SegmentEntry)
	// UploadFailed: it will be tried again. The base offset is −1 if it was not about one segment.
	UploadFailed func(tp kafka.TopicPartition, baseOffset int64, err error)
	// ObjectDeleted: an object that no log referred to any more has been removed.
	ObjectDeleted func(key string)
}

func (o Options) withDefaults() Options {
	if o.Events == nil {
		o.Events = &Events{}
	}
	if o.Config.Shape == (manifest.Shape{}) {
		o.Config.Shape = manifest.DefaultShape()
	}
	if o.NewUploadID == nil {
		o.NewUploadID = randomID
	}
	if o.Random == nil {
		var seed [32]byte
		_, _ = rand.Read(seed[:]) // never fails, as crypto/rand says
		o.Random = mathrand.New(mathrand.NewChaCha8(seed))
	}
	return o
}

func randomID() kafka.UUID {
	var id kafka.UUID
	_, _ = rand.Read(id[:])
	return id
}
