package coordinator

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
)

// What the state database holds for a journal. A key is the topic id (16 bytes), the partition (int32), a kind and the
// rest, all big-endian, so that the keys of a journal lie together in order.
//
//	'a'                          what is applied: version, journal offset (int64), leader epoch of the record before it
//	'v' + record key             the newest committed record of the key: version, its journal offset, its value
//	't' + producer id (int64) + record key   the newest record of the key in the producer's open transaction: version,
//	                             its journal offset, a byte that is 1 unless the record is a tombstone, its value
const (
	appliedKind = 'a'
	valueKind   = 'v'
	stagedKind  = 't'

	storeVersion = 1
)

// view is what a journal says, up to the offset that is applied: the newest committed record of each key, and those of
// open transactions. It is written by one goroutine and read by any.
type view struct {
	store  Store
	prefix []byte
	staged staged

	applied int64 // the journal offset up to which it is written; used by its writer only
	epoch   kafka.LeaderEpoch
}

func newView(store Store, topic kafka.TopicID, partition int32) *view {
	prefix := binary.BigEndian.AppendUint32(bytes.Clone(topic[:]), uint32(partition))
	return &view{store: store, prefix: prefix, epoch: kafka.NoLeaderEpoch}
}

func (v *view) key(kind byte, rest []byte) []byte {
	key := make([]byte, 0, len(v.prefix)+1+len(rest))
	return append(append(append(key, v.prefix...), kind), rest...)
}

func (v *view) valueKey(recordKey []byte) []byte { return v.key(valueKind, recordKey) }

func (v *view) stagedKey(producer int64, recordKey []byte) []byte {
	key := binary.BigEndian.AppendUint64(v.key(stagedKind, nil), uint64(producer))
	return append(key, recordKey...)
}

func (v *view) get(recordKey []byte) (Entry, bool, error) {
	stored, err := v.store.Get(v.valueKey(recordKey))
	if err != nil || stored == nil {
		return Entry{}, false, err
	}
	entry, err := parseEntry(stored)
	return entry, err == nil, err
}

func (v *view) scan(prefix []byte, visit func(key []byte, entry Entry) error) error {
	skip := len(v.prefix) + 1
	return v.store.Scan(v.valueKey(prefix), func(key, stored []byte) error {
		entry, err := parseEntry(stored)
		if err != nil {
			return err
		}
		return visit(key[skip:], entry)
	})
}

const entryHeader = 1 + 8

func encodeEntry(entry Entry) []byte {
	stored := make([]byte, 0, entryHeader+len(entry.Value))
	stored = binary.BigEndian.AppendUint64(append(stored, storeVersion), uint64(entry.Offset))
	return append(stored, entry.Value...)
}

func parseEntry(stored []byte) (Entry, error) {
	if len(stored) < entryHeader || stored[0] != storeVersion {
		return Entry{}, unknownFormat("a record of a journal", stored)
	}
	return Entry{Offset: int64(binary.BigEndian.Uint64(stored[1:])), Value: stored[entryHeader:]}, nil
}

func unknownFormat(what string, stored []byte) error {
	return fmt.Errorf("%s of %d bytes and version % x in the state database is not known",
		what, len(stored), stored[:min(1, len(stored))])
}

func (v *view) encodeApplied(applied int64, epoch kafka.LeaderEpoch) Change {
	stored := binary.BigEndian.AppendUint64([]byte{storeVersion}, uint64(applied))
	return Change{Key: v.key(appliedKind, nil), Value: binary.BigEndian.AppendUint32(stored, uint32(epoch))}
}

// open reads where the view stands and what it has staged. exists is false if it has never been written.
func (v *view) open() (exists bool, err error) {
	v.staged.reset()
	stored, err := v.store.Get(v.key(appliedKind, nil))
	switch {
	case err != nil || stored == nil:
		return false, err
	case len(stored) != 1+8+4 || stored[0] != storeVersion:
		return false, unknownFormat("the applied offset", stored)
	}
	v.applied = int64(binary.BigEndian.Uint64(stored[1:]))
	v.epoch = kafka.LeaderEpoch(binary.BigEndian.Uint32(stored[9:]))
	skip := len(v.prefix) + 1
	return true, v.store.Scan(v.key(stagedKind, nil), func(key, _ []byte) error {
		v.staged.add(int64(binary.BigEndian.Uint64(key[skip:])), key[skip+8:])
		return nil
	})
}

// dropBatch bounds how many keys are removed at once.
const dropBatch = 10_000

// drop empties the view and lets it begin at an offset. It says that it stands there before it removes anything, so
// that a crash on the way never leaves a view which claims more than it has; what is left then is written anew or
// dropped again, since an offset of −1 is that of no journal.
func (v *view) drop(start int64) error {
	v.staged.reset()
	if err := v.store.Write([]Change{v.encodeApplied(-1, kafka.NoLeaderEpoch)}); err != nil {
		return err
	}
	for _, kind := range []byte{valueKind, stagedKind} {
		if err := v.dropKind(kind); err != nil {
			return err
		}
	}
	v.applied, v.epoch = start, kafka.NoLeaderEpoch
	return nil
}

func (v *view) dropKind(kind byte) error {
	for {
		var removed []Change
		err := v.store.Scan(v.key(kind, nil), func(key, _ []byte) error {
			if len(removed) == dropBatch {
				return errEnough
			}
			removed = append(removed, Change{Key: bytes.Clone(key)})
			return nil
		})
		if err != nil && err != errEnough {
			return err
		}
		if len(removed) == 0 {
			return nil
		}
		if err := v.store.Write(removed); err != nil {
			return err
		}
	}
}

const errEnough = stopScan("enough for one batch")

// stopScan ends a scan early; it never leaves this package.
type stopScan string

func (s stopScan) Error() string { return string(s) }
