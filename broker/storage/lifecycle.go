package storage

import (
	"fmt"
	"time"
)

// checkpointNow is what the log would have the state database know; it needs mu.
func (l *Log) checkpointNow() checkpoint {
	flushed := l.flushedOffset.Load()
	return checkpoint{
		FlushedOffset:  flushed,
		FlushedEpoch:   l.epochs.at(flushed - 1),
		HighWatermark:  l.highWatermark.Load(),
		LogStartOffset: l.logStart.Load(),
		LocalStart:     l.localStart.Load(),
	}
}

// saveCheckpoint tells the state database where the log stands, if that has changed. The active segment's state goes
// with it for the sake of its append times.
func (l *Log) saveCheckpoint() error {
	if !l.unsaved.Swap(false) {
		return nil // of ten thousand logs most are quiet
	}
	l.mu.Lock()
	if l.closed || l.Err() != nil {
		l.mu.Unlock()
		return nil
	}
	now, active := l.checkpointNow(), l.active()
	state := active.saved()
	saveCheckpoint, saveState := now != l.saved, state != l.savedActive && state.Size > 0
	l.saved, l.savedActive = now, state
	l.mu.Unlock()

	if saveState {
		if err := l.env.store.Set(l.keys.at(segmentKind, active.baseOffset), state.append(nil)); err != nil {
			return fmt.Errorf("save a segment of %s: %w", l.topicPartition, err)
		}
	}
	if saveCheckpoint {
		if err := l.env.store.Set(l.keys.kind(checkpointKind), now.append(nil)); err != nil {
			return fmt.Errorf("save the checkpoint of %s: %w", l.topicPartition, err)
		}
	}
	if saveState || saveCheckpoint {
		l.env.unsynced.Store(true)
	}
	return nil
}

func (l *Log) expireProducers(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers.expire(now)
}

// close flushes the log, tells the state database everything, and lets go of the files. Nobody appends any more.
func (l *Log) close() error {
	defer l.holdSegments()()
	l.flushing <- struct{}{}
	defer func() { <-l.flushing }()
	if err := l.Err(); err != nil {
		l.retire()
		return err
	}
	l.mu.Lock()
	l.closing = true
	if active := l.active(); len(active.indexes.offsets) > 0 {
		// As in Kafka: the next start compares the index with the segment's largest timestamp. One without entries says
		// nothing and need not be written.
		active.noteTime()
	}
	l.mu.Unlock()
	err := l.flush()
	if err == nil {
		err = l.saveCheckpoint()
	}
	if err == nil {
		err = l.saveEpochs()
	}
	if err == nil {
		err = l.saveNewestProducers()
	}
	l.retire()
	return err
}

// saveEpochs leaves the epochs with the state database if the file lags, so that the next start need not read the
// active segment for them. Bringing the files of ten thousand logs up to date would be twenty thousand waits for the
// disk. What an earlier stop has left is removed if it is of no use any more.
func (l *Log) saveEpochs() error {
	l.mu.Lock()
	lags, entries, saved := l.epochsStale < epochsCurrent, l.epochs.written(), l.epochsSaved
	l.mu.Unlock()
	switch key := l.keys.kind(epochsKind); {
	case lags:
		return l.env.store.Set(key, appendEpochFile([]byte{storeVersion}, entries))
	case saved:
		return l.env.store.Delete(key)
	}
	return nil
}

// saveNewestProducers leaves a checkpoint at the log end, so that the next start has nothing to read. Others that are
// not at the base of a segment are of no use any more.
func (l *Log) saveNewestProducers() error {
	l.mu.Lock()
	if l.endOffset.Load() == l.segments[0].baseOffset {
		l.mu.Unlock()
		return nil // nothing would have to be read
	}
	newest := l.pendingStateOf(l.active(), l.producers, l.endOffset.Load()).producers
	bases := map[int64]bool{newest.Offset: true}
	for _, s := range l.segments {
		bases[s.baseOffset] = true
	}
	l.mu.Unlock()

	var stale [][]byte
	err := l.env.store.Scan(l.keys.kind(producerKind), func(key, _ []byte) error {
		if !bases[offsetOfKey(key)] {
			stale = append(stale, append([]byte(nil), key...))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range stale {
		if err := l.env.store.Delete(key); err != nil {
			return err
		}
	}
	return l.env.store.Set(l.keys.at(producerKind, newest.Offset), newest.append(nil))
}

// retire takes the log out of service for good and closes its files as their readers finish. It returns how long the
// folder of a deleted log stays.
func (l *Log) retire() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.retired.Store(true)
		for _, s := range l.segments {
			l.dropSegment(s)
		}
	}
	return l.config.FileDeleteDelay
}
