package gc

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/objectstore"
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
}

// Options are what a Collector is made of.
type Options struct {
	Logger        *slog.Logger
	Registerer    prometheus.Registerer // nil registers nothing
	BrokerID      kafka.BrokerID
	ClusterID     kafka.UUID
	Bucket        objectstore.Bucket
	Metadata      Metadata
	Source        Source
	ObjectDeleted func(key string) // nil: nobody wants to know

	Interval       time.Duration // between two rounds at most
	Grace          time.Duration // readers may hold what was removed for that long
	UploadDeadline time.Duration // a put may land that much later than its reservation lapsed
	Reservation    time.Duration // of an upload id
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
	next := c.lapseAt
	for _, collect := range []func(context.Context, int64) (int64, error){
		c.collectGarbage, c.collectTopics,
	} {
		dueAt, err := collect(ctx, now)
		if err != nil {
			return 0, err
		}
		next = min(next, dueAt)
	}
	return time.Duration(next-now) * time.Millisecond, nil
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
