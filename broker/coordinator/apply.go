package coordinator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/firnlog/firn/broker/record"
)

// applier writes what a journal says into its view.
type applier struct {
	view    *view
	records record.Iterator

	changes []Change
	dropped [][]byte // record keys whose staged records are removed by the changes
	end     int64    // the journal offset that is reached with the changes
}

// apply takes whole batches of the journal, in order, from the applied offset on.
func (a *applier) apply(data []byte) error {
	for len(data) > 0 {
		batch, rest, err := record.Next(data)
		if err == nil {
			err = batch.VerifyCRC()
		}
		if err != nil {
			return fmt.Errorf("batch of the journal after offset %d: %w", a.view.applied, err)
		}
		data = rest
		if batch.NextOffset() <= a.view.applied {
			continue
		}
		if batch.IsControl() {
			err = a.marker(batch)
		} else {
			err = a.batch(batch)
		}
		if err != nil {
			return fmt.Errorf("batch of the journal at offset %d: %w", batch.BaseOffset(), err)
		}
	}
	return a.flush()
}

// batch applies records, or stages those of a transaction.
func (a *applier) batch(batch record.Batch) error {
	if err := a.records.Reset(batch); err != nil {
		return err
	}
	for a.records.Next() {
		r := a.records.Record()
		if r.Key == nil || a.records.Offset() < a.view.applied {
			continue
		}
		entry := Entry{Offset: a.records.Offset(), Value: r.Value}
		if batch.IsTransactional() {
			a.stage(batch.ProducerID(), r.Key, entry)
		} else {
			a.record(r.Key, entry)
		}
	}
	if err := a.records.Err(); err != nil {
		return err
	}
	a.reached(batch)
	if len(a.dropped) > 0 {
		return a.flush() // the staged records must not be seen by a marker that comes next
	}
	return nil
}

func (a *applier) reached(batch record.Batch) {
	a.end, a.view.epoch = batch.NextOffset(), batch.LeaderEpoch()
}

// record applies one record. A tombstone also removes what open transactions have for the key, since nothing would
// tell afterwards that their records are the older ones.
func (a *applier) record(key []byte, entry Entry) {
	if entry.Value != nil {
		a.changes = append(a.changes, Change{Key: a.view.valueKey(key), Value: encodeEntry(entry)})
		return
	}
	a.changes = append(a.changes, Change{Key: a.view.valueKey(key)})
	for _, producer := range a.view.staged.producers(key) {
		a.changes = append(a.changes, Change{Key: a.view.stagedKey(producer, key)})
		a.dropped = append(a.dropped, bytes.Clone(key))
	}
}

func (a *applier) stage(producer int64, key []byte, entry Entry) {
	stored := binary.BigEndian.AppendUint64([]byte{storeVersion}, uint64(entry.Offset))
	if entry.Value == nil {
		stored = append(stored, 0)
	} else {
		stored = append(append(stored, 1), entry.Value...)
	}
	a.changes = append(a.changes, Change{Key: a.view.stagedKey(producer, key), Value: stored})
	a.view.staged.add(producer, key)
}

func parseStaged(stored []byte) (Entry, error) {
	if len(stored) < entryHeader+1 || stored[0] != storeVersion {
		return Entry{}, unknownFormat("a record of a transaction", stored)
	}
	entry := Entry{Offset: int64(binary.BigEndian.Uint64(stored[1:]))}
	if stored[entryHeader] == 1 {
		entry.Value = bytes.Clone(stored[entryHeader+1:])
	}
	return entry, nil
}

// marker ends a producer's transaction: what it has staged is taken over or dropped.
func (a *applier) marker(batch record.Batch) error {
	marker, ends, err := batch.EndMarker()
	if err != nil {
		return err
	}
	producer := batch.ProducerID()
	if !ends || !a.view.staged.of(producer) {
		a.reached(batch)
		return nil
	}
	if err := a.flush(); err != nil { // what is staged has to be in the store to be found there
		return err
	}
	skip := len(a.view.stagedKey(producer, nil))
	err = a.view.store.Scan(a.view.stagedKey(producer, nil), func(stagedKey, stored []byte) error {
		a.changes = append(a.changes, Change{Key: bytes.Clone(stagedKey)})
		if marker.Type != record.Commit {
			return nil
		}
		entry, err := parseStaged(stored)
		if err != nil {
			return err
		}
		return a.commit(bytes.Clone(stagedKey[skip:]), entry)
	})
	if err != nil {
		return err
	}
	a.reached(batch)
	if err := a.flush(); err != nil {
		return err
	}
	a.view.staged.end(producer)
	return nil
}

// commit takes over a record of a transaction, unless something newer was written outside of it meanwhile.
func (a *applier) commit(key []byte, entry Entry) error {
	known, exists, err := a.view.get(key)
	if err != nil || exists && known.Offset > entry.Offset {
		return err
	}
	change := Change{Key: a.view.valueKey(key)}
	if entry.Value != nil {
		change.Value = encodeEntry(entry)
	}
	a.changes = append(a.changes, change)
	return nil
}

// flush writes the changes together with the offset that is reached by them.
func (a *applier) flush() error {
	if a.end <= a.view.applied {
		return nil
	}
	a.changes = append(a.changes, a.view.encodeApplied(a.end, a.view.epoch))
	if err := a.view.store.Write(a.changes); err != nil {
		return err
	}
	a.view.applied = a.end
	clear(a.changes)
	a.changes = a.changes[:0]
	for _, key := range a.dropped {
		a.view.staged.remove(key)
	}
	a.dropped = nil
	return nil
}

var errStopped = errors.New("the leadership is over")
