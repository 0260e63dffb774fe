package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
)

// Metadata is the cluster's metadata as checkpoints need it; metastore.Store is one.
type Metadata interface {
	Image() *image.Image
	// Items is a partition's tier state and manifest, both as of one moment, which is no older than Image. Who is not
	// tiered has neither.
	Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error)
	Propose(ctx context.Context, cmd command.Command) (any, error)
	ElapsedMs() int64
}

// ErrLoading is what Options.Groups answers while it does not know all groups.
var ErrLoading = errors.New("not all groups are loaded yet")

// Options are what a Writer is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	BrokerID   kafka.BrokerID
	ClusterID  kafka.UUID
	Bucket     objectstore.Bucket
	Metadata   Metadata
	Claim      *Claim
	// Groups lists the groups with what they have committed; ErrLoading leaves those of the last checkpoint. Nil: there
	// are none.
	Groups func() ([]Group, error)
	// Uncollected is the highest index of the metadata log at which something became garbage that has to wait for two
	// checkpoints without it; 0 if nothing does. Nil: nothing ever does.
	Uncollected func() (uint64, error)
	// Internal tells the topics that are made anew by a restore, and so are left out.
	Internal func(topic string) bool
	Interval time.Duration // between two checkpoints, if anything changes
	NewID    func() kafka.UUID
}

// kept is how many checkpoints stay in the bucket: as many as the metadata remembers. Two are enough for what
// collection promises; more are for a bucket in which more is broken than one object.
const kept = command.KeptCheckpoints

// needed is how many checkpoints must be without an object before it is collected, so that the newest may be damaged.
const needed = 2
