package storage

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// maxProducerBatches is how many batches of a producer are remembered: the client's default of five requests in
// flight, as in Kafka. A retry of an older one can only be an error.
const maxProducerBatches = 5

// producedBatch is what is left of a producer's batch: enough to recognise it again.
type producedBatch struct {
	lastSequence int32
	lastOffset   int64
	offsetDelta  int32
	timestamp    int64 // the batch's max timestamp
}

func (b producedBatch) baseOffset() int64 { return b.lastOffset - int64(b.offsetDelta) }

// firstSequence undoes the wrap from the largest sequence to 0.
func (b producedBatch) firstSequence() int32 {
	first := int64(b.lastSequence) - int64(b.offsetDelta)
	if first < 0 {
		first += math.MaxInt32 + 1
	}
	return int32(first)
}

// producer is what a log knows of one producer id.
type producer struct {
	epoch            int16
	coordinatorEpoch int32
	batches          [maxProducerBatches]producedBatch // oldest first
	count            int
	timestamp        int64 // of the newest batch or marker
	txnFirstOffset   int64 // of the open transaction; −1 without
	appendedAt       int64 // broker time in ms, which expiry counts by: record time may be anything (PD-08)
}

func newProducer(epoch int16) *producer {
	return &producer{epoch: epoch, coordinatorEpoch: -1, timestamp: record.NoTimestamp, txnFirstOffset: -1}
}

func (p *producer) lastSequence() int32 {
	if p.count == 0 {
		return record.NoSequence
	}
	return p.batches[p.count-1].lastSequence
}

func (p *producer) add(batch producedBatch) {
	if p.count == maxProducerBatches {
		copy(p.batches[:], p.batches[1:])
		p.count--
	}
	p.batches[p.count] = batch
	p.count++
}

// find looks for a batch with exactly these sequences.
func (p *producer) find(batch record.Batch) (producedBatch, bool) {
	if batch.ProducerEpoch() != p.epoch {
		return producedBatch{}, false
	}
	first, last := batch.BaseSequence(), batch.LastSequence()
	for _, known := range p.batches[:p.count] {
		if known.lastSequence == last && known.firstSequence() == first {
			return known, true
		}
	}
	return producedBatch{}, false
}

// unstableTransaction is a range of the log whose outcome readers of committed data cannot know yet.
type unstableTransaction struct {
	producerID  int64
	firstOffset int64
	// markerOffset is where the transaction ended; −1 while it is open. It stays unstable until the high watermark has
	// passed the marker.
	markerOffset int64
}

// producerState is the state of all producers of a log up to an offset.
type producerState struct {
	endOffset int64         // exclusive
	expireMs  *atomic.Int64 // of all logs: producer.id.expiration.ms
	producers map[int64]*producer
	unstable  []unstableTransaction // by first offset
	// verifications are of producers that are about to begin a transaction. They do not outlive the process.
	verifications map[int64]*verification
	lastGuard     VerificationGuard
}

func newProducerState(endOffset int64, expireMs *atomic.Int64) *producerState {
	return &producerState{
		endOffset: endOffset, expireMs: expireMs,
		producers: map[int64]*producer{}, verifications: map[int64]*verification{},
	}
}

// check judges a batch of records that is about to be appended in a producer's name: it is new, or a duplicate of a
// batch that is known, or an error. What a coordinator appends has no sequences, and so no duplicates.
func (s *producerState) check(batch record.Batch, opts AppendOptions) (known producedBatch, duplicate bool, err error) {
	p := s.producers[batch.ProducerID()]
	if p != nil && s.expired(p, opts.AppendedAt) {
		p = nil
	}
	if p != nil && opts.Origin == FromProducer {
		if known, duplicate = p.find(batch); duplicate {
			return known, true, nil
		}
	}
	// Before anything else: a producer whose transaction was ended over its head is told of its epoch, which it can
	// recover from, and not that its records are part of no transaction.
	if p != nil && batch.ProducerEpoch() < p.epoch {
		return known, false, fmt.Errorf("producer %d has epoch %d and sent epoch %d: %w",
			batch.ProducerID(), p.epoch, batch.ProducerEpoch(), kafka.InvalidProducerEpoch)
	}
	if err := s.checkVerified(p, batch, opts.Guard); err != nil {
		return known, false, err
	}
	if opts.Origin == FromProducer {
		if err := s.checkFirstSequence(p, batch); err != nil {
			return known, false, err
		}
	}
	if p == nil {
		return known, false, nil // nobody knows better, so any sequence may be the first
	}
	switch epoch := batch.ProducerEpoch(); {
	case opts.Origin == FromCoordinator:
	case epoch > p.epoch:
		if batch.BaseSequence() != 0 {
			return known, false, fmt.Errorf("producer %d began epoch %d with sequence %d: %w",
				batch.ProducerID(), epoch, batch.BaseSequence(), kafka.OutOfOrderSequenceNumber)
		}
	case batch.BaseSequence() != nextSequence(p.lastSequence()):
		return known, false, fmt.Errorf("producer %d sent sequence %d after %d: %w",
			batch.ProducerID(), batch.BaseSequence(), p.lastSequence(), kafka.OutOfOrderSequenceNumber)
	}
	if p.txnFirstOffset >= 0 && !batch.IsTransactional() {
		return known, false, fmt.Errorf("producer %d has an open transaction and sent records outside of it: %w",
			batch.ProducerID(), kafka.InvalidTxnState)
	}
	return known, false, nil
}

func nextSequence(last int32) int32 {
	if last == record.NoSequence {
		return 0
	}
	return record.AddSequence(last, 1)
}

// update takes in a batch that is part of the log, with the marker that it holds if it ends a transaction. Batches come
// in order of their offsets; their headers are enough. It tells whether a transaction was aborted.
func (s *producerState) update(batch record.Batch, marker *record.EndMarker, appendedAt int64) (
	aborted AbortedTransaction, found bool,
) {
	s.endOffset = batch.NextOffset()
	if !batch.HasProducerID() || batch.IsControl() && marker == nil {
		return AbortedTransaction{}, false
	}
	id, epoch := batch.ProducerID(), batch.ProducerEpoch()
	p := s.producers[id]
	if p == nil || s.expired(p, appendedAt) && p.txnFirstOffset < 0 {
		p = newProducer(epoch)
		s.producers[id] = p
	}
	if epoch != p.epoch {
		p.epoch, p.count = epoch, 0
	}
	p.timestamp, p.appendedAt = batch.MaxTimestamp(), appendedAt
	if batch.IsTransactional() {
		s.endVerification(batch)
	}
	if marker != nil {
		return s.endTransaction(id, p, batch.BaseOffset(), *marker)
	}
	p.add(producedBatch{
		lastSequence: batch.LastSequence(),
		lastOffset:   batch.LastOffset(),
		offsetDelta:  batch.LastOffsetDelta(),
		timestamp:    batch.MaxTimestamp(),
	})
	if batch.IsTransactional() && p.txnFirstOffset < 0 {
		p.txnFirstOffset = batch.BaseOffset()
		s.unstable = append(s.unstable,
			unstableTransaction{producerID: id, firstOffset: batch.BaseOffset(), markerOffset: -1})
	}
	return AbortedTransaction{}, false
}

// endTransaction takes in a marker. One without a transaction changes nothing for readers.
func (s *producerState) endTransaction(id int64, p *producer, markerOffset int64, marker record.EndMarker) (
	aborted AbortedTransaction, found bool,
) {
	p.coordinatorEpoch = marker.CoordinatorEpoch
	if p.txnFirstOffset < 0 {
		return AbortedTransaction{}, false
	}
	aborted = AbortedTransaction{
		ProducerID: id, FirstOffset: p.txnFirstOffset, LastOffset: markerOffset, LastStableOffset: markerOffset + 1,
	}
	p.txnFirstOffset = -1
	for i := range s.unstable {
		if s.unstable[i].producerID == id && s.unstable[i].markerOffset < 0 {
			s.unstable[i].markerOffset = markerOffset
		}
	}
	if open := slices.IndexFunc(s.unstable, unstableTransaction.isOpen); open >= 0 {
		aborted.LastStableOffset = s.unstable[open].firstOffset
	}
	return aborted, marker.Type == record.Abort
}

func (t unstableTransaction) isOpen() bool { return t.markerOffset < 0 }

// firstUnstable is where the last stable offset ends under a high watermark, which it forgets settled transactions by.
func (s *producerState) firstUnstable(highWatermark int64) (offset int64, found bool) {
	s.unstable = slices.DeleteFunc(s.unstable, func(t unstableTransaction) bool {
		return t.markerOffset >= 0 && t.markerOffset < highWatermark
	})
	if len(s.unstable) == 0 {
		return 0, false
	}
	return s.unstable[0].firstOffset, true
}

func (s *producerState) expired(p *producer, now int64) bool {
	return p.txnFirstOffset < 0 && now-p.appendedAt >= s.expireMs.Load()
}

// expire forgets producers that have been silent for too long; one with an open transaction stays.
func (s *producerState) expire(now int64) {
	maps.DeleteFunc(s.producers, func(_ int64, p *producer) bool { return s.expired(p, now) })
	maps.DeleteFunc(s.verifications, func(_ int64, v *verification) bool { return now-v.begunAt >= s.expireMs.Load() })
}
