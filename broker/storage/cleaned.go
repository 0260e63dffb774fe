package storage

import (
	"encoding/binary"
	"fmt"
)

// CleanedOffset is the first offset that no pass of the log cleaner has looked at yet: what is below it holds each key
// once, but for what must not go yet. It is the log start offset where nothing was cleaned.
func (l *Log) CleanedOffset() int64 { return max(l.cleaned.Load(), l.logStart.Load()) }

// SetCleanedOffset says how far a pass has come. A truncation lowers it.
func (l *Log) SetCleanedOffset(offset int64) error {
	release := l.holdSegments() // a truncation must not come in between
	defer release()
	if err := l.Err(); err != nil {
		return err
	}
	return l.saveCleaned(min(offset, l.endOffset.Load()))
}

// saveCleaned needs the right to swap segments.
func (l *Log) saveCleaned(offset int64) error {
	if l.retired.Load() {
		return nil // the log is deleted, and so are its keys
	}
	if err := l.env.store.Set(l.keys.kind(cleanedKind), appendCleaned(nil, offset)); err != nil {
		return fmt.Errorf("save how far %s is cleaned: %w", l.topicPartition, err)
	}
	l.cleaned.Store(offset)
	l.env.unsynced.Store(true)
	return nil
}

func appendCleaned(dst []byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, storeVersion), uint64(offset))
}

func parseCleaned(data []byte) (int64, error) {
	if len(data) != 1+8 || data[0] != storeVersion {
		return 0, fmt.Errorf("a cleaned offset of %d bytes and version % x is not known", len(data), data[:min(1, len(data))])
	}
	return int64(binary.BigEndian.Uint64(data[1:])), nil
}

// LastRecord is the end of what a producer has written to a log.
type LastRecord struct {
	LastDataOffset int64 // of its last record; −1 if only its epoch is known
	Epoch          int16
}

// LastRecordsOfProducers are those of the producers that are remembered, by producer id: the cleaner leaves their
// batches, even without records, so that the state of producers can be made from the log.
func (l *Log) LastRecordsOfProducers() map[int64]LastRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	records := make(map[int64]LastRecord, len(l.producers.producers))
	for id, p := range l.producers.producers {
		last := LastRecord{LastDataOffset: -1, Epoch: p.epoch}
		if p.count > 0 {
			last.LastDataOffset = p.batches[p.count-1].lastOffset
		}
		records[id] = last
	}
	return records
}
