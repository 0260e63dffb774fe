package state

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Durability says when Commit returns.
type Durability int

const (
	// Unsynced returns once the batch is visible; a crash may lose it, but never only a part of it, and never without
	// everything that was written later.
	Unsynced Durability = iota
	// Synced returns once the batch, and everything before it, is durable.
	Synced
)

// Batch collects changes to any spaces of a database and applies them at once. It is used by one goroutine.
type Batch struct {
	db    *DB
	batch *pebble.Batch
	err   error // the first change that failed: reported by Commit, so that a list of changes reads as one
}

// NewBatch makes a batch that is only written to.
func (db *DB) NewBatch() *Batch { return &Batch{db: db, batch: db.pebble.NewBatch()} }

// NewReadWriteBatch makes a batch whose reads see the database with the batch's own changes.
func (db *DB) NewReadWriteBatch() *Batch { return &Batch{db: db, batch: db.pebble.NewIndexedBatch()} }

// Set stores a value.
func (b *Batch) Set(space Space, key, value []byte) {
	b.note(b.batch.Set(space.key(key), value, nil))
}

// Delete removes a key.
func (b *Batch) Delete(space Space, key []byte) {
	b.note(b.batch.Delete(space.key(key), nil))
}

// DeleteRange removes all keys of a range.
func (b *Batch) DeleteRange(space Space, part Range) {
	lower, upper := part.bounds(space)
	b.note(b.batch.DeleteRange(lower, upper, nil))
}

func (b *Batch) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Get returns a copy of a value, nil if it is absent. Only for a batch made to be read.
func (b *Batch) Get(space Space, key []byte) ([]byte, error) { return get(b.batch, space, key) }

// Scan visits the keys of a range in order; the batch must not be changed meanwhile. Only for a batch made to be read.
func (b *Batch) Scan(space Space, part Range, visit func(key, value []byte) error) error {
	return scan(b.batch, space, part, visit)
}

// Bytes is the size of the changes so far.
func (b *Batch) Bytes() int { return b.batch.Len() }

// Empty tells whether there are no changes yet.
func (b *Batch) Empty() bool { return b.batch.Empty() }

// Commit applies the changes. The batch must be closed afterwards all the same.
func (b *Batch) Commit(durability Durability) error {
	if b.err != nil {
		return fmt.Errorf("collect changes for the state database: %w", b.err)
	}
	options := pebble.NoSync
	if durability == Synced {
		options = pebble.Sync
	}
	if err := b.db.write(func() error { return b.batch.Commit(options) }); err != nil {
		return fmt.Errorf("commit to the state database: %w", err)
	}
	return nil
}

// Close releases the batch; what was not committed is dropped.
func (b *Batch) Close() {
	// An error would be one of the commit, which has been reported by Commit.
	_ = b.batch.Close()
}

// Snapshot is the database as it was at one moment. It must be closed.
type Snapshot struct {
	snapshot *pebble.Snapshot
}

// Snapshot keeps the present content readable, whatever is written later.
func (db *DB) Snapshot() *Snapshot { return &Snapshot{snapshot: db.pebble.NewSnapshot()} }

// Get returns a copy of a value, nil if it is absent.
func (s *Snapshot) Get(space Space, key []byte) ([]byte, error) { return get(s.snapshot, space, key) }

// Scan visits the keys of a range in order.
func (s *Snapshot) Scan(space Space, part Range, visit func(key, value []byte) error) error {
	return scan(s.snapshot, space, part, visit)
}

// Close releases the snapshot.
func (s *Snapshot) Close() error { return s.snapshot.Close() }
