package group

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/broker/group/machine"
)

// Topic is the internal topic whose partitions are the journals.
const Topic = "__consumer_offsets"

// Answer is an answer that a request waits for.
type Answer = coordinator.Promise[kmsg.Response]

// Options are what a Coordinator is made of.
type Options struct {
	Store coordinator.Store
	// Cluster tells of the topics that there are now, in metadata as new as the journals that are led, and of the
	// settings of groups.
	Cluster    consumer.Cluster
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Config     Config
}

// Coordinator serves the groups whose journals this broker leads.
type Coordinator struct {
	options Options
	runtime *coordinator.Runtime
	sweep   chan struct{} // a token when there is something in unswept

	mu      sync.Mutex           // a leaf; guards the fields below
	unswept []*coordinator.Shard // those in which offsets of deleted topics have to be looked for
}

// New makes a coordinator that leads nothing yet.
func New(options Options) *Coordinator {
	c := &Coordinator{options: options, sweep: make(chan struct{}, 1)}
	c.runtime = coordinator.New(coordinator.Options{
		Topic: Topic, Store: options.Store, Logger: options.Logger, Registerer: options.Registerer,
		Loaded: c.loaded, Lost: c.lost,
	})
	return c
}

// Runtime is what is told which journals this broker leads.
func (c *Coordinator) Runtime() *coordinator.Runtime { return c.runtime }

// Run keeps the groups until ctx ends.
func (c *Coordinator) Run(ctx context.Context) error {
	var cleaning sync.WaitGroup
	defer cleaning.Wait()
	cleaning.Go(func() { c.clean(ctx) })
	return c.runtime.Run(ctx)
}

// clean removes what is not needed any more: offsets and groups whose time is over, and offsets of deleted topics.
func (c *Coordinator) clean(ctx context.Context) {
	due := time.NewTicker(c.options.Config.RetentionCheckInterval)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			c.expire(time.Now())
		case <-c.sweep:
			c.sweepTopics(c.takeUnswept())
		case <-ctx.Done():
			return
		}
	}
}

// refusal makes the answer of an API that says that nothing came of a request.
type refusal func(err error) kmsg.Response

// turn is a request's turn at its group: the shard's lock is held.
type turn struct {
	*registry
	slot   *slot
	waiter machine.Waiter
	now    time.Time
}

// serve gives a request its turn. The event says what is to be done: a step, in which it or a later event answers the
// waiter, or an error, of which refuse makes the answer.
func (c *Coordinator) serve(groupID string, refuse refusal, event func(turn) (machine.Step, error)) *Answer {
	shard, err := c.runtime.Find(groupID)
	if err != nil {
		return coordinator.Resolved(refuse(err))
	}
	shard.Lock()
	defer shard.Unlock()
	if err := shard.Serving(); err != nil {
		return coordinator.Resolved(refuse(err))
	}
	r := shard.State.(*registry)
	s, err := r.find(groupID)
	if err != nil {
		return coordinator.Resolved(refuse(err))
	}
	answer := coordinator.NewPromise[kmsg.Response]()
	waiter := r.wait(answer, refuse)
	step, err := event(turn{registry: r, slot: s, waiter: waiter, now: time.Now()})
	if err != nil {
		r.take(waiter).refuse(err)
		step = machine.Step{}
	}
	r.carryOut(s, step)
	return answer
}

// reply is a step that does nothing but answer.
func (t turn) reply(response kmsg.Response) machine.Step {
	return machine.Step{Replies: []machine.Reply{{Waiter: t.waiter, Response: response}}}
}
