package txn

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/internal/kafka"
)

// Listed is a transactional id in a list.
type Listed struct {
	TransactionalID string
	Transaction
}

// List returns the transactional ids of this broker that are wanted, in no particular order.
// COORDINATOR_LOAD_IN_PROGRESS if there are others about to be served here.
func (c *Coordinator) List(ctx context.Context, wanted func(Listed) bool) ([]Listed, error) {
	shards, loading := c.runtime.Shards()
	if loading {
		return nil, fmt.Errorf("transactional ids are being loaded: %w", kafka.CoordinatorLoadInProgress)
	}
	var all []Listed
	for _, shard := range shards {
		listed, err := listShard(ctx, shard, wanted)
		if err != nil {
			return nil, err
		}
		all = append(all, listed...)
	}
	return all, nil
}

// listShard lists what is in memory, and of the view what is not.
func listShard(ctx context.Context, shard *coordinator.Shard, wanted func(Listed) bool) ([]Listed, error) {
	var inMemory map[string]Transaction
	promise := coordinator.NewPromise[Outcome]()
	err := whileServing(shard, func(r *registry) {
		inMemory = make(map[string]Transaction, len(r.ids))
		newest := &entry{}
		for id, e := range r.ids {
			inMemory[id] = e.Transaction
			if e.end > newest.end {
				newest = e
			}
		}
		r.awaitCommitted(newest, func(err error) { promise.Resolve(Outcome{Err: err}) })
	})
	if err != nil {
		return nil, err
	}
	if outcome := await(ctx, promise); outcome.Err != nil {
		return nil, outcome.Err
	}
	var all []Listed
	for _, id := range slices.Sorted(maps.Keys(inMemory)) {
		if one := (Listed{id, inMemory[id]}); one.ID != NoProducer.ID && wanted(one) {
			all = append(all, one)
		}
	}
	err = shard.Scan(nil, func(key []byte, found coordinator.Entry) error {
		id, t, err := decode(key, found.Value)
		if _, seen := inMemory[id]; err == nil && !seen && wanted(Listed{id, t}) {
			all = append(all, Listed{id, t})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list transactional ids: %w", err)
	}
	return all, nil
}
