package txn

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// Config are the settings of the transactions of a broker.
type Config struct {
	MaxTimeout     time.Duration // transaction.max.timeout.ms
	AbortInterval  time.Duration // transaction.abort.timed.out.transaction.cleanup.interval.ms
	Expiration     time.Duration // transactional.id.expiration.ms
	RemoveInterval time.Duration // transaction.remove.expired.transaction.cleanup.interval.ms
}

// Options are what a Coordinator is made of.
type Options struct {
	Store       coordinator.Store
	Logger      *slog.Logger
	Registerer  prometheus.Registerer // nil registers nothing
	ProducerIDs *ProducerIDs
	Markers     Markers
	Config      Config
}

// Marker ends a transaction in one partition.
type Marker struct {
	Partition        kafka.TopicPartition
	Producer         Producer
	Type             record.ControlType
	CoordinatorEpoch kafka.LeaderEpoch
	// Version is that of the transaction protocol: from 2 on the epoch is above that of the transaction's records.
	Version int16
}

// Markers writes the markers of a transaction to their partitions.
type Markers interface {
	// Write returns when each marker is committed or has failed, with an error or nil for each. UNKNOWN_TOPIC_OR_PARTITION
	// means that the partition is no more. To write a marker again does no harm.
	Write(ctx context.Context, markers []Marker) []error
}

// Coordinator serves the transactional ids whose journals this broker leads.
type Coordinator struct {
	options Options
	runtime *coordinator.Runtime
	metrics *metrics
	jobs    jobs
	unused  unusedID
	alarm   alarm
}

// New makes a coordinator that leads nothing yet.
func New(options Options) *Coordinator {
	c := &Coordinator{options: options, metrics: newMetrics(options.Registerer)}
	c.jobs.ready = make(chan struct{}, 1)
	c.unused.wanted = make(chan struct{}, 1)
	c.unused.id = NoProducer.ID
	c.alarm.earlier = make(chan struct{}, 1)
	c.runtime = coordinator.New(coordinator.Options{
		Topic: kafka.TransactionStateTopic, Store: options.Store, Logger: options.Logger, Registerer: options.Registerer,
		Loaded: c.loaded, Lost: lost,
	})
	return c
}

// Runtime is what is told which journals this broker leads.
func (c *Coordinator) Runtime() *coordinator.Runtime { return c.runtime }

// Run keeps the transactions until ctx ends: it applies the journals, writes markers, and looks after the time.
func (c *Coordinator) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.writeMarkers(ctx) })
	running.Go(func() { c.watchTime(ctx) })
	running.Go(func() { c.unused.fill(ctx, c.options.ProducerIDs, c.options.Logger) })
	return c.runtime.Run(ctx)
}

// Outcome is what a request comes to.
type Outcome struct {
	Producer Producer // that the client goes on with, or NoProducer
	Err      error
}

// Promise is an outcome that a request waits for.
type Promise = coordinator.Promise[Outcome]

// parkTime is how long a request waits for the markers of the transaction before. They take as long as a flush, and
// clients that are sent away come back after 20 ms and more. Kafka waits as long in the like case
// (add.partitions.to.txn.retry.backoff.max.ms).
const parkTime = 100 * time.Millisecond

// call is a request's turn at a transactional id.
type call struct {
	id      string
	event   func(Transaction) Decision
	promise *Promise
	parked  *time.Timer // nil before it waits
}

// serve gives an event its turn at a transactional id. It may be asked again after the markers of a transaction.
func (c *Coordinator) serve(transactionalID string, event func(Transaction) Decision) *Promise {
	cl := &call{id: transactionalID, event: event, promise: coordinator.NewPromise[Outcome]()}
	if transactionalID == "" {
		cl.fail(kafka.InvalidRequest)
		return cl.promise
	}
	if err := c.locked(transactionalID, func(r *registry) { r.judge(cl) }); err != nil {
		cl.fail(err)
	}
	return cl.promise
}

// locked gives access to the ids among which one is, unless they are not served here.
func (c *Coordinator) locked(transactionalID string, do func(*registry)) error {
	shard, err := c.runtime.Find(transactionalID)
	if err != nil {
		return err
	}
	return whileServing(shard, do)
}

func whileServing(shard *coordinator.Shard, do func(*registry)) error {
	shard.Lock()
	defer shard.Unlock()
	if err := shard.Serving(); err != nil {
		return err
	}
	do(shard.State.(*registry))
	return nil
}

func (cl *call) fail(err error) { cl.promise.Resolve(Outcome{Producer: NoProducer, Err: err}) }

// answer tells what was decided, unless it could not be committed.
func (cl *call) answer(d Decision, err error) {
	if err != nil {
		cl.fail(err)
		return
	}
	cl.promise.Resolve(Outcome{Producer: d.Answer, Err: d.Err})
}

// await waits for a promise. Who does not wait any longer is told to ask again.
func await(ctx context.Context, promise *Promise) Outcome {
	select {
	case <-promise.Done():
		return promise.Value()
	case <-ctx.Done():
		return Outcome{Producer: NoProducer, Err: kafka.CoordinatorNotAvailable}
	}
}
