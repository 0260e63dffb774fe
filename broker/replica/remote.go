package replica

import (
	"context"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// RemoteLog is the part of a tiered partition that lies in the object store, as this package needs it.
type RemoteLog interface {
	// StartRead begins a read and returns at once; done is called exactly once, from a worker. Cancelling ctx gives
	// up the wait, not the download.
	StartRead(ctx context.Context, tp kafka.TopicIDPartition, req storage.RemoteReadRequest,
		done func(storage.RemoteReadResult, error))
	// OffsetForTimestamp finds the first remote record whose timestamp is at or after the given one (Unix ms).
	OffsetForTimestamp(ctx context.Context, tp kafka.TopicIDPartition, timestamp int64) (
		storage.TimestampOffset, bool, error)
	// MaxTimestamp finds the first remote record with the largest timestamp.
	MaxTimestamp(ctx context.Context, tp kafka.TopicIDPartition) (storage.TimestampOffset, bool, error)
	// AdvanceStart moves the log start offset of a tiered partition by a commit of the metastore.
	AdvanceStart(ctx context.Context, tp kafka.TopicIDPartition, offset int64) error
}
