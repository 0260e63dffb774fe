package replica

import (
	"context"
	"fmt"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// The timestamps of ListOffsets that are not times.
const (
	TimestampLatest            int64 = -1
	TimestampEarliest          int64 = -2
	TimestampMax               int64 = -3 // KIP-734
	TimestampEarliestLocal     int64 = -4 // KIP-405
	TimestampLatestTiered      int64 = -5 // KIP-1005
	TimestampEarliestPending   int64 = -6 // earliest pending upload, KIP-1023
	unknownOffset, noTimestamp       = int64(-1), int64(-1)
)

// notFound is the answer when no record fits: it is not an error.
var notFound = storage.TimestampOffset{Offset: unknownOffset, Timestamp: noTimestamp, Epoch: kafka.NoLeaderEpoch}

// OffsetQuery is one partition of a ListOffsets request.
type OffsetQuery struct {
	Timestamp          int64
	CurrentLeaderEpoch kafka.LeaderEpoch
	Isolation          Isolation
}

// FindOffset answers one partition of ListOffsets. Look-ups by time may have to ask the object store: they block until
// ctx is done, so they belong into the waiting phase of a request.
func (p *Partition) FindOffset(ctx context.Context, query OffsetQuery) (storage.TimestampOffset, error) {
	log, err := p.leaderLog(query.CurrentLeaderEpoch)
	if err != nil {
		return notFound, err
	}
	state := p.state.Load()
	switch query.Timestamp {
	case TimestampLatest:
		return storage.TimestampOffset{
			Offset: limit(log, query.Isolation), Timestamp: noTimestamp, Epoch: log.LatestEpoch(),
		}, nil
	case TimestampEarliest:
		return at(log, log.LogStartOffset()), nil
	case TimestampEarliestLocal:
		return at(log, log.LocalLogStartOffset()), nil
	case TimestampLatestTiered:
		if state.tier == nil || state.tier.End == state.tier.Start {
			return notFound, nil
		}
		return at(log, state.tier.End-1), nil
	case TimestampEarliestPending:
		if state.tier == nil {
			return notFound, nil
		}
		return at(log, max(state.tier.End, log.LogStartOffset())), nil
	case TimestampMax:
		return p.maxTimestamp(ctx, log, query.Isolation)
	}
	if query.Timestamp < 0 {
		return notFound, fmt.Errorf("timestamp %d of %s means nothing: %w",
			query.Timestamp, p.topicPartition, kafka.InvalidRequest)
	}
	return p.offsetForTimestamp(ctx, log, query)
}

// at is an offset with the leader epoch it was written in (OF-07), which ListOffsets reports for look-ups that name
// a place rather than a time.
func at(log *storage.Log, offset int64) storage.TimestampOffset {
	return storage.TimestampOffset{Offset: offset, Timestamp: noTimestamp, Epoch: log.EpochAt(offset)}
}

// remotePart tells whether records lie below the local log, where only the object store has them.
func remotePart(log *storage.Log) bool { return log.LogStartOffset() < log.LocalLogStartOffset() }

func (p *Partition) offsetForTimestamp(ctx context.Context, log *storage.Log, query OffsetQuery) (
	storage.TimestampOffset, error,
) {
	if remotePart(log) {
		found, ok, err := p.manager.options.Remote.OffsetForTimestamp(ctx, p.id, query.Timestamp)
		if err != nil {
			return notFound, fmt.Errorf("look up time %d of %s in the object store: %w",
				query.Timestamp, p.topicPartition, err)
		}
		if ok && found.Offset < limit(log, query.Isolation) {
			return found, nil
		}
	}
	found, ok, err := log.OffsetForTimestamp(query.Timestamp, limit(log, query.Isolation))
	if err != nil || !ok {
		return notFound, err
	}
	return found, nil
}

func (p *Partition) maxTimestamp(ctx context.Context, log *storage.Log, isolation Isolation) (
	storage.TimestampOffset, error,
) {
	best, ok, err := log.MaxTimestamp(limit(log, isolation))
	if err != nil {
		return notFound, err
	}
	if remotePart(log) {
		remote, found, err := p.manager.options.Remote.MaxTimestamp(ctx, p.id)
		if err != nil {
			return notFound, fmt.Errorf("look up the largest time of %s in the object store: %w", p.topicPartition, err)
		}
		// The earlier of two records with the same time is the answer, and the remote one is earlier.
		if found && (!ok || remote.Timestamp >= best.Timestamp) {
			best, ok = remote, true
		}
	}
	if !ok {
		return notFound, nil
	}
	return best, nil
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch (KIP-101, KIP-279): the largest epoch at or below the one asked for,
// and where it ended.
func (p *Partition) EndOffsetForEpoch(epoch, current kafka.LeaderEpoch) (storage.EpochEndOffset, error) {
	log, err := p.leaderLog(current)
	if err != nil {
		return storage.EpochEndOffset{Epoch: kafka.NoLeaderEpoch, EndOffset: unknownOffset}, err
	}
	return log.EndOffsetForEpoch(epoch), nil
}

// Behind tells whether something was appended that readers do not see yet. A client reads its own writes: an answer
// about "latest" waits until AwaitTarget is committed.
func (p *Partition) Behind() bool {
	return p.log != nil && p.log.HighWatermark() < p.log.EndOffset()
}

// AwaitTarget is the log end offset: what was appended until now lies below it.
func (p *Partition) AwaitTarget() int64 {
	if p.log == nil {
		return 0
	}
	return p.log.EndOffset()
}

// DeleteRecords moves the log start offset to offset, or to the high watermark for −1, and returns the new one. It
// may ask the metastore, so it belongs into the waiting phase of a request.
func (p *Partition) DeleteRecords(ctx context.Context, offset int64) (int64, error) {
	log, err := p.leaderLog(kafka.NoLeaderEpoch)
	if err != nil {
		return unknownOffset, err
	}
	if !p.config.Load().CleanupDelete {
		return unknownOffset, fmt.Errorf("records of %s cannot be deleted: its cleanup.policy has no delete: %w",
			p.topicPartition, kafka.PolicyViolation)
	}
	highWatermark := log.HighWatermark()
	if offset == -1 {
		offset = highWatermark
	}
	if offset < 0 || offset > highWatermark {
		return unknownOffset, fmt.Errorf("delete records of %s below %d with high watermark %d: %w",
			p.topicPartition, offset, highWatermark, kafka.OffsetOutOfRange)
	}
	if offset <= log.LogStartOffset() {
		return log.LogStartOffset(), nil
	}
	if err := p.MoveLogStart(ctx, offset); err != nil {
		return unknownOffset, fmt.Errorf("delete records of %s: %w", p.topicPartition, err)
	}
	return log.LogStartOffset(), nil
}

// MoveLogStart moves the log start offset, whoever wants it: a client or retention. The start of a tiered log belongs
// to the metastore, so it is committed there first.
func (p *Partition) MoveLogStart(ctx context.Context, offset int64) error {
	log, err := p.leaderLog(kafka.NoLeaderEpoch)
	if err != nil {
		return err
	}
	if p.state.Load().tier != nil {
		if err := p.manager.options.Remote.AdvanceStart(ctx, p.id, offset); err != nil {
			return err
		}
	}
	if err := log.MoveLogStart(offset); err != nil {
		return err
	}
	p.changed()
	return nil
}
