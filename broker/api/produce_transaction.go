package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// transactionJoiner is the transaction coordinator as Produce asks it.
type transactionJoiner interface {
	// AddPartitions lets partitions join a producer's transaction and waits until that is committed, or only verifies
	// that they have joined. It answers each with nil or an error.
	AddPartitions(ctx context.Context, transactionalID string, producer txn.Producer,
		partitions []kafka.TopicPartition, verifyOnly bool) []error
}

// Versions of Produce in which the answers to transactional producers changed.
const (
	produceAbortableFrom = 11 // TRANSACTION_ABORTABLE is understood
	produceJoinsFrom     = 12 // partitions join a transaction with their first records, and each has its own epoch
)

// verifiedPartition is a partition in which the request may begin a transaction.
type verifiedPartition struct {
	partition *replica.Partition
	guard     replica.VerificationGuard
	err       error // why it may not
}

// transactionStart is what the transactional batches of a request have in common, and where they may begin.
type transactionStart struct {
	producer   txn.Producer
	partitions []kafka.TopicPartition // those of produceCall.verified
}

// verify asks the transaction coordinator about the partitions in which the request may begin a transaction: records
// that the coordinator does not know of would never get a marker, and hold back every reader of committed records
// (KIP-890). It waits, and with it the requests behind this one: their records come after these. An error refuses the
// whole request.
func (c *produceCall) verify(view *wire.ProduceView) error {
	start, transactional, err := c.findTransaction(view)
	switch {
	case err != nil || !transactional:
		return err
	case view.TransactionalID == nil:
		return kafka.TransactionalIDAuthorizationFailed // nobody may write for a transactional id that is not named
	case len(start.partitions) == 0, !c.handlers.verifies(c.version >= produceJoinsFrom):
		return nil
	}
	ctx, cancel := within(c.conn.Context, view.TimeoutMs)
	defer cancel()
	errs := joinTransaction(ctx, c.handlers.joiner, string(view.TransactionalID), start.producer, start.partitions,
		c.version >= produceJoinsFrom)
	for i, err := range errs {
		c.verified[i].err = refusedTransaction(err, c.version)
	}
	return nil
}

// verifies tells whether the coordinator has to be asked. Who makes partitions join by writing needs it for that; of
// others an administrator may think that they tell it themselves.
func (h *Handlers) verifies(joins bool) bool { return joins || h.options.VerifyTransactions() }

// findTransaction looks for transactional batches, and begins a verification where their transaction is not open yet.
func (c *produceCall) findTransaction(view *wire.ProduceView) (start transactionStart, transactional bool, err error) {
	known := false // start.producer is
	for topics := view.Topics(); topics.Next(); {
		for entries := topics.Partitions(); entries.Next(); {
			batch, found := transactionalBatch(entries.Records())
			transactional = transactional || found
			if !found || !batch.HasProducerID() { // the append will say so
				continue
			}
			producer := txn.Producer{ID: batch.ProducerID(), Epoch: batch.ProducerEpoch()}
			if known && producer != start.producer {
				return start, true, fmt.Errorf("the transactional records are of several producers: %w",
					kafka.InvalidProducerIDMapping)
			}
			start.producer, known = producer, true
			p, err := c.find(&topics, entries.Partition())
			if err != nil {
				continue // the append will say so
			}
			guard, err := p.BeginVerification(replica.TransactionStart{
				ProducerID: producer.ID, ProducerEpoch: producer.Epoch, BaseSequence: batch.BaseSequence(),
				BumpsEpoch: c.version >= produceJoinsFrom,
			})
			if err == nil && guard != replica.NoGuard {
				c.verified = append(c.verified, verifiedPartition{partition: p, guard: guard})
				start.partitions = append(start.partitions, p.TopicPartition())
			}
		}
	}
	return start, transactional, nil
}

// transactionalBatch looks at the first header in a partition's data, which nobody has validated yet.
func transactionalBatch(data []byte) (record.Batch, bool) {
	if len(data) < record.HeaderSize {
		return nil, false
	}
	batch := record.Batch(data)
	return batch, batch.Magic() == record.Magic && batch.IsTransactional()
}

// joinTransaction lets partitions join the transaction of a client that leaves that to the broker (joins), or asks
// whether they have joined. It answers each of them. A producer may begin its next transaction before the last
// partition has the marker of the one before: the coordinator waits for that, as long as Kafka's Produce does.
func joinTransaction(ctx context.Context, coordinator transactionJoiner, id string, producer txn.Producer,
	partitions []kafka.TopicPartition, joins bool,
) []error {
	if coordinator == nil {
		return slices.Repeat([]error{kafka.CoordinatorNotAvailable}, len(partitions))
	}
	return coordinator.AddPartitions(ctx, id, producer, partitions, !joins)
}

// refusedTransaction is what a producer is told when the coordinator has not let a partition join. What it may ask
// again is NOT_ENOUGH_REPLICAS, which every client retries without asking for metadata; a fenced one hears what appends
// say.
func refusedTransaction(err error, version int16) error {
	code := kafka.CodeOf(err)
	switch code {
	case kafka.None:
		return nil
	case kafka.ProducerFenced:
		code = kafka.InvalidProducerEpoch
	case kafka.TransactionAbortable:
		if version < produceAbortableFrom {
			code = kafka.InvalidTxnState
		}
	case kafka.ConcurrentTransactions:
		if version < produceJoinsFrom {
			code = kafka.NotEnoughReplicas
		}
	case kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable, kafka.NotCoordinator, kafka.RequestTimedOut:
		code = kafka.NotEnoughReplicas
	case kafka.UnknownServerError:
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			code = kafka.NotEnoughReplicas
		}
	}
	return fmt.Errorf("the partition has not joined the transaction: %s: %w", err.Error(), code)
}

// verifiedFor takes what became of a partition, if somebody had to be asked. It is called in the order of the request.
func (c *produceCall) verifiedFor(p *replica.Partition) verifiedPartition {
	if len(c.verified) == 0 || c.verified[0].partition != p {
		return verifiedPartition{}
	}
	next := c.verified[0]
	c.verified = c.verified[1:]
	return next
}
