package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

// InitProducerID begins a producer of a transactional id and waits until it may (KIP-98, KIP-360). What another one has
// begun is aborted. owner is the producer itself if it goes on after an error, else NoProducer. CONCURRENT_TRANSACTIONS
// means that the end of a transaction takes longer than is worth waiting for.
func (c *Coordinator) InitProducerID(ctx context.Context, id string, timeoutMs int32, owner Producer,
) (Producer, error) {
	timeout := time.Duration(timeoutMs) * time.Millisecond
	if id != "" && (timeout <= 0 || timeout > c.options.Config.MaxTimeout) {
		return NoProducer, fmt.Errorf("a transaction timeout of %d ms is not above 0 and at most %s "+
			"(transaction.max.timeout.ms): %w", timeoutMs, c.options.Config.MaxTimeout, kafka.InvalidTransactionTimeout)
	}
	unused, waited := NoProducer.ID, false
	for {
		outcome := await(ctx, c.serve(id, func(t Transaction) Decision {
			return t.Initialize(Initialize{
				TimeoutMs: timeoutMs, Owner: owner, UnusedID: unused, NowMs: time.Now().UnixMilli(),
			})
		}))
		switch {
		case errors.Is(outcome.Err, errNeedsProducerID) && unused == NoProducer.ID:
			var err error
			if unused, err = c.options.ProducerIDs.Next(ctx); err != nil {
				return NoProducer, fmt.Errorf("%s: %w", err.Error(), kafka.CoordinatorNotAvailable)
			}
		case kafka.CodeOf(outcome.Err) == kafka.ConcurrentTransactions && !waited:
			waited = true // the one before was aborted just now; its markers are waited for once
		default:
			return outcome.Producer, outcome.Err
		}
	}
}

// Add lets partitions join the transaction of a producer. version is that of the transaction protocol.
func (c *Coordinator) Add(id string, producer Producer, partitions []kafka.TopicPartition, version int16) *Promise {
	return c.serve(id, func(t Transaction) Decision {
		return t.Add(Add{Producer: producer, Partitions: partitions, Version: version, NowMs: time.Now().UnixMilli()})
	})
}

// AddPartitions lets partitions join a producer's transaction, as their first records do from transaction.version 2 on
// (KIP-890), or only verifies that they have joined. It waits until that is committed, and answers each partition.
func (c *Coordinator) AddPartitions(ctx context.Context, id string, producer Producer,
	partitions []kafka.TopicPartition, verifyOnly bool,
) []error {
	errs := make([]error, len(partitions))
	var promise *Promise
	if verifyOnly {
		promise = c.Verify(id, producer, partitions, errs)
	} else {
		promise = c.Add(id, producer, partitions, versionEpochBump)
	}
	outcome := await(ctx, promise)
	if outcome.Err == nil {
		return errs
	}
	failed := make([]error, len(partitions)) // errs may still be written if nobody waits any more
	for i := range failed {
		failed[i] = outcome.Err
	}
	return failed
}

// Verify tells whether partitions have joined a producer's transaction: it puts an error or nil for each into errs,
// which nobody may touch before the promise is kept. The outcome's error is one for all.
func (c *Coordinator) Verify(id string, producer Producer, partitions []kafka.TopicPartition, errs []error) *Promise {
	return c.serve(id, func(t Transaction) Decision {
		d := Decision{Next: t, Answer: NoProducer}
		for i, tp := range partitions {
			if errs[i] = t.Verify(producer, tp); kafka.CodeOf(errs[i]) == kafka.ConcurrentTransactions {
				d.Err = errs[i]
			}
		}
		return d
	})
}

// End commits or aborts the transaction of a producer. The outcome stands once the promise is kept; the markers follow.
// version is that of the transaction protocol; from 2 on the outcome has the producer for the next transaction.
func (c *Coordinator) End(id string, producer Producer, commit bool, version int16) *Promise {
	return c.serve(id, func(t Transaction) Decision {
		return c.unused.use(t, func(unused int64) Decision {
			return t.End(End{
				Producer: producer, Commit: commit, Version: version, UnusedID: unused, NowMs: time.Now().UnixMilli(),
			})
		})
	})
}

// Describe tells how a transactional id stands. While a transaction ends, its partitions are those without a marker.
// TRANSACTIONAL_ID_NOT_FOUND if nobody has used it, or not for long.
func (c *Coordinator) Describe(ctx context.Context, id string) (Transaction, error) {
	var found Transaction
	outcome := await(ctx, c.serve(id, func(t Transaction) Decision {
		found = t
		if t.ID == NoProducer.ID {
			return refuse(kafka.TransactionalIDNotFound)
		}
		return Decision{Next: t, Answer: NoProducer}
	}))
	if outcome.Err != nil {
		return unknown(), outcome.Err
	}
	return found, nil
}
