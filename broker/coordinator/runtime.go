package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
)

// Options are what a Runtime is made of.
type Options struct {
	// Topic is the internal topic whose partitions are the journals.
	Topic string
	// Store holds the views of this topic's journals; several runtimes may share one.
	Store  Store
	Logger *slog.Logger
	// Registerer takes the metrics; nil registers nothing.
	Registerer prometheus.Registerer
	// Loaded builds the coordinator's state in memory from a view that has applied all that the journal had when the
	// broker began to lead it. The shard is locked, and does not serve before Loaded returns. After an error it is tried
	// again some time later.
	Loaded func(*Shard) error
	// Lost ends the coordinator's state in memory: who waits for others there is answered NOT_COORDINATOR, timers end.
	// The shard is locked, and refuses to append already. What waits by Await is not Lost's business.
	Lost func(*Shard)
}

// Runtime keeps the shards of one internal topic: one for each partition that this broker leads.
type Runtime struct {
	options Options
	metrics *metrics

	mu         sync.RWMutex // guards the fields below
	topic      kafka.TopicID
	partitions int32 // 0 as long as the topic does not exist
	shards     map[int32]*Shard
	last       map[int32]*Shard // of each partition, whether it is led still or not
	start      []*Shard         // not run yet
	draining   bool

	work chan struct{} // a token when there is something in start
}

// New makes a Runtime that leads nothing yet.
func New(options Options) *Runtime {
	r := &Runtime{
		options: options,
		shards:  map[int32]*Shard{},
		last:    map[int32]*Shard{},
		work:    make(chan struct{}, 1),
	}
	r.metrics = newMetrics(r, options.Registerer)
	return r
}

// Run applies the journals to their views until ctx ends.
func (r *Runtime) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		for _, shard := range r.takeStart() {
			running.Go(func() { shard.run(ctx) })
		}
		select {
		case <-r.work:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Runtime) takeStart() []*Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	start := r.start
	r.start = nil
	return start
}

// SetTopic tells which topic has the journals and how many partitions it has. It goes before Lead.
func (r *Runtime) SetTopic(id kafka.TopicID, partitions int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topic, r.partitions = id, partitions
}

// Lead says that this broker leads a partition in an epoch. The shard loads in the background; one of an earlier epoch
// is lost. The same epoch again changes nothing.
func (r *Runtime) Lead(partition int32, epoch kafka.LeaderEpoch, journal Journal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	led, ok := r.shards[partition]
	if r.draining || ok && led.epoch == epoch {
		return
	}
	if ok {
		led.resign()
	}
	shard := newShard(r, partition, epoch, journal)
	r.shards[partition], r.last[partition] = shard, shard
	r.start = append(r.start, shard)
	select {
	case r.work <- struct{}{}:
	default: // Run will see it together with the one before
	}
}

// Resign says that this broker does not lead a partition any more; it need not have.
func (r *Runtime) Resign(partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shard, ok := r.shards[partition]; ok {
		delete(r.shards, partition)
		shard.resign()
	}
}

// Advanced says that the high watermark of a partition has moved. It returns at once.
func (r *Runtime) Advanced(partition int32) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if shard, ok := r.shards[partition]; ok {
		shard.wakeUp()
	}
}

// Drain loses all shards, so that nobody waits for others any more: the node is about to stop. What was appended is
// still answered.
func (r *Runtime) Drain() {
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()
	for _, shard := range r.all() {
		shard.lose(draining)
	}
}

// PartitionOf tells which partition coordinates a group or a transactional id; false if the topic does not exist yet.
func (r *Runtime) PartitionOf(id string) (int32, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.partitions == 0 {
		return 0, false
	}
	return PartitionOf(id, r.partitions), true
}

// Find returns the shard that coordinates a group or a transactional id. NOT_COORDINATOR: it is elsewhere, or there is
// no topic yet, which FindCoordinator makes. COORDINATOR_LOAD_IN_PROGRESS: it will be here. COORDINATOR_NOT_AVAILABLE:
// the node is about to stop.
func (r *Runtime) Find(id string) (*Shard, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.draining {
		return nil, fmt.Errorf("the broker is about to stop: %w", kafka.CoordinatorNotAvailable)
	}
	if r.partitions == 0 {
		return nil, fmt.Errorf("%s does not exist yet: %w", r.options.Topic, kafka.NotCoordinator)
	}
	partition := PartitionOf(id, r.partitions)
	shard, ok := r.shards[partition]
	if !ok {
		return nil, fmt.Errorf("%s-%d is not led here: %w", r.options.Topic, partition, kafka.NotCoordinator)
	}
	return shard, shard.err()
}

// AwaitLoaded waits until all shards have been loaded or have failed to: a client that is sent here at once is not told
// to come back.
func (r *Runtime) AwaitLoaded(ctx context.Context) {
	for _, shard := range r.all() {
		select {
		case <-shard.tried:
		case <-ctx.Done():
			return
		}
	}
}

// Shards lists the shards that serve, by partition. loading says that there are others that are about to.
func (r *Runtime) Shards() (serving []*Shard, loading bool) {
	for _, shard := range r.all() {
		if shard.err() == nil {
			serving = append(serving, shard)
		} else {
			loading = true
		}
	}
	return serving, loading
}

func (r *Runtime) all() []*Shard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	shards := make([]*Shard, 0, len(r.shards))
	for _, shard := range r.shards {
		shards = append(shards, shard)
	}
	slices.SortFunc(shards, func(a, b *Shard) int { return int(a.partition - b.partition) })
	return shards
}
