package storage

import (
	"encoding/binary"
	"fmt"
)

// A transaction index file lists the aborted transactions of a segment, in the order of their markers. A segment
// without any has no file, or an empty one.
//
//	┌───────────────┬───────────────────┬────────────────────┬───────────────────┬──────────────────────────┐
//	│ version int16 │ producer id int64 │ first offset int64 │ last offset int64 │ last stable offset int64 │
//	└───────────────┴───────────────────┴────────────────────┴───────────────────┴──────────────────────────┘
const (
	txnEntrySize    = 2 + 4*8
	txnEntryVersion = 0
)

// AbortedTransaction is one entry of a transaction index.
type AbortedTransaction struct {
	ProducerID       int64 `json:"producerId"`
	FirstOffset      int64 `json:"firstOffset"`
	LastOffset       int64 `json:"lastOffset"`       // of the abort marker
	LastStableOffset int64 `json:"lastStableOffset"` // when the marker was written
}

// String prints the entry in one line.
func (t AbortedTransaction) String() string {
	return fmt.Sprintf("producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d",
		t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset)
}

// ParseTransactionIndex decodes a transaction index file.
func ParseTransactionIndex(data []byte) ([]AbortedTransaction, error) {
	if len(data)%txnEntrySize != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of entries", len(data))
	}
	entries := make([]AbortedTransaction, 0, len(data)/txnEntrySize)
	lastOffset := int64(-1)
	for ; len(data) > 0; data = data[txnEntrySize:] {
		if version := binary.BigEndian.Uint16(data); version != txnEntryVersion {
			return nil, fmt.Errorf("version %d of a transaction index entry is not known", version)
		}
		entry := AbortedTransaction{
			ProducerID:       int64(binary.BigEndian.Uint64(data[2:])),
			FirstOffset:      int64(binary.BigEndian.Uint64(data[10:])),
			LastOffset:       int64(binary.BigEndian.Uint64(data[18:])),
			LastStableOffset: int64(binary.BigEndian.Uint64(data[26:])),
		}
		if entry.LastOffset <= lastOffset || entry.FirstOffset < 0 || entry.FirstOffset > entry.LastOffset {
			return nil, fmt.Errorf("transaction [%d, %d] after one that ended at %d",
				entry.FirstOffset, entry.LastOffset, lastOffset)
		}
		lastOffset = entry.LastOffset
		entries = append(entries, entry)
	}
	return entries, nil
}
