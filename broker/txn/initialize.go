package txn

import "github.com/firnlog/firn/internal/kafka"

// Initialize is a producer that begins (InitProducerId).
type Initialize struct {
	TimeoutMs int32
	// Owner is the producer that goes on after an error and asks for a new epoch (KIP-360); NoProducer for one that
	// begins, which fences the others of its transactional id.
	Owner Producer
	// UnusedID is a producer id that nobody has had, −1 if none is at hand. It is taken only if the decision writes it.
	UnusedID int64
	NowMs    int64
}

// Initialize gives a new epoch. A transaction that is under way is aborted first, and its end waited for.
func (t Transaction) Initialize(event Initialize) Decision {
	switch {
	case t.State.prepared():
		return refuse(kafka.ConcurrentTransactions)
	case event.Owner != NoProducer && !t.mayOwn(event.Owner):
		return refuse(kafka.ProducerFenced)
	case t.State == Ongoing:
		fenced := t.Fence(event.UnusedID, event.NowMs)
		if fenced.Err == nil {
			fenced.Err = kafka.ConcurrentTransactions // the client asks again, and then gets an epoch above the fence's
		}
		fenced.Answer = NoProducer
		return fenced
	}
	next := t
	next.PreviousID = t.ID
	switch {
	case t.ID == NoProducer.ID || t.exhausted() && (event.Owner == NoProducer || event.Owner.Epoch == t.Epoch):
		if event.UnusedID < 0 {
			return Decision{Err: errNeedsProducerID, Answer: NoProducer}
		}
		next.Producer = Producer{ID: event.UnusedID}
		if next.PreviousID == NoProducer.ID {
			next.PreviousID = event.UnusedID // as Kafka has it of an id that is new
		}
		next.LastEpoch = NoProducer.Epoch
		if event.Owner != NoProducer {
			next.LastEpoch = t.Epoch
		}
	case event.Owner == NoProducer:
		next.Epoch, next.LastEpoch = t.Epoch+1, NoProducer.Epoch
	case event.Owner.Epoch == t.Epoch:
		next.Epoch, next.LastEpoch = t.Epoch+1, t.Epoch
	case event.Owner.Epoch == t.LastEpoch:
		// The answer to the same question got lost. Nobody can have begun since: that would have reset LastEpoch.
		next.PreviousID = t.PreviousID
	default:
		return refuse(kafka.ProducerFenced)
	}
	next.State, next.Partitions = Empty, nil
	next.TimeoutMs, next.StartedMs, next.UpdatedMs = event.TimeoutMs, -1, event.NowMs
	return Decision{Next: next, Write: true, Answer: next.Producer}
}

// mayOwn tells whether a producer that asks for a new epoch may be the one that the id belongs to. The last case is one
// that did not get the answer with its new id.
func (t Transaction) mayOwn(owner Producer) bool {
	return t.ID == NoProducer.ID || owner.ID == t.ID || owner.ID == t.PreviousID && owner.Epoch >= lastEpoch
}
