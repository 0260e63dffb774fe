package coordinator

import (
	"context"

	"github.com/firnlog/firn/internal/kafka"
)

// Record is one record of a journal.
type Record struct {
	Key   []byte
	Value []byte // nil is a tombstone: the key has no value any more
}

// Producer is whose transaction a batch belongs to.
type Producer struct {
	ID    int64
	Epoch int16
	Guard Guard
}

// Guard is the journal's proof that the transaction coordinator was asked about a transaction (KIP-890). NoGuard is
// that of a transaction which is open in the journal already.
type Guard uint64

// NoGuard proves nothing.
const NoGuard Guard = 0

// Bounds are the offsets of a journal: all three are exclusive ends or inclusive starts, as everywhere.
type Bounds struct {
	Start         int64 // the log start offset
	HighWatermark int64
	End           int64 // the log end offset
}

// Journal is one partition of an internal topic while this broker leads it.
type Journal interface {
	// Append writes one batch as the leader and returns the offset after it. A producer makes the batch a transactional
	// one. Nothing was appended if there is an error: NOT_LEADER_OR_FOLLOWER when the leadership is over, or
	// MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR.
	Append(producer *Producer, records []Record) (end int64, err error)
	// Read returns whole batches below the high watermark, at least one, from the one that holds offset; nothing at the
	// end. maxBytes is exceeded by a first batch that is larger.
	Read(ctx context.Context, offset int64, maxBytes int) ([]byte, error)
	// Bounds are of one moment.
	Bounds() Bounds
	// EpochEnd answers as OffsetForLeaderEpoch: the largest leader epoch at or below the given one, and where it ended.
	EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, int64)
}

// Store is the part of the state database that holds the views.
type Store interface {
	// Get returns the value of key, or nil when there is none.
	Get(key []byte) ([]byte, error)
	// Scan visits all keys with a prefix in order. Key and value are valid during the visit only.
	Scan(prefix []byte, visit func(key, value []byte) error) error
	// Write makes several changes: after a crash all of them are there or none. They are visible at once and durable
	// some time later, in the order of the calls.
	Write(changes []Change) error
}

// Change is one change of a Store: a key gets a value or, if that is nil, loses it.
type Change struct{ Key, Value []byte }
