package replica

import (
	"errors"
	"fmt"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// FetchPartition is one partition of a Fetch request.
type FetchPartition struct {
	// Partition is nil when the request named one that is not here; Err then says what to answer.
	Partition *Partition
	Err       error

	Offset             int64
	MaxBytes           int
	CurrentLeaderEpoch kafka.LeaderEpoch
	// LastFetchedEpoch lets a follower (or a careful consumer) learn that its log has diverged; −1 if unknown.
	LastFetchedEpoch kafka.LeaderEpoch

	// Subscription is set for a partition of a session.
	Subscription *Subscription
	seen         uint64 // its changes when the look began
}

// FetchResult is the answer for one partition. The offsets are filled whenever the partition could be read, with or
// without records (FE-01); an error leaves them at −1, as Kafka does.
type FetchResult struct {
	Err              error
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	// AtEnd says that the reader has all it may have.
	AtEnd bool
	// Diverging is set instead of records when the reader's log and ours disagree (KIP-595).
	Diverging *storage.EpochEndOffset

	// The records: a range of a file, or bytes that came from the object store. Hold keeps them valid, too.
	Region vfs.Region
	Data   []byte
	Hold   Hold
	// Aborted are, for readers of committed records, the transactions to leave out of them, by their first offsets.
	Aborted []storage.AbortedTransaction
}

// Hold gives back what records from the object store lie in; nil where there is nothing to give back.
type Hold func()

// Release calls the function. It is called exactly once.
func (h Hold) Release() {
	if h != nil {
		h()
	}
}

// Size is the number of bytes of records.
func (r *FetchResult) Size() int { return int(r.Region.Size()) + len(r.Data) }

// Release gives back what the records lie in. It is called exactly once.
func (r *FetchResult) Release() {
	if r.Region.File() != nil {
		r.Region.Release()
	}
	r.Hold.Release()
}

// failed is the answer of a partition that could not be read at all.
func failed(err error) FetchResult {
	return FetchResult{Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1}
}

// coldRead is a read that does not end at once.
type coldRead struct {
	partition *Partition
	request   storage.RemoteReadRequest
	local     bool // it is on the disk, and not only in the object store
	isolation Isolation
}

// read reads one partition's local log. cold is set, and no records are returned, when those are only in the object
// store, or on the disk and not in memory.
func (m *Manager) read(f *FetchPartition, isolation Isolation, maxBytes int, atLeastOne bool) (
	result FetchResult, cold *coldRead,
) {
	if f.Err != nil {
		return failed(f.Err), nil
	}
	log, err := f.Partition.leaderLog(f.CurrentLeaderEpoch)
	if err != nil {
		return failed(err), nil
	}
	// All that is answered is of the moment at which the high watermark is read, although that goes on.
	highWatermark := log.HighWatermark()
	result = FetchResult{
		HighWatermark:    highWatermark,
		LastStableOffset: min(log.LastStableOffset(), highWatermark),
		LogStartOffset:   log.LogStartOffset(),
	}
	if f.LastFetchedEpoch != kafka.NoLeaderEpoch {
		diverging, differs := divergence(log, f)
		if diverging.Epoch == kafka.NoLeaderEpoch {
			return failed(fmt.Errorf("%s has no leader epoch %d: %w",
				f.Partition.topicPartition, f.LastFetchedEpoch, kafka.OffsetOutOfRange)), nil
		}
		if differs {
			result.Diverging = &diverging
			return result, nil
		}
	}
	upTo := result.HighWatermark
	if isolation == ReadCommitted {
		upTo = result.LastStableOffset
	}
	read, err := m.readLocal(log, storage.ReadRequest{
		Offset: f.Offset, MaxBytes: min(maxBytes, f.MaxBytes), AtLeastOne: atLeastOne, UpTo: upTo,
	})
	local := errors.Is(err, vfs.ErrNotResident)
	switch {
	case local || errors.Is(err, storage.ErrNotLocal):
		return result, &coldRead{
			partition: f.Partition, local: local, isolation: isolation,
			request: storage.RemoteReadRequest{
				Offset: f.Offset, MaxBytes: min(maxBytes, f.MaxBytes), AtLeastOne: true, UpTo: upTo,
			},
		}
	case err != nil:
		return failed(fmt.Errorf("fetch %s from %d: %w", f.Partition.topicPartition, f.Offset, err)), nil
	}
	if isolation == ReadCommitted && read.Size > 0 {
		if result.Aborted, err = log.AbortedTransactions(f.Offset, read.NextOffset); err != nil {
			read.Region.Release()
			return failed(fmt.Errorf("aborted transactions of %s: %w", f.Partition.topicPartition, err)), nil
		}
	}
	result.Region = read.Region
	// What was appended but cannot be read yet is not forgotten: the next fetch may have to wait for it.
	result.AtEnd = f.Offset >= upTo && result.HighWatermark >= log.EndOffset()
	return result, nil
}

// readLocal reads what is in memory, if somebody else reads what is not.
func (m *Manager) readLocal(log *storage.Log, req storage.ReadRequest) (storage.ReadResult, error) {
	if m.cold.isOpen() {
		return log.ReadResident(req)
	}
	return log.Read(req)
}

// divergence compares the epoch of the reader's last record with our lineage. Where that does not know the epoch at all
// the result has none either.
func divergence(log *storage.Log, f *FetchPartition) (ours storage.EpochEndOffset, differs bool) {
	ours = log.EndOffsetForEpoch(f.LastFetchedEpoch)
	return ours, ours.Epoch < f.LastFetchedEpoch || ours.EndOffset < f.Offset
}
