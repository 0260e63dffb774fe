package raftlog

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/state"
)

// Stable keeps raft's current term and its vote. What was set is durable on return.
type Stable struct {
	db *state.DB
}

var _ raft.StableStore = (*Stable)(nil)

// NewStable uses the database for raft's few values.
func NewStable(db *state.DB) *Stable { return &Stable{db: db} }

// Set stores a value.
func (s *Stable) Set(key, value []byte) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	batch.Set(state.SpaceRaftStable, key, value)
	if err := batch.Commit(state.Synced); err != nil {
		return fmt.Errorf("store raft's %s: %w", key, err)
	}
	return nil
}

// Get reads a value; an absent one is empty.
func (s *Stable) Get(key []byte) ([]byte, error) {
	value, err := s.db.Space(state.SpaceRaftStable).Get(key)
	if err != nil {
		return nil, fmt.Errorf("read raft's %s: %w", key, err)
	}
	return value, nil
}

// SetUint64 stores a number, 8 bytes big endian.
func (s *Stable) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 reads a number; an absent one is 0.
func (s *Stable) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	switch {
	case err != nil:
		return 0, err
	case value == nil:
		return 0, nil
	case len(value) != 8:
		return 0, fmt.Errorf("raft's %s is damaged: %d bytes instead of 8", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
