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
	l.epochsUnwritten = l.epochs.cutStart(offset) || l.epochsUnwritten
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
	l.flushing <- struct{}{} // a flush under way may be writing one of them
	dropped := l.takeBelow(offset)
	<-l.flushing
	if len(dropped) == 0 {
		return 0, nil
	}
	if err := l.saveBorder(); err != nil {
		return 0, err
	}
	for _, s := range dropped {
		if err := l.forgetSegment(s); err != nil {
			return 0, err
		}
	}
	l.env.logger.Info("local segments were dropped", "partition", l.topicPartition.String(), "segments", len(dropped),
		"local start", l.LocalLogStartOffset(), "reason", reason)
	return len(dropped), nil
}

// takeBelow takes the segments out of the log. Readers that have found one of them finish undisturbed.
func (l *Log) takeBelow(offset int64) []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	n := 0
	for n < len(l.segments)-1 && l.segments[n+1].baseOffset <= offset {
		n++
	}
	if n == 0 {
		return nil
	}
	dropped := slices.Clone(l.segments[:n])
	for _, s := range dropped {
		l.size.Add(-s.state.Size)
	}
	l.segments = slices.Clone(l.segments[n:])
	l.unflushedFrom = max(l.unflushedFrom-n, 0)
	l.pendingStates = slices.DeleteFunc(l.pendingStates, func(p pendingState) bool {
		return slices.Contains(dropped, p.segment)
	})
	l.localStart.Store(l.segments[0].baseOffset)
	for _, s := range dropped {
		l.dropSegment(s)
	}
	return dropped
}
