package txn

import (
	"math"

	"github.com/firnlog/firn/internal/kafka"
)

// End is a producer that commits or aborts (EndTxn).
type End struct {
	Producer Producer
	Commit   bool
	Version  int16 // of the transaction protocol
	// UnusedID is a producer id that nobody has had, −1 if none is at hand: for an epoch that is the last one.
	UnusedID int64
	NowMs    int64
}

// End decides the transaction. What has been decided already is answered as it was, if the client only repeats itself.
func (t Transaction) End(event End) Decision {
	if event.Version < versionEpochBump {
		return t.endClassic(event)
	}
	// With an epoch for each transaction, the same epoch means the next transaction. The one below, or the last one of
	// the id before, is a client that has not heard of the end of its last one and asks again.
	overflown := t.PreviousID == event.Producer.ID && event.Producer.Epoch == lastEpoch && t.Epoch == 0
	current := t.Epoch == event.Producer.Epoch
	again := overflown || t.Epoch == event.Producer.Epoch+1
	switch {
	case t.State.prepared():
		return refuse(kafka.ConcurrentTransactions)
	case t.ID == NoProducer.ID, t.ID != event.Producer.ID && !overflown:
		return refuse(kafka.InvalidProducerIDMapping)
	case !current && !again, !current && (t.State == Ongoing || t.State == Empty):
		return refuse(kafka.ProducerFenced)
	case again && t.State == outcome(event.Commit):
		return Decision{Next: t, Answer: t.Producer}
	case again, t.State != Ongoing && event.Commit:
		return refuse(kafka.InvalidTxnState)
	}
	// An abort is taken in each state: a client whose records failed may not know whether any partition has joined.
	return t.prepare(event)
}

// endClassic is End for clients whose epoch stays the same from one transaction to the next.
func (t Transaction) endClassic(event End) Decision {
	switch {
	case t.ID == NoProducer.ID, t.ID != event.Producer.ID:
		return refuse(kafka.InvalidProducerIDMapping)
	case t.Epoch != event.Producer.Epoch:
		return refuse(kafka.ProducerFenced)
	case t.State.prepared():
		return refuse(kafka.ConcurrentTransactions)
	case t.State == Ongoing:
		return t.prepare(event)
	case t.State == outcome(event.Commit):
		return Decision{Next: t, Answer: NoProducer}
	}
	return refuse(kafka.InvalidTxnState)
}

// Fence aborts a transaction in place of its producer, which can do nothing with its epoch from then on: because
// another one begins, or its time is over. There must be a transaction.
func (t Transaction) Fence(unusedID, nowMs int64) Decision {
	return t.prepare(End{Producer: t.Producer, Version: versionEpochBump, UnusedID: unusedID, NowMs: nowMs})
}

// prepare moves to PrepareCommit or PrepareAbort.
func (t Transaction) prepare(event End) Decision {
	next := t
	next.PreviousID, next.NextID = t.ID, NoProducer.ID
	if event.Version >= versionEpochBump {
		if t.exhausted() {
			if event.UnusedID < 0 {
				return Decision{Err: errNeedsProducerID, Answer: NoProducer}
			}
			next.NextID = event.UnusedID
		}
		if t.Epoch < math.MaxInt16 {
			next.Epoch = t.Epoch + 1 // above all that the client was ever given
		}
		next.LastEpoch = t.Epoch
	}
	if t.State != Ongoing {
		next.StartedMs = event.NowMs
	}
	next.State = PrepareAbort
	if event.Commit {
		next.State = PrepareCommit
	}
	next.Version, next.UpdatedMs = event.Version, event.NowMs
	answer := NoProducer
	if event.Version >= versionEpochBump {
		answer = next.completed(event.NowMs).Producer
	}
	return Decision{Next: next, Write: true, Answer: answer}
}

// completed is the transaction once each partition has its marker.
func (t Transaction) completed(nowMs int64) Transaction {
	next := t
	next.PreviousID = t.ID
	if t.NextID != NoProducer.ID {
		next.Producer = Producer{ID: t.NextID}
	}
	next.NextID = NoProducer.ID
	next.State = outcome(t.State == PrepareCommit)
	next.Partitions, next.UpdatedMs = nil, nowMs
	return next
}

// outcome is the state after the markers.
func outcome(commit bool) State {
	if commit {
		return CompleteCommit
	}
	return CompleteAbort
}
