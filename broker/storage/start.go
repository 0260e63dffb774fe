package storage

import (
	"fmt"
	"slices"
)

// MoveLogStart moves the log start offset forward, at most to the high watermark: DeleteRecords, retention and the
// start of the remote part do. It is durable on return. Files go later, by MoveLocalStart.
func (l *Log) MoveLogStart(offset int64) error {
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if highWatermark := l.highWatermark.Load(); offset > highWatermark {
		start := l.logStart.Load()
		l.mu.Unlock()
		return &RangeError{Partition: l.topicPartition, Offset: offset, Start: start, EndOffset: highWatermark}
	}
	if offset <= l.logStart.Load() {
		l.mu.Unlock()
		return nil
	}
	l.logStart.Store(offset)
	l.unsaved.Store(true)
	if l.epochs.cutStart(offset) {
		l.epochsStale = epochsAllStale
	}
	l.mu.Unlock()
	return l.saveBorder()
}

// saveBorder makes the checkpoint durable, so that no file is removed which the state database still believes in.
func (l *Log) saveBorder() error {
	if err := l.saveCheckpoint(); err != nil {
		return err
	}
	if err := l.env.syncStore(); err != nil {
		return fmt.Errorf("save where %s begins: %w", l.topicPartition, err)
	}
	return nil
}

// MoveLocalStart drops the local segments that end at or below an offset, never the active one, and returns how many.
// That what they hold is in the bucket, or of no use to anybody any more, is the caller's to know; the reason goes to
// the log. The new border is published before the files go.
func (l *Log) MoveLocalStart(offset int64, reason string) (removed int, err error) {
	if err := l.Err(); err != nil {
		return 0, err
	}
	dropped, err := l.settleAndTake(offset)
	if err != nil || len(dropped) == 0 {
		return 0, err
	}
	if err := l.saveBorder(); err != nil {
		return 0, err
	}
	for _, s := range dropped {
		if err := l.forget(s.baseOffset); err != nil {
			return 0, err
		}
	}
	l.env.logger.Info("local segments were dropped", "partition", l.topicPartition.String(), "segments", len(dropped),
		"local start", l.LocalLogStartOffset(), "reason", reason)
	return len(dropped), nil
}

// settleAndTake flushes first if the state database still lacks what it should know of a segment that goes: the
// producers at its end are the state that the rest of the log begins with.
func (l *Log) settleAndTake(offset int64) ([]*segment, error) {
	defer l.holdSegments()()
	l.flushing <- struct{}{}
	defer func() { <-l.flushing }()
	l.mu.Lock()
	below := l.countBelow(offset)
	unsettled := slices.ContainsFunc(l.segments[:below], l.unsettled)
	l.mu.Unlock()
	if unsettled {
		if err := l.flush(); err != nil {
			return nil, err
		}
	}
	return l.takeBelow(offset), nil
}

// countBelow is how many segments end at or below an offset, the active one never; it needs mu.
func (l *Log) countBelow(offset int64) int {
	n := 0
	for n < len(l.segments)-1 && l.segments[n+1].baseOffset <= offset {
		n++
	}
	return n
}

// unsettled needs mu.
func (l *Log) unsettled(s *segment) bool {
	return slices.ContainsFunc(l.pendingStates, func(p pendingState) bool { return p.segment == s })
}

// takeBelow takes the segments out of the log, except what was sealed a moment ago and goes next time. Readers that
// have found one of them finish undisturbed.
func (l *Log) takeBelow(offset int64) []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	dropped := slices.Clone(l.segments[:l.countBelow(offset)])
	if n := slices.IndexFunc(dropped, l.unsettled); n >= 0 {
		dropped = dropped[:n]
	}
	if len(dropped) == 0 {
		return nil
	}
	for _, s := range dropped {
		l.size.Add(-s.state.Size)
		l.dropSegment(s)
	}
	l.segments = slices.Clone(l.segments[len(dropped):])
	l.unflushedFrom = max(l.unflushedFrom-len(dropped), 0)
	l.localStart.Store(l.segments[0].baseOffset)
	l.unsaved.Store(true)
	return dropped
}
