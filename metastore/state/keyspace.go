package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Keyspace is one space of a database. Keys are given and returned without the space's byte. Nothing is synced: see
// DB.Flush.
type Keyspace struct {
	db    *DB
	space Space
}

// Get returns a copy of the value, or nil if the key is absent. A value that is present is never nil.
func (k *Keyspace) Get(key []byte) ([]byte, error) { return get(k.db.pebble, k.space, key) }

// Set stores a value.
func (k *Keyspace) Set(key, value []byte) error {
	return k.db.write(func() error { return k.db.pebble.Set(k.space.key(key), value, pebble.NoSync) })
}

// Delete removes a key; an absent one is no error.
func (k *Keyspace) Delete(key []byte) error {
	return k.db.write(func() error { return k.db.pebble.Delete(k.space.key(key), pebble.NoSync) })
}

// Scan visits all keys with the prefix in order, until visit returns an error. Key and value are valid during the call
// only.
func (k *Keyspace) Scan(prefix []byte, visit func(key, value []byte) error) error {
	return k.ScanRange(Prefix(prefix), visit)
}

// ScanRange is Scan over a range.
func (k *Keyspace) ScanRange(part Range, visit func(key, value []byte) error) error {
	return scan(k.db.pebble, k.space, part, visit)
}

// First returns copies of the space's first key and its value; nil if the space is empty.
func (k *Keyspace) First() (key, value []byte, err error) {
	return k.seek((*pebble.Iterator).First)
}

// Last returns copies of the space's last key and its value; nil if the space is empty.
func (k *Keyspace) Last() (key, value []byte, err error) {
	return k.seek((*pebble.Iterator).Last)
}

func (k *Keyspace) seek(move func(*pebble.Iterator) bool) (key, value []byte, err error) {
	iterator, err := k.iterate(Range{})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, iterator.Close()) }()
	if !move(iterator) {
		return nil, nil, iterator.Error()
	}
	stored, err := iterator.ValueAndErr()
	if err != nil {
		return nil, nil, fmt.Errorf("scan the state database: %w", err)
	}
	return append([]byte{}, iterator.Key()[1:]...), append([]byte{}, stored...), nil
}

// Any tells whether a range has a key at all.
func (k *Keyspace) Any(part Range) (found bool, err error) {
	iterator, err := k.iterate(part)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, iterator.Close()) }()
	return iterator.First(), iterator.Error()
}

func (k *Keyspace) iterate(part Range) (*pebble.Iterator, error) {
	lower, upper := part.bounds(k.space)
	iterator, err := k.db.pebble.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fmt.Errorf("scan the state database: %w", err)
	}
	return iterator, nil
}

// Update makes several changes to the space at once: after a crash all of them are there or none.
func (k *Keyspace) Update(change func(Writer) error) error {
	batch := k.db.NewBatch()
	defer batch.Close()
	if err := change(Writer{batch: batch, space: k.space}); err != nil {
		return err
	}
	return batch.Commit(Unsynced)
}

// Writer changes one space as part of an Update.
type Writer struct {
	batch *Batch
	space Space
}

// Set stores a value.
func (w Writer) Set(key, value []byte) { w.batch.Set(w.space, key, value) }

// Delete removes a key.
func (w Writer) Delete(key []byte) { w.batch.Delete(w.space, key) }

// DeleteRange removes all keys of a range.
func (w Writer) DeleteRange(part Range) { w.batch.DeleteRange(w.space, part) }
