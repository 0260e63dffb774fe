package metastore

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// machine is the state machine that raft drives, from one goroutine at a time. What it applies goes to the database,
// unsynced and together with the applied index, and as an update to the store's watchers.
type machine struct {
	db      *state.DB
	emit    func(update)
	fail    func(error) // the state machine has stopped for good: the node must, too
	metrics *metrics

	image *image.Image // after the last applied command
	err   error        // what stopped it

	// restoring keeps readers away from the database while a snapshot replaces its content.
	restoring sync.RWMutex
}

var _ raft.BatchingFSM = (*machine)(nil)

// applied is what raft hands back for a command: its result, and a channel that is closed once every watcher knows.
type applied struct {
	result any
	err    error
	told   chan struct{}
}

// Apply applies one command.
func (m *machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch applies a run of the log in one write to the database. Entries that the database had already before a
// restart are passed over.
func (m *machine) ApplyBatch(entries []*raft.Log) []any {
	responses := make([]any, len(entries))
	if m.err != nil {
		return m.refuseAll(responses)
	}
	batch := m.db.NewReadWriteBatch()
	defer batch.Close()
	updates := make([]update, 0, len(entries))
	next := m.image
	for i, entry := range entries {
		if entry.Type != raft.LogCommand || entry.Index <= next.Index {
			continue
		}
		step, outcome, err := applyEntry(batch, next, entry)
		if err != nil {
			m.stop(fmt.Errorf("apply entry %d of the metadata log: %w", entry.Index, err))
			return m.refuseAll(responses)
		}
		next = step.image
		responses[i] = outcome
		updates = append(updates, update{image: next, delta: step.delta, told: outcome.told})
		m.metrics.applied(entry)
	}
	if len(updates) == 0 {
		return responses
	}
	batch.Set(state.SpaceApplied, nil, encodeNumber(int64(next.Index)))
	if err := batch.Commit(state.Unsynced); err != nil {
		m.stop(err)
		return m.refuseAll(responses)
	}
	m.image = next
	m.metrics.appliedIndex.Set(float64(next.Index))
	for _, u := range updates {
		m.emit(u)
	}
	return responses
}

func applyEntry(batch *state.Batch, before *image.Image, entry *raft.Log) (*transition, *applied, error) {
	cmd, err := command.Decode(entry.Data)
	if err != nil {
		return nil, nil, err
	}
	step := &transition{batch: batch, image: before, index: entry.Index, delta: image.Delta{Index: entry.Index}}
	outcome := &applied{told: make(chan struct{})}
	outcome.result, outcome.err = step.apply(cmd)
	if step.fault != nil {
		return nil, nil, step.fault
	}
	step.image = step.image.With(func(next *image.Image) { next.Index = entry.Index })
	return step, outcome, nil
}

// stop ends the state machine: going on without an entry that others apply would make this node differ from them.
func (m *machine) stop(err error) {
	m.err = err
	m.fail(err)
}

// refuseAll answers commands that a stopped state machine gets: they are in the log, and will be applied some day.
func (m *machine) refuseAll(responses []any) []any {
	for i := range responses {
		told := make(chan struct{})
		close(told)
		responses[i] = &applied{err: fmt.Errorf("%w: %w", ErrUnknownOutcome, m.err), told: told}
	}
	return responses
}

// Snapshot freezes the present state for raft, which then writes it out while later commands are applied.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.err != nil {
		return nil, m.err
	}
	return &frozen{db: m.db, snapshot: m.db.Snapshot()}, nil
}

// frozen is the state at one index.
type frozen struct {
	db       *state.DB
	snapshot *state.Snapshot
}

// Persist writes the state to sink. Raft cuts its log afterwards, so everything in the snapshot must be durable in the
// database first: commands are applied unsynced, and it is the log that brings them back after a power cut.
func (f *frozen) Persist(sink raft.SnapshotSink) error {
	if err := f.db.Flush(); err != nil {
		return fmt.Errorf("make the metadata durable before its log is cut: %w", err)
	}
	if err := writeSnapshot(sink, f.snapshot); err != nil {
		return err
	}
	return sink.Close()
}

// Release lets go of the frozen state.
func (f *frozen) Release() {
	// A snapshot that is closed can only report that it was closed before.
	_ = f.snapshot.Close()
}

// Restore replaces the replicated spaces by a snapshot's. Broker-local ones are left alone.
func (m *machine) Restore(source io.ReadCloser) error {
	img, err := m.restore(source)
	if err != nil {
		// The old state is gone in part: only a restart, which finds no applied index and restores again, can help.
		m.stop(fmt.Errorf("restore the metadata from a snapshot: %w", err))
		return m.err
	}
	m.image = img
	m.metrics.appliedIndex.Set(float64(img.Index))
	m.emit(update{image: img, delta: image.Delta{Index: img.Index, Reset: true}, told: make(chan struct{})})
	return nil
}

func (m *machine) restore(source io.Reader) (*image.Image, error) {
	m.restoring.Lock()
	defer m.restoring.Unlock()
	if err := readSnapshot(source, m.db); err != nil {
		return nil, err
	}
	return loadImage(m.db)
}
