package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// VerificationGuard is that of the log: see storage.Log.BeginVerification.
type VerificationGuard = storage.VerificationGuard

// TransactionStart is that of the log.
type TransactionStart = storage.TransactionStart

// NoGuard is the guard of records for which nobody has to be asked.
const NoGuard = storage.NoGuard

// BeginVerification tells whether the transaction coordinator must be asked before the records may be appended, and
// gives the guard to append them with; NoGuard if not.
func (p *Partition) BeginVerification(start TransactionStart) (VerificationGuard, error) {
	log, err := p.leaderLog(kafka.NoLeaderEpoch)
	if err != nil {
		return NoGuard, err
	}
	return log.BeginVerification(start), nil
}

// Marker ends a producer's transaction in one partition.
type Marker struct {
	TopicPartition   kafka.TopicPartition
	ProducerID       int64
	ProducerEpoch    int16
	Type             record.ControlType
	CoordinatorEpoch int32
	// TransactionVersion is the transaction.version of the transaction. From 2 on ProducerEpoch is above the epoch of
	// its records, and so a late marker cannot end the transaction after it (KIP-890, KIP-1228).
	TransactionVersion int8
}

// WriteMarkers appends markers and waits until they are committed, at most for the timeout. It answers each with nil or
// an error that carries Kafka's code: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH for one that comes late,
// TRANSACTION_COORDINATOR_FENCED, and those of any append with acks=all. To write a marker again does no harm. When ctx
// ends first, what is not committed has its error.
func (m *Manager) WriteMarkers(ctx context.Context, markers []Marker, timeout time.Duration) []error {
	errs := make([]error, len(markers))
	var waits []CommitItem
	var waiting []int
	for i := range markers {
		item, err := m.appendMarker(&markers[i])
		if err != nil {
			errs[i] = err
			continue
		}
		waits, waiting = append(waits, item), append(waiting, i)
	}
	if len(waits) == 0 {
		return errs
	}
	commit := m.AwaitCommit(waits, timeout)
	select {
	case <-commit.Done():
		for n, i := range waiting {
			errs[i] = commit.Err(n)
		}
	case <-ctx.Done():
		for _, i := range waiting {
			errs[i] = fmt.Errorf("a marker for %s: %w", markers[i].TopicPartition, ctx.Err())
		}
	}
	return errs
}

func (m *Manager) appendMarker(marker *Marker) (CommitItem, error) {
	p, err := m.Partition(marker.TopicPartition)
	if err != nil {
		return CommitItem{}, err
	}
	log, err := p.leaderLog(kafka.NoLeaderEpoch)
	if err != nil {
		return CommitItem{}, err
	}
	if err := p.checkInsyncReplicas(); err != nil {
		return CommitItem{}, err
	}
	batch := record.NewEndMarker(marker.ProducerID, marker.ProducerEpoch, time.Now().UnixMilli(),
		record.EndMarker{Type: marker.Type, CoordinatorEpoch: marker.CoordinatorEpoch})
	appended, err := p.appendOwn(log, batch, storage.AppendOptions{TransactionVersion: marker.TransactionVersion})
	return CommitItem{Partition: p, Offset: appended.RequiredOffset}, err
}
