package storage

import (
	"fmt"
	"math"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// Origin is who appends a batch, which decides what is checked.
type Origin int8

const (
	// FromProducer: a client, whose sequences are checked.
	FromProducer Origin = iota
	// FromCoordinator: the group or the transaction coordinator, in the name of a producer perhaps.
	FromCoordinator
)

// VerificationGuard is the proof that the transaction coordinator was asked about the transaction that a batch begins
// in this log, and that no transaction of that producer has ended here since (KIP-890): an answer that was true when it
// was given may be late. NoGuard is that of a batch for which nobody had to be asked.
type VerificationGuard uint64

// NoGuard proves nothing.
const NoGuard VerificationGuard = 0

// verification is a producer's transaction on its way into the log.
type verification struct {
	guard          VerificationGuard
	epoch          int16
	lowestSequence int32 // that has been seen of the producer's epoch
	bumpsEpoch     bool
	begunAt        int64
}

// TransactionStart is the batch with which a producer may begin a transaction in a log.
type TransactionStart struct {
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32 // record.NoSequence for what a coordinator appends
	// BumpsEpoch says that each transaction of the producer has an epoch of its own (transaction.version 2), and so
	// begins with sequence 0.
	BumpsEpoch bool
}

// BeginVerification tells whether the transaction coordinator must be asked before the batch may be appended, and gives
// the guard to append it with. NoGuard is the answer while the producer's transaction is open: it was asked before.
func (l *Log) BeginVerification(start TransactionStart) VerificationGuard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.beginVerification(start, time.Now().UnixMilli())
}

func (s *producerState) beginVerification(start TransactionStart, now int64) VerificationGuard {
	if p := s.producers[start.ProducerID]; p.inTransaction(start.ProducerEpoch) {
		return NoGuard
	}
	known := s.verifications[start.ProducerID]
	if known == nil {
		s.lastGuard++
		known = &verification{
			guard: s.lastGuard, epoch: start.ProducerEpoch, lowestSequence: start.BaseSequence,
			bumpsEpoch: start.BumpsEpoch, begunAt: now,
		}
		s.verifications[start.ProducerID] = known
	}
	switch {
	case start.ProducerEpoch == known.epoch:
		known.lowestSequence = min(known.lowestSequence, start.BaseSequence)
	case start.ProducerEpoch > known.epoch:
		known.epoch, known.lowestSequence = start.ProducerEpoch, start.BaseSequence
	}
	return known.guard
}

// inTransaction tells whether a producer, which may be nil, has a transaction open under an epoch.
func (p *producer) inTransaction(epoch int16) bool {
	return p != nil && p.txnFirstOffset >= 0 && p.epoch == epoch
}

// checkVerified refuses a transactional batch that nobody has asked the coordinator about: it might never end.
func (s *producerState) checkVerified(p *producer, batch record.Batch, guard VerificationGuard) error {
	if !batch.IsTransactional() || p.inTransaction(batch.ProducerEpoch()) {
		return nil
	}
	if known := s.verifications[batch.ProducerID()]; guard != NoGuard && known != nil && known.guard == guard {
		return nil
	}
	return fmt.Errorf("a batch of producer %d, epoch %d, is not part of an ongoing transaction: %w",
		batch.ProducerID(), batch.ProducerEpoch(), kafka.InvalidTxnState)
}

// checkFirstSequence keeps the batches of a transaction in order of which several were sent at once: the first one
// might come last. p is nil for a producer that is not known.
func (s *producerState) checkFirstSequence(p *producer, batch record.Batch) error {
	known := s.verifications[batch.ProducerID()]
	if known == nil {
		return nil
	}
	expected := known.lowestSequence
	if known.bumpsEpoch && (p == nil || p.count == 0) {
		expected = 0
	}
	if sequence := batch.BaseSequence(); sequence > expected {
		return fmt.Errorf("producer %d begins a transaction with sequence %d instead of %d: %w",
			batch.ProducerID(), sequence, expected, kafka.OutOfOrderSequenceNumber)
	}
	return nil
}

// endVerification forgets what was asked, once a batch or a marker of the producer is in the log. A marker that has an
// epoch of its own (transaction.version 2) ends the transaction before the one that is being asked about.
func (s *producerState) endVerification(batch record.Batch) {
	known := s.verifications[batch.ProducerID()]
	if known == nil || known.bumpsEpoch && batch.IsControl() && batch.ProducerEpoch() == known.epoch {
		return
	}
	delete(s.verifications, batch.ProducerID())
}

// bumpingVersion is the transaction.version from which on each transaction has an epoch of its own (KIP-890).
const bumpingVersion = 2

// checkMarker judges the end of a transaction that is about to be appended. From transaction.version 2 on the marker
// has a larger epoch than the transaction, so that a late one cannot end the next transaction; one that is written
// again is no error.
func (s *producerState) checkMarker(batch record.Batch, marker record.EndMarker, transactionVersion int8) error {
	p := s.producers[batch.ProducerID()]
	if p == nil {
		return nil
	}
	epoch := batch.ProducerEpoch()
	late := epoch < p.epoch
	if transactionVersion >= bumpingVersion && epoch == p.epoch {
		late = p.txnFirstOffset >= 0 && epoch != math.MaxInt16 // the largest epoch has none above it
	}
	if late {
		return fmt.Errorf("a marker for producer %d has epoch %d after epoch %d: %w",
			batch.ProducerID(), epoch, p.epoch, kafka.InvalidProducerEpoch)
	}
	if marker.CoordinatorEpoch < p.coordinatorEpoch {
		return fmt.Errorf("a marker for producer %d is from coordinator epoch %d after one from %d: %w",
			batch.ProducerID(), marker.CoordinatorEpoch, p.coordinatorEpoch, kafka.TransactionCoordinatorFenced)
	}
	return nil
}

// endMarkerOf reads the marker in a control batch; nil if there is none. One that compaction has emptied, and other
// types of control batches, say nothing about transactions.
func endMarkerOf(batch record.Batch) (*record.EndMarker, error) {
	if batch.Count() == 0 {
		return nil, nil
	}
	marker, found, err := batch.EndMarker()
	if err != nil || !found {
		return nil, err
	}
	return &marker, nil
}
