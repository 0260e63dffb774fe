package storage

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/firnlog/firn/broker/record"
)

// rollIfNeeded begins a new segment when the batch should not or cannot go into the active one. It needs mu.
func (l *Log) rollIfNeeded(batch record.Batch, summary record.Summary, now int64) error {
	lastOffset := l.endOffset.Load() + int64(batch.LastOffsetDelta())
	if !l.shouldRoll(l.active(), int64(len(batch)), summary.MaxTimestamp, lastOffset, now) {
		return nil
	}
	return l.roll(now)
}

// shouldRoll decides as Kafka does, except that an empty segment is never rolled: the new one would have its name
// (RE-05), and an empty segment takes any batch.
func (l *Log) shouldRoll(active *segment, bytes, maxTimestamp, lastOffset, now int64) bool {
	if active.state.Size == 0 {
		return false
	}
	return active.state.Size > l.config.SegmentBytes-bytes ||
		waitedForRoll(active.state, maxTimestamp, now) > l.config.SegmentMs-l.rollJitter(active.baseOffset) ||
		active.isFull(l.config.SegmentIndexBytes) ||
		!active.fits(lastOffset)
}

// waitedForRoll is the age of a segment that segment.ms bounds: in record time, from the segment's first batch to the
// batch that comes, or in broker time where records carry no time.
func waitedForRoll(state segmentState, maxTimestamp, now int64) int64 {
	if state.FirstTimestamp >= 0 {
		return maxTimestamp - state.FirstTimestamp
	}
	return now - state.FirstAppendedAt
}

// rollJitter spreads the rolls of partitions that began together. It is a hash rather than a random number, so that
// the same log always rolls at the same place.
func (l *Log) rollJitter(baseOffset int64) int64 {
	limit := min(l.config.SegmentJitterMs, l.config.SegmentMs)
	if limit <= 0 {
		return 0
	}
	hash := fnv.New64a()
	hash.Write(binary.BigEndian.AppendUint64(l.keys.kind(segmentKind), uint64(baseOffset)))
	return int64(hash.Sum64() % uint64(limit))
}

// Roll seals the active segment so that it can be uploaded or expire although nothing is appended. An empty one stays.
func (l *Log) Roll() error {
	l.mu.Lock()
	err := l.Err()
	if err == nil && !l.closed && l.active().state.Size > 0 {
		err = l.roll(time.Now().UnixMilli())
	}
	rolled := l.takeRolled()
	l.mu.Unlock()
	l.reportRolled(rolled)
	return err
}

// takeRolled returns the bases of segments that have begun and not been reported; it needs mu.
func (l *Log) takeRolled() (baseOffset int64) {
	baseOffset, l.rolled = l.rolled, nothingRolled
	return baseOffset
}

// reportRolled is called without mu.
func (l *Log) reportRolled(baseOffset int64) {
	if baseOffset != nothingRolled && l.env.events.SegmentRolled != nil {
		l.env.events.SegmentRolled(l.topicPartition, baseOffset)
	}
}

const nothingRolled = -1

// roll needs mu and a non-empty active segment. The new file is made first: if that fails, nothing has changed.
func (l *Log) roll(now int64) error {
	sealed := l.active()
	next, err := l.createSegment(l.endOffset.Load())
	if err != nil {
		return storageError(fmt.Sprintf("roll %s", l.topicPartition), err)
	}
	sealed.seal(next.baseOffset)
	l.segments = append(l.segments, next)
	l.rolled = next.baseOffset
	l.unsaved.Store(true)
	l.folderUnsynced = true
	l.producers.expire(now)
	l.pendingStates = append(l.pendingStates, l.pendingStateOf(sealed, l.producers, next.baseOffset))
	l.env.metrics.rolls.Inc()
	l.dir.committer.request(l) // under every policy: what is sealed is flushed, so that start-up need not read it
	return nil
}

// createSegment makes an empty segment whose file is open for writing. A file of that name holds nothing: everything
// in the log ends at or below the base offset.
func (l *Log) createSegment(baseOffset int64) (*segment, error) {
	created := l.newSegment(baseOffset)
	file, err := l.env.fs.Create(created.path(logSuffix))
	if err != nil {
		return nil, err
	}
	created.writable.Store(true)
	created.indexes = &memoryIndexes{}
	if created.file, err = l.env.files.install(&created.data, file); err != nil {
		return nil, err
	}
	return created, nil
}
