package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// A producer snapshot is Kafka's .snapshot file, version 1:
//
//	┌───────────────┬────────────┬───────────────┬─────────┬─────┐
//	│ version int16 │ crc uint32 │ entries int32 │ entry 0 │ ... │   big-endian; the CRC-32C covers what follows it
//	└───────────────┴────────────┴───────────────┴─────────┴─────┘
//	entry: producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
//	       coordinator epoch int32, first offset of the open transaction int64 (−1 without)
//
// Kafka writes one entry for a producer: its newest batch. We write one for each batch that is remembered, the newest
// last. Kafka keeps the last entry it reads of a producer id, so its tools and brokers read ours as one of theirs,
// while we recognise a retry of any of the last five batches after a restart as well (PD-10).
const (
	snapshotVersion    = 1
	snapshotCRCAt      = 2
	snapshotCoveredAt  = 6
	snapshotEntriesAt  = 10
	snapshotEntrySize  = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
	noSnapshotOffset   = int64(-1)
	noSnapshotSequence = int32(-1)
)

var errSnapshotShort = errors.New("a producer snapshot ends too early")

// SnapshotEntry is one entry of a producer snapshot.
type SnapshotEntry struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32
	LastOffset       int64
	OffsetDelta      int32
	Timestamp        int64
	CoordinatorEpoch int32
	TxnFirstOffset   int64 // of the open transaction; −1 without
}

// AppendProducerSnapshot encodes a snapshot file.
func AppendProducerSnapshot(dst []byte, entries []SnapshotEntry) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, snapshotVersion)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(entries)))
	for _, entry := range entries {
		dst = binary.BigEndian.AppendUint64(dst, uint64(entry.ProducerID))
		dst = binary.BigEndian.AppendUint16(dst, uint16(entry.ProducerEpoch))
		dst = binary.BigEndian.AppendUint32(dst, uint32(entry.LastSequence))
		dst = binary.BigEndian.AppendUint64(dst, uint64(entry.LastOffset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(entry.OffsetDelta))
		dst = binary.BigEndian.AppendUint64(dst, uint64(entry.Timestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(entry.CoordinatorEpoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(entry.TxnFirstOffset))
	}
	sum := crc32.Checksum(dst[start+snapshotCoveredAt:], castagnoli)
	binary.BigEndian.PutUint32(dst[start+snapshotCRCAt:], sum)
	return dst
}

// ParseProducerSnapshot decodes a snapshot file.
func ParseProducerSnapshot(data []byte) ([]SnapshotEntry, error) {
	if len(data) < snapshotEntriesAt {
		return nil, errSnapshotShort
	}
	if version := binary.BigEndian.Uint16(data); version != snapshotVersion {
		return nil, fmt.Errorf("version %d of a producer snapshot is not known", version)
	}
	want := binary.BigEndian.Uint32(data[snapshotCRCAt:])
	if sum := crc32.Checksum(data[snapshotCoveredAt:], castagnoli); sum != want {
		return nil, fmt.Errorf("a producer snapshot has checksum %08x instead of %08x", sum, want)
	}
	count := int32(binary.BigEndian.Uint32(data[snapshotCoveredAt:]))
	data = data[snapshotEntriesAt:]
	if count < 0 || int64(count)*snapshotEntrySize != int64(len(data)) {
		return nil, fmt.Errorf("a producer snapshot announces %d entries and has %d bytes of them", count, len(data))
	}
	entries := make([]SnapshotEntry, count)
	for i := range entries {
		entries[i] = parseSnapshotEntry(data[i*snapshotEntrySize:])
		if err := entries[i].check(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func parseSnapshotEntry(data []byte) SnapshotEntry {
	return SnapshotEntry{
		ProducerID:       int64(binary.BigEndian.Uint64(data)),
		ProducerEpoch:    int16(binary.BigEndian.Uint16(data[8:])),
		LastSequence:     int32(binary.BigEndian.Uint32(data[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(data[14:])),
		OffsetDelta:      int32(binary.BigEndian.Uint32(data[22:])),
		Timestamp:        int64(binary.BigEndian.Uint64(data[26:])),
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(data[34:])),
		TxnFirstOffset:   int64(binary.BigEndian.Uint64(data[38:])),
	}
}

func (e SnapshotEntry) check() error {
	if e.ProducerID < 0 || e.LastOffset < noSnapshotOffset || e.LastSequence < noSnapshotSequence || e.OffsetDelta < 0 ||
		e.LastOffset >= 0 && int64(e.OffsetDelta) > e.LastOffset {
		return fmt.Errorf("a producer snapshot has an impossible entry for producer %d", e.ProducerID)
	}
	return nil
}

// snapshot lists the state as snapshot entries, by producer id, each producer's oldest batch first.
func (s *producerState) snapshot() []SnapshotEntry {
	var entries []SnapshotEntry
	for _, id := range slices.Sorted(maps.Keys(s.producers)) {
		p := s.producers[id]
		common := SnapshotEntry{
			ProducerID: id, ProducerEpoch: p.epoch, CoordinatorEpoch: p.coordinatorEpoch, TxnFirstOffset: p.txnFirstOffset,
			LastSequence: noSnapshotSequence, LastOffset: noSnapshotOffset, Timestamp: p.timestamp,
		}
		if p.count == 0 {
			entries = append(entries, common)
		}
		for _, batch := range p.batches[:p.count] {
			entry := common
			entry.LastSequence, entry.LastOffset = batch.lastSequence, batch.lastOffset
			entry.OffsetDelta, entry.Timestamp = batch.offsetDelta, batch.timestamp
			entries = append(entries, entry)
		}
	}
	return entries
}

// restore takes in the entries of a snapshot that ends at an offset. When a producer was last seen is not part of the
// format; it begins to age at now.
func (s *producerState) restore(entries []SnapshotEntry, endOffset, now int64) {
	s.endOffset = endOffset
	for _, entry := range entries {
		p := s.producers[entry.ProducerID]
		if p == nil || p.epoch != entry.ProducerEpoch {
			p = newProducer(entry.ProducerEpoch)
			s.producers[entry.ProducerID] = p
		}
		p.coordinatorEpoch, p.txnFirstOffset = entry.CoordinatorEpoch, entry.TxnFirstOffset
		p.timestamp, p.appendedAt = entry.Timestamp, now
		if entry.LastOffset >= 0 {
			p.add(producedBatch{
				lastSequence: entry.LastSequence, lastOffset: entry.LastOffset,
				offsetDelta: entry.OffsetDelta, timestamp: entry.Timestamp,
			})
		}
	}
	s.restoreUnstable()
}

func (s *producerState) restoreUnstable() {
	s.unstable = nil
	for id, p := range s.producers {
		if p.txnFirstOffset >= 0 {
			s.unstable = append(s.unstable,
				unstableTransaction{producerID: id, firstOffset: p.txnFirstOffset, markerOffset: -1})
		}
	}
	slices.SortFunc(s.unstable, func(a, b unstableTransaction) int {
		return cmp.Compare(a.firstOffset, b.firstOffset)
	})
}
