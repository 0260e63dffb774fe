package storage

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/firnlog/firn/internal/kafka"
)

// Log is the local log of one partition: segments in order, of which the last is active and written to, and the state
// that belongs to them. All methods may be called from any goroutine.
//
// Its offsets are in this order, and each moves forward except through Truncate:
//
//	log start ≤ local log start ≤ last stable ≤ high watermark ≤ log end
//
// The flushed offset is at or below the log end; under FlushGroup the high watermark is at or below it.
type Log struct {
	topicPartition kafka.TopicPartition
	id             kafka.TopicID
	keys           logKeys
	env            *environment
	dir            *directory
	folder         *folder
	policy         atomic.Int32 // FlushPolicy
	onFlush        atomic.Pointer[func(flushedOffset int64)]
	offline        atomic.Pointer[offlineError]
	unsaved        atomic.Bool // something may have changed since the last saveCheckpoint
	retired        atomic.Bool // a copy of closed

	// Copies of what the lock guards, for those who only look.
	logStart      atomic.Int64
	localStart    atomic.Int64 // base of the oldest segment, or above it while the log start lies within
	endOffset     atomic.Int64
	highWatermark atomic.Int64
	stableBound   atomic.Int64 // first offset of the oldest unstable transaction; noUnstable without
	flushedOffset atomic.Int64
	size          atomic.Int64
	cleaned       atomic.Int64 // what no pass of the cleaner has looked at begins here, or at the log start

	// flushing holds one token while a flush, a truncation or the removal of the log is under way: they exclude each
	// other, and they wait for the disk, which nobody may do with mu.
	flushing chan struct{}
	// swapping holds one token while segments are taken away or replaced by others, files included. It is taken before
	// flushing.
	swapping chan struct{}

	mu                sync.Mutex // guards the fields below and the marked ones of segments
	config            Config
	segments          []*segment // ascending, never empty; the last is active
	epochs            leaderEpochs
	producers         *producerState
	closing           bool // the next flush writes the active segment's indexes, too
	closed            bool
	rolled            int64 // base of a segment whose begin is still to be reported, or nothingRolled
	unflushedFrom     int   // index of the first segment that is not wholly flushed
	unflushedMessages int64 // since the last flush began
	unflushedBytes    int64 // since the last flush began
	flushScheduled    bool  // since the last flush began
	epochsStale       int64 // the epoch file lags behind from this offset on; epochsCurrent if it does not
	epochsSaved       bool  // the state database has leader epochs that a clean stop has left
	folderUnsynced    bool  // a new file's directory entry may not be durable
	parentUnsynced    bool  // the folder's own entry may not be durable
	pendingStates     []pendingState
	saved             checkpoint // what the state database has
	savedActive       segmentState

	queue queuePlace // guarded by the committer's lock
}

// noUnstable is larger than any offset.
const noUnstable = int64(^uint64(0) >> 1)

// offlineError is why a log does not serve.
type offlineError struct{ err error }

// pendingState is what the state database gets to know about a sealed segment once it has been flushed: the database
// never knows more than the log.
type pendingState struct {
	segment   *segment
	producers producerCheckpoint // at the segment's end, which is the next one's base
}

// TopicPartition is the partition whose log this is.
func (l *Log) TopicPartition() kafka.TopicPartition { return l.topicPartition }

// TopicID is the topic's incarnation.
func (l *Log) TopicID() kafka.TopicID { return l.id }

// Dir is the log directory that holds the log.
func (l *Log) Dir() string { return l.dir.path }

// DirectoryID is the id of the log directory that holds the log.
func (l *Log) DirectoryID() kafka.UUID { return l.dir.id }

// LogStartOffset is the first offset of the partition, be it local or remote.
func (l *Log) LogStartOffset() int64 { return l.logStart.Load() }

// LocalLogStartOffset is the first offset that is on local disk.
func (l *Log) LocalLogStartOffset() int64 { return max(l.localStart.Load(), l.logStart.Load()) }

// EndOffset is the offset that the next record will get.
func (l *Log) EndOffset() int64 { return l.endOffset.Load() }

// HighWatermark is the offset below which consumers read.
func (l *Log) HighWatermark() int64 { return l.highWatermark.Load() }

// LastStableOffset is the offset below which readers of committed data read.
func (l *Log) LastStableOffset() int64 { return min(l.highWatermark.Load(), l.stableBound.Load()) }

// FlushedOffset is the offset below which everything would survive a power cut.
func (l *Log) FlushedOffset() int64 { return l.flushedOffset.Load() }

// Size is the number of bytes in the local segments.
func (l *Log) Size() int64 { return l.size.Load() }

// Policy is the log's flush policy.
func (l *Log) Policy() FlushPolicy { return FlushPolicy(l.policy.Load()) }

// SetPolicy changes the flush policy: a partition's ISR has become one, or more than one.
func (l *Log) SetPolicy(policy FlushPolicy) {
	l.policy.Store(int32(policy))
	if policy == FlushGroup {
		l.RequestFlush()
	}
}

// SetConfig changes the log's settings for what is appended from now on.
func (l *Log) SetConfig(config Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config = config.withDefaults()
}

// OnFlush names the one observer of the flushed offset. It is called without locks after each move.
func (l *Log) OnFlush(fn func(flushedOffset int64)) { l.onFlush.Store(&fn) }

// Err is why the log is offline, with the code KAFKA_STORAGE_ERROR; nil while it serves.
func (l *Log) Err() error {
	if offline := l.offline.Load(); offline != nil {
		return offline.err
	}
	return l.dir.err()
}

// fail takes the log offline. The first reason stays.
func (l *Log) fail(err error) error {
	err = storageError(fmt.Sprintf("log %s is offline", l.topicPartition), err)
	if l.offline.CompareAndSwap(nil, &offlineError{err: err}) {
		l.env.logger.Error("a log has gone offline", "partition", l.topicPartition.String(), "error", err)
		l.env.metrics.offlineLogs.Inc()
		if l.env.events.LogOffline != nil {
			l.env.events.LogOffline(l.topicPartition, err)
		}
	}
	return err
}

// SetHighWatermark moves the high watermark forward, as far as the log end and, under FlushGroup, the flushed offset
// allow, and returns where it is then.
func (l *Log) SetHighWatermark(highWatermark int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	highWatermark = min(highWatermark, l.endOffset.Load())
	if l.Policy() == FlushGroup {
		highWatermark = min(highWatermark, l.flushedOffset.Load())
	}
	if highWatermark <= l.highWatermark.Load() {
		return l.highWatermark.Load()
	}
	l.publishHighWatermark(highWatermark)
	return highWatermark
}

// publishHighWatermark needs mu. The bound of the stable offset moves first, so that the stable offset never passes
// data whose transaction is undecided.
func (l *Log) publishHighWatermark(highWatermark int64) {
	l.publishStableBound(highWatermark)
	l.highWatermark.Store(highWatermark)
	l.unsaved.Store(true)
}

func (l *Log) publishStableBound(highWatermark int64) {
	bound, found := l.producers.firstUnstable(highWatermark)
	if !found {
		bound = noUnstable
	}
	l.stableBound.Store(bound)
}

// AssignEpoch begins a leader epoch at the log end. It is written to disk with the first record under it.
func (l *Log) AssignEpoch(epoch kafka.LeaderEpoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epochs.assign(epoch, l.endOffset.Load()) {
		l.epochs.assigned = true
	}
}

// LatestEpoch is the newest leader epoch; −1 when there was none.
func (l *Log) LatestEpoch() kafka.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.latest()
}

// EpochAt is the leader epoch that the record at an offset was written under.
func (l *Log) EpochAt(offset int64) kafka.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.at(offset)
}

// Epochs is the lineage from the log start offset on, remote part included. It must not be changed.
func (l *Log) Epochs() []EpochEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.entries
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch (KIP-101, KIP-279).
func (l *Log) EndOffsetForEpoch(epoch kafka.LeaderEpoch) EpochEndOffset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.endOffsetFor(epoch, l.endOffset.Load())
}

// active is the segment that is written to; it needs mu.
func (l *Log) active() *segment { return l.segments[len(l.segments)-1] }
