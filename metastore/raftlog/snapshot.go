package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/state"
)

const (
	// chunkBytes is how much of a snapshot is kept under one key: far below the size of a memtable, and large enough
	// that a snapshot has few keys.
	chunkBytes = 256 << 10
	// retained snapshots: the newest, and the one before it in case a block of the newest is damaged.
	retained = 2
)

// Snapshots stores raft's snapshots. Each has a number that is never used again; its description is written last, so
// that chunks without one are what a crash or a failure left of a snapshot.
type Snapshots struct {
	db     *state.DB
	keys   *state.Keyspace
	logger *slog.Logger

	mu   sync.Mutex // guards the field below
	next uint64     // number of the next snapshot
}

var _ raft.SnapshotStore = (*Snapshots)(nil)

// NewSnapshots removes what unfinished snapshots left behind and finds the finished ones.
func NewSnapshots(db *state.DB, logger *slog.Logger) (*Snapshots, error) {
	s := &Snapshots{db: db, keys: db.Space(state.SpaceRaftSnapshot), logger: logger, next: 1}
	numbers, err := s.numbers()
	if err != nil {
		return nil, err
	}
	if len(numbers) > 0 {
		s.next = numbers[len(numbers)-1] + 1
	}
	if err := s.removeUnfinished(numbers); err != nil {
		return nil, err
	}
	return s, nil
}

// removeUnfinished deletes the chunks in the gaps between the finished snapshots' numbers.
func (s *Snapshots) removeUnfinished(finished []uint64) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	start := chunkKey(0, 0)
	for _, number := range append(finished, 0) {
		gap := state.Range{Start: start, End: chunkKey(number, 0)}
		if number == 0 {
			gap.End = state.Prefix([]byte{chunkPrefix}).End
		}
		start = chunkKey(number+1, 0)
		used, err := s.keys.Any(gap)
		if err != nil {
			return fmt.Errorf("look for unfinished snapshots: %w", err)
		}
		if used {
			batch.DeleteRange(state.SpaceRaftSnapshot, gap)
		}
	}
	if batch.Empty() {
		return nil
	}
	s.logger.Info("removed what an unfinished snapshot of the metadata had left")
	if err := batch.Commit(state.Unsynced); err != nil {
		return fmt.Errorf("remove unfinished snapshots: %w", err)
	}
	return nil
}

// numbers lists the finished snapshots, oldest first.
func (s *Snapshots) numbers() ([]uint64, error) {
	var numbers []uint64
	err := s.keys.Scan([]byte{descriptionPrefix}, func(key, _ []byte) error {
		numbers = append(numbers, binary.BigEndian.Uint64(key[1:]))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	return numbers, nil
}

// Create begins a snapshot. It exists once the sink is closed.
func (s *Snapshots) Create(
	version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64,
	_ raft.Transport,
) (raft.SnapshotSink, error) {
	s.mu.Lock()
	number := s.next
	s.next++
	s.mu.Unlock()
	return &sink{store: s, number: number, description: description{
		version:            version,
		index:              index,
		term:               term,
		configurationIndex: configurationIndex,
		configuration:      raft.EncodeConfiguration(configuration),
	}}, nil
}

// List describes the finished snapshots, newest first.
func (s *Snapshots) List() ([]*raft.SnapshotMeta, error) {
	numbers, err := s.numbers()
	if err != nil {
		return nil, err
	}
	slices.Reverse(numbers)
	metas := make([]*raft.SnapshotMeta, 0, len(numbers))
	for _, number := range numbers {
		d, err := s.describe(s.keys, number)
		if err != nil {
			return nil, err
		}
		metas = append(metas, d.meta(number))
	}
	return metas, nil
}

// getter is what describe and a reader need: the space, or a frozen view of it.
type getter interface {
	Get(key []byte) ([]byte, error)
}

func (s *Snapshots) describe(from getter, number uint64) (description, error) {
	value, err := from.Get(descriptionKey(number))
	if err != nil {
		return description{}, fmt.Errorf("read snapshot %d: %w", number, err)
	}
	if value == nil {
		return description{}, fmt.Errorf("snapshot %d is gone", number)
	}
	return parseDescription(number, value)
}

// Open reads a finished snapshot. The reader keeps what it reads, even if the snapshot is replaced meanwhile, and ends
// with an error instead of io.EOF if the content is not what was written.
func (s *Snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	number, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("%q is not the id of a snapshot", id)
	}
	frozen := s.db.Snapshot()
	r := &reader{frozen: frozen, number: number}
	if r.description, err = s.describe(r, number); err != nil {
		return nil, nil, errors.Join(err, frozen.Close())
	}
	return r.description.meta(number), r, nil
}

// sink takes the content of one snapshot.
type sink struct {
	store       *Snapshots
	number      uint64
	description description
	pending     []byte
	finished    bool
}

func (s *sink) ID() string { return strconv.FormatUint(s.number, 10) }

func (s *sink) Write(data []byte) (int, error) {
	written := len(data)
	for len(data) > 0 {
		part := data[:min(len(data), chunkBytes-len(s.pending))]
		s.pending = append(s.pending, part...)
		data = data[len(part):]
		if len(s.pending) == chunkBytes {
			if err := s.flush(); err != nil {
				return 0, err
			}
		}
	}
	return written, nil
}

func (s *sink) flush() error {
	if err := s.store.keys.Set(chunkKey(s.number, s.description.chunks), s.pending); err != nil {
		return fmt.Errorf("write snapshot %d: %w", s.number, err)
	}
	s.description.chunks++
	s.description.size += int64(len(s.pending))
	s.description.checksum = crc32.Update(s.description.checksum, castagnoli(), s.pending)
	s.pending = s.pending[:0]
	return nil
}

// Close makes the snapshot durable and forgets the oldest ones. Raft and the state machine may both call it.
func (s *sink) Close() error {
	if s.finished {
		return nil
	}
	s.finished = true
	if len(s.pending) > 0 {
		if err := s.flush(); err != nil {
			return err
		}
	}
	numbers, err := s.store.numbers()
	if err != nil {
		return err
	}
	batch := s.store.db.NewBatch()
	defer batch.Close()
	batch.Set(state.SpaceRaftSnapshot, descriptionKey(s.number), s.description.append(nil))
	for _, old := range numbers[:max(0, len(numbers)-(retained-1))] {
		batch.Delete(state.SpaceRaftSnapshot, descriptionKey(old))
		batch.DeleteRange(state.SpaceRaftSnapshot, chunksOf(old))
	}
	if err := batch.Commit(state.Synced); err != nil {
		return fmt.Errorf("finish snapshot %d: %w", s.number, err)
	}
	return nil
}

// Cancel drops what was written.
func (s *sink) Cancel() error {
	if s.finished {
		return nil
	}
	s.finished = true
	batch := s.store.db.NewBatch()
	defer batch.Close()
	batch.DeleteRange(state.SpaceRaftSnapshot, chunksOf(s.number))
	if err := batch.Commit(state.Unsynced); err != nil {
		return fmt.Errorf("drop snapshot %d: %w", s.number, err)
	}
	return nil
}

// reader reads one snapshot chunk by chunk.
type reader struct {
	frozen      *state.Snapshot
	number      uint64
	description description
	chunk       uint32 // next one to read
	pending     []byte
	checksum    uint32
}

// Get reads a key of the frozen space.
func (r *reader) Get(key []byte) ([]byte, error) { return r.frozen.Get(state.SpaceRaftSnapshot, key) }

func (r *reader) Read(dst []byte) (int, error) {
	for len(r.pending) == 0 {
		if r.chunk == r.description.chunks {
			if r.checksum != r.description.checksum {
				return 0, fmt.Errorf("snapshot %d is damaged: its checksum is wrong", r.number)
			}
			return 0, io.EOF
		}
		chunk, err := r.Get(chunkKey(r.number, r.chunk))
		if err != nil {
			return 0, fmt.Errorf("read snapshot %d: %w", r.number, err)
		}
		if len(chunk) == 0 {
			return 0, fmt.Errorf("snapshot %d is damaged: chunk %d is missing", r.number, r.chunk)
		}
		r.chunk++
		r.pending = chunk
		r.checksum = crc32.Update(r.checksum, castagnoli(), chunk)
	}
	count := copy(dst, r.pending)
	r.pending = r.pending[count:]
	return count, nil
}

func (r *reader) Close() error { return r.frozen.Close() }
