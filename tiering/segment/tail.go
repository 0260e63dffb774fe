package segment

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// Tail is everything a segment object says about its data: enough to serve it, and to bring the partition back from its
// newest object alone. Byte slices of a parsed tail alias what was parsed.
type Tail struct {
	ClusterID kafka.UUID
	Partition kafka.TopicIDPartition
	Topic     string // the name at the time of the upload

	BaseOffset      int64 // the object answers for [BaseOffset, EndOffset)
	EndOffset       int64
	LeaderEpoch     kafka.LeaderEpoch // of the leader that uploads
	UploadID        kafka.UUID
	LogStartOffset  int64 // at the time of the upload
	IndexBaseOffset int64 // what the offsets in both indexes are relative to: the local segment's base

	Contents        // what a scan of the data finds
	FirstAppendedAt int64
	LastAppendedAt  int64

	OffsetIndex         []byte // Kafka's file; positions are positions in the data
	TimeIndex           []byte // Kafka's file
	AbortedTransactions []AbortedTransaction
	LeaderEpochs        []EpochStart // from the log start on
	ProducerSnapshot    []byte       // Kafka's file

	parsedBytes int32 // length of what was parsed, which may have had sections that this program does not know; else 0
}

// EpochStart says where a leader epoch began.
type EpochStart struct {
	Epoch       kafka.LeaderEpoch
	StartOffset int64
}

// AbortedTransaction is one entry of Kafka's transaction index.
type AbortedTransaction struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of its marker, inclusive as in Kafka's file
	LastStableOffset int64
}

// Aborted lists the aborted transactions that overlap [start, end), by their first offsets. The tail has all that
// overlap its range, be their markers in it or later.
func (t *Tail) Aborted(start, end int64) (found []AbortedTransaction) {
	for _, transaction := range t.AbortedTransactions {
		if transaction.LastOffset >= start && transaction.FirstOffset < end {
			found = append(found, transaction)
		}
	}
	slices.SortFunc(found, func(a, b AbortedTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return found
}

// The sections of a tail.
const (
	sectionIdentity            = 1
	sectionRange               = 2
	sectionStatistics          = 3
	sectionChecksums           = 4
	sectionOffsetIndex         = 5
	sectionTimeIndex           = 6
	sectionAbortedTransactions = 7
	sectionLeaderEpochs        = 8
	sectionProducerSnapshot    = 9
	knownSections              = 9
)

const (
	sectionHeaderSize  = 8
	sectionMustBeKnown = 1 // flag: whoever does not know the section must not use the object

	identityFixedSize = 36
	rangeSize         = 52
	statisticsSize    = 56
	epochSize         = 12
	abortedSize       = 34
	abortedVersion    = 0 // of Kafka's .txnindex entries

	offsetEntrySize = 8
	timeEntrySize   = 12
)

// Key is the object's key.
func (t *Tail) Key() Key {
	return Key{Kind: KindSegment, ClusterID: t.ClusterID, Partition: t.Partition,
		BaseOffset: t.BaseOffset, EndOffset: t.EndOffset,
		LeaderEpoch: t.LeaderEpoch, UploadID: t.UploadID}
}

// EncodedBytes is the length of tail and trailer.
func (t *Tail) EncodedBytes() int32 {
	if t.parsedBytes > 0 {
		return t.parsedBytes
	}
	sections := identityFixedSize + len(t.Topic) + rangeSize + statisticsSize + 4 + 4*len(t.Checksums) +
		len(t.OffsetIndex) + len(t.TimeIndex) + abortedSize*len(t.AbortedTransactions) +
		epochSize*len(t.LeaderEpochs) + len(t.ProducerSnapshot)
	return int32(sections + knownSections*sectionHeaderSize + TrailerSize)
}

// Entry is what the manifest keeps about the object.
func (t *Tail) Entry() command.SegmentEntry {
	entry := command.SegmentEntry{
		BaseOffset:         t.BaseOffset,
		EndOffset:          t.EndOffset,
		LeaderEpoch:        t.LeaderEpoch,
		UploadID:           t.UploadID,
		DataBytes:          t.DataBytes,
		TailBytes:          t.EncodedBytes(),
		MinTimestamp:       t.MinTimestamp,
		MaxTimestamp:       t.MaxTimestamp,
		MaxTimestampOffset: t.MaxTimestampOffset,
		FirstAppendedAt:    t.FirstAppendedAt,
		LastAppendedAt:     t.LastAppendedAt,
	}
	entry.ObjectBytes = entry.DataBytes + int64(entry.TailBytes)
	if len(t.AbortedTransactions) > 0 {
		entry.Flags |= command.HasAbortedTransactions
	}
	return entry
}

// AppendTo appends everything that follows the data: the tail and the trailer.
func (t *Tail) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = t.appendIdentity(dst)
	dst = t.appendRange(dst)
	dst = t.appendStatistics(dst)
	dst = t.appendChecksums(dst)
	dst = append(appendSection(dst, sectionOffsetIndex, len(t.OffsetIndex)), t.OffsetIndex...)
	dst = append(appendSection(dst, sectionTimeIndex, len(t.TimeIndex)), t.TimeIndex...)
	dst = t.appendAbortedTransactions(dst)
	dst = t.appendLeaderEpochs(dst)
	dst = append(appendSection(dst, sectionProducerSnapshot, len(t.ProducerSnapshot)), t.ProducerSnapshot...)
	trailer := Trailer{DataBytes: t.DataBytes, TailBytes: int32(len(dst) - start),
		TailChecksum: crc32.Checksum(dst[start:], castagnoli), Kind: KindSegment, Version: formatVersion}
	return trailer.AppendTo(dst)
}

func (t *Tail) appendIdentity(dst []byte) []byte {
	dst = appendSection(dst, sectionIdentity, identityFixedSize+len(t.Topic))
	dst = append(dst, t.ClusterID[:]...)
	dst = append(dst, t.Partition.ID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.Partition.Partition))
	return append(dst, t.Topic...)
}

func (t *Tail) appendRange(dst []byte) []byte {
	dst = appendSection(dst, sectionRange, rangeSize)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.BaseOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.EndOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.LeaderEpoch))
	dst = append(dst, t.UploadID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.LogStartOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(t.IndexBaseOffset))
}

func (t *Tail) appendStatistics(dst []byte) []byte {
	dst = appendSection(dst, sectionStatistics, statisticsSize)
	for _, number := range []int64{t.BatchCount, t.RecordCount, t.MinTimestamp, t.MaxTimestamp, t.MaxTimestampOffset,
		t.FirstAppendedAt, t.LastAppendedAt} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(number))
	}
	return dst
}

func (t *Tail) appendChecksums(dst []byte) []byte {
	dst = appendSection(dst, sectionChecksums, 4+4*len(t.Checksums))
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.ChunkBytes))
	for _, checksum := range t.Checksums {
		dst = binary.BigEndian.AppendUint32(dst, checksum)
	}
	return dst
}

func (t *Tail) appendAbortedTransactions(dst []byte) []byte {
	dst = appendSection(dst, sectionAbortedTransactions, abortedSize*len(t.AbortedTransactions))
	for _, aborted := range t.AbortedTransactions {
		dst = binary.BigEndian.AppendUint16(dst, abortedVersion)
		for _, number := range []int64{aborted.ProducerID, aborted.FirstOffset, aborted.LastOffset,
			aborted.LastStableOffset} {
			dst = binary.BigEndian.AppendUint64(dst, uint64(number))
		}
	}
	return dst
}

func (t *Tail) appendLeaderEpochs(dst []byte) []byte {
	dst = appendSection(dst, sectionLeaderEpochs, epochSize*len(t.LeaderEpochs))
	for _, start := range t.LeaderEpochs {
		dst = binary.BigEndian.AppendUint32(dst, uint32(start.Epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(start.StartOffset))
	}
	return dst
}

// appendSection appends a section's header. This version's sections may all be skipped by a program that lacks one.
func appendSection(dst []byte, kind uint16, length int) []byte {
	dst = binary.BigEndian.AppendUint16(dst, kind)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(length))
}
