package gc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// Metadata is the cluster's metadata as a collection needs it.
type Metadata interface {
	Image() *image.Image
	Propose(ctx context.Context, cmd command.Command) (any, error)
	ElapsedMs() int64
}

// Source says what may be deleted.
type Source interface {
	Garbage() ([]command.Garbage, error)
	DeletedTopics() ([]command.DeletedTopic, error)
	Pins() ([]command.Pin, error)
	Checkpoints() ([]command.Checkpoint, error)
}

// Claim tells whether the cluster still owns its part of the bucket.
type Claim interface {
	Check(ctx context.Context) error
}

// Options are what a Collector is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	BrokerID   kafka.BrokerID
	ClusterID  kafka.UUID
	Bucket     objectstore.Bucket
	Metadata   Metadata
	Source     Source
	Claim      Claim // nil: nobody can take the bucket over
	// Reserved lists the upload ids of a partition that are not committed yet, and Has tells whether its manifest has an
	// object.
	Reserved      func(tp kafka.TopicIDPartition) ([]kafka.UUID, error)
	Has           func(ctx context.Context, key segment.Key) (bool, error)
	ObjectDeleted func(key string) // nil: nobody wants to know

	Interval time.Duration // between two rounds at most
	Grace    time.Duration // readers may hold what was removed for that long
	// CheckpointsNeeded is how many durable checkpoints must be without what was removed: two, so that one may be damaged.
	CheckpointsNeeded int
	UploadDeadline    time.Duration // a put may land that much later than its reservation lapsed
	Reservation       time.Duration // of an upload id
}

// Collector deletes garbage, one request at a time: it is never urgent, and must not take the store's attention from
// uploads and reads.
type Collector struct {
	options Options
	metrics metrics
	wake    chan struct{} // has room for one: there may be something new

	// The fields below are Run's alone.

	listed  map[kafka.UUID]bool // lapsed uploads that have been looked for a first time
	lapseAt int64               // elapsed time of the next LapseReservations
	claimed bool                // the claim was found to hold in this round

	mu     sync.Mutex // guards the field below
	status Status
}

// Status is how the last round went, for whoever wants to know why something is still in the bucket.
type Status struct {
	Waits Waits
	At    time.Time // when the round ended; zero before the first one
	Err   error     // why it failed; it will be tried again
}

// Status tells how the last round went.
func (c *Collector) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *Collector) setWaits(waits Waits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Waits = waits
}

func (c *Collector) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.At, c.status.Err = time.Now(), err
}

// New makes a collector.
func New(options Options) *Collector {
	return &Collector{
		options: options, metrics: newMetrics(options.Registerer), wake: make(chan struct{}, 1),
		listed: map[kafka.UUID]bool{},
	}
}

// Wake has the collector look again: something has become garbage.
func (c *Collector) Wake() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// The first wait after a failed round, and the longest.
const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
)

// Run collects until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	retry := retryMin
	for {
		wait, wake := c.options.Interval, c.wake
		due, err := c.round(ctx)
		c.ended(err)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.metrics.errors.Inc()
			c.options.Logger.Warn("a collection of garbage has failed and will be tried again", "err", err)
			wait, wake, retry = retry, nil, min(2*retry, retryMax)
		default:
			wait, retry = min(max(due, minWait), wait), retryMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-wake:
			timer.Stop()
		}
	}
}

// minWait keeps rounds apart when time runs in smaller steps than elapsed time is counted.
const minWait = 10 * time.Millisecond

// round deletes what is due and tells how long it is until the next piece is.
func (c *Collector) round(ctx context.Context) (due time.Duration, err error) {
	if c.options.Metadata.Image().Controller != c.options.BrokerID {
		return c.options.Interval, nil
	}
	now := c.options.Metadata.ElapsedMs()
	if err := c.lapse(ctx, now); err != nil {
		return 0, err
	}
	c.claimed = false
	r, err := c.rule(now)
	if err != nil {
		return 0, err
	}
	next := c.lapseAt
	for _, collect := range []func(context.Context, rule) (int64, error){
		c.collectGarbage, c.collectTopics,
	} {
		dueAt, err := collect(ctx, r)
		if err != nil {
			return 0, err
		}
		next = min(next, dueAt)
	}
	return time.Duration(next-now) * time.Millisecond, nil
}

// rule is what holds in this round.
func (c *Collector) rule(now int64) (rule, error) {
	checkpoints, err := c.options.Source.Checkpoints()
	if err != nil {
		return rule{}, err
	}
	pins, err := c.options.Source.Pins()
	if err != nil {
		return rule{}, err
	}
	c.metrics.pins.Set(float64(len(pins)))
	return rule{
		nowMs: now, graceMs: c.options.Grace.Milliseconds(), uploadDeadlineMs: c.options.UploadDeadline.Milliseconds(),
		settled: settledAt(checkpoints, c.options.CheckpointsNeeded), pins: pins,
	}, nil
}

// checkClaim asks once in a round whether what is to be deleted is still this cluster's.
func (c *Collector) checkClaim(ctx context.Context) error {
	if c.claimed || c.options.Claim == nil {
		return nil
	}
	if err := c.options.Claim.Check(ctx); err != nil {
		return fmt.Errorf("nothing is deleted: %w", err)
	}
	c.claimed = true
	return nil
}

// lapse ends reservations whose time is over. Four times per reservation is soon enough, and it also has the log carry
// the elapsed time on, so that restarts do not stretch the waits for ever.
func (c *Collector) lapse(ctx context.Context, now int64) error {
	if now < c.lapseAt {
		return nil
	}
	if err := c.propose(ctx, command.LapseReservations{ElapsedMs: now}); err != nil {
		return err
	}
	c.lapseAt = now + max(c.options.Reservation.Milliseconds()/4, 1)
	return nil
}

// proposeTimeout ends the wait for the metastore. What is collected here may be proposed any number of times.
const proposeTimeout = 30 * time.Second

func (c *Collector) propose(ctx context.Context, cmd command.Command) error {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	_, err := c.options.Metadata.Propose(ctx, cmd)
	return err
}
