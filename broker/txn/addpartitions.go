package txn

import (
	"slices"

	"github.com/firnlog/firn/internal/kafka"
)

// Add is partitions that join a transaction (AddPartitionsToTxn, AddOffsetsToTxn, the first records of a partition).
type Add struct {
	Producer   Producer
	Partitions []kafka.TopicPartition
	Version    int16 // of the transaction protocol
	NowMs      int64
}

// Add lets partitions join, and begins the transaction with the first of them. The epoch is judged before the state, so
// that a producer that is fenced learns just that.
func (t Transaction) Add(event Add) Decision {
	switch {
	case t.State.prepared():
		return refuse(kafka.ConcurrentTransactions)
	case t.ID == NoProducer.ID, t.ID != event.Producer.ID:
		return refuse(kafka.InvalidProducerIDMapping)
	case t.Epoch != event.Producer.Epoch:
		return refuse(kafka.ProducerFenced)
	case t.State == Ongoing && !slices.ContainsFunc(event.Partitions, t.lacks):
		return Decision{Next: t, Answer: NoProducer}
	}
	next := t
	next.PreviousID = t.ID
	if t.State != Ongoing {
		next.StartedMs = event.NowMs
	}
	next.State, next.Version, next.UpdatedMs = Ongoing, event.Version, event.NowMs
	next.Partitions = union(t.Partitions, event.Partitions)
	return Decision{Next: next, Write: true, Answer: NoProducer}
}

func (t Transaction) lacks(tp kafka.TopicPartition) bool { return !t.has(tp) }

// Verify tells whether a producer may write to a partition as part of its transaction. It changes nothing. A partition
// that has not joined is one whose transaction must be aborted: its records would never get a marker.
func (t Transaction) Verify(producer Producer, tp kafka.TopicPartition) error {
	switch {
	case t.ID == NoProducer.ID, t.ID != producer.ID:
		return kafka.InvalidProducerIDMapping
	case t.Epoch != producer.Epoch:
		return kafka.ProducerFenced
	case t.State.prepared():
		return kafka.ConcurrentTransactions
	case t.lacks(tp):
		return kafka.TransactionAbortable
	}
	return nil
}
