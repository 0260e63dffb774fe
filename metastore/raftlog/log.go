package raftlog

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/state"
)

// Log is raft's log. An entry that StoreLogs returned for is durable.
type Log struct {
	db      *state.DB
	entries *state.Keyspace

	mu    sync.Mutex // guards the fields below
	first uint64     // 0 if the log is empty
	last  uint64

	reading sync.RWMutex // held while an entry is read; guards the field below
	closed  bool
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// NewLog finds the log that is in the database.
func NewLog(db *state.DB) (*Log, error) {
	l := &Log{db: db, entries: db.Space(state.SpaceRaftLog)}
	for _, end := range []struct {
		find  func() (key, value []byte, err error)
		index *uint64
	}{{l.entries.First, &l.first}, {l.entries.Last, &l.last}} {
		key, _, err := end.find()
		if err != nil {
			return nil, fmt.Errorf("find the ends of the metadata log: %w", err)
		}
		if len(key) == 8 {
			*end.index = binary.BigEndian.Uint64(key)
		}
	}
	return l, nil
}

// FirstIndex is the index of the oldest entry, 0 if there is none.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, nil
}

// LastIndex is the index of the newest entry, 0 if there is none.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, nil
}

// Close must be called before the database is closed. It waits for who reads an entry, and lets nobody else begin: the
// goroutine that tells raft's metrics how old the log is outlives raft.Shutdown.
func (l *Log) Close() {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.closed = true
}

// GetLog reads one entry. Once the log is closed there is none.
func (l *Log) GetLog(index uint64, entry *raft.Log) error {
	l.reading.RLock()
	defer l.reading.RUnlock()
	if l.closed {
		return raft.ErrLogNotFound
	}
	value, err := l.entries.Get(entryKey(index))
	if err != nil {
		return fmt.Errorf("read entry %d of the metadata log: %w", index, err)
	}
	if value == nil {
		return raft.ErrLogNotFound
	}
	return parseEntry(index, value, entry)
}

// StoreLog appends one entry.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries with one sync for all of them.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	batch := l.db.NewBatch()
	defer batch.Close()
	for _, entry := range entries {
		batch.Set(state.SpaceRaftLog, entryKey(entry.Index), appendEntry(nil, entry))
	}
	if err := batch.Commit(state.Synced); err != nil {
		return fmt.Errorf("append to the metadata log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 {
		l.first = entries[0].Index
	}
	l.last = entries[len(entries)-1].Index
	return nil
}

// DeleteRange removes the entries from min to max, both included: an old beginning after a snapshot, or an end that
// another leader has replaced.
func (l *Log) DeleteRange(min, max uint64) error {
	batch := l.db.NewBatch()
	defer batch.Close()
	batch.DeleteRange(state.SpaceRaftLog, state.Range{Start: entryKey(min), End: entryKey(max + 1)})
	if err := batch.Commit(state.Synced); err != nil {
		return fmt.Errorf("cut the metadata log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case min <= l.first && max >= l.last:
		l.first, l.last = 0, 0
	case min <= l.first:
		l.first = max + 1
	case max >= l.last:
		l.last = min - 1
	}
	return nil
}

// IsMonotonic tells raft to remove the whole log, instead of leaving a gap, when a snapshot replaces it: this node
// checks at its start that the log has no gap.
func (l *Log) IsMonotonic() bool { return true }
