package storage

import (
	"encoding/binary"
	"fmt"
	"sort"
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

// appendTxnEntry encodes one entry behind dst.
func appendTxnEntry(dst []byte, t AbortedTransaction) []byte {
	dst = binary.BigEndian.AppendUint16(dst, txnEntryVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.FirstOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.LastOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(t.LastStableOffset))
}

// txnEntryAt decodes entry i.
func txnEntryAt(data []byte, i int) AbortedTransaction {
	entry := data[i*txnEntrySize:]
	return AbortedTransaction{
		ProducerID:       int64(binary.BigEndian.Uint64(entry[2:])),
		FirstOffset:      int64(binary.BigEndian.Uint64(entry[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(entry[18:])),
		LastStableOffset: int64(binary.BigEndian.Uint64(entry[26:])),
	}
}

// findAborted is the first entry whose marker lies at or after an offset, or the number of entries.
func findAborted(data []byte, offset int64) int {
	return sort.Search(len(data)/txnEntrySize, func(i int) bool { return txnEntryAt(data, i).LastOffset >= offset })
}

// collectAborted adds the transactions that overlap [start, end). Settled says that no later entry can: when such an
// entry was written, every transaction that had begun below the end was over.
func collectAborted(into []AbortedTransaction, data []byte, start, end int64) (_ []AbortedTransaction, settled bool) {
	for i := findAborted(data, start); i < len(data)/txnEntrySize; i++ {
		entry := txnEntryAt(data, i)
		if entry.FirstOffset < end {
			into = append(into, entry)
		}
		if entry.LastStableOffset >= end {
			return into, true
		}
	}
	return into, false
}

// checkTransactionIndex tells whether the entries are those of a segment: in the order of their markers, each of which
// lies in the segment.
func checkTransactionIndex(data []byte, baseOffset, endOffset int64) error {
	entries, err := ParseTransactionIndex(data)
	if err != nil || len(entries) == 0 {
		return err
	}
	if first, last := entries[0].LastOffset, entries[len(entries)-1].LastOffset; first < baseOffset || last >= endOffset {
		return fmt.Errorf("markers at offsets %d to %d are not within [%d, %d)", first, last, baseOffset, endOffset)
	}
	return nil
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
		entry := txnEntryAt(data, 0)
		if entry.LastOffset <= lastOffset || entry.FirstOffset < 0 || entry.FirstOffset > entry.LastOffset {
			return nil, fmt.Errorf("transaction [%d, %d] after one that ended at %d",
				entry.FirstOffset, entry.LastOffset, lastOffset)
		}
		lastOffset = entry.LastOffset
		entries = append(entries, entry)
	}
	return entries, nil
}
