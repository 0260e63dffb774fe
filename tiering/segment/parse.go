package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/firnlog/firn/internal/kafka"
)

// CorruptError says where an object stops being what its format promises.
type CorruptError struct {
	Position int64 // in the object, as far as its size is known
	Err      error
}

// Error prints place and reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt segment object at byte %d: %s", e.Position, e.Err.Error())
}

// Unwrap gives the reason.
func (e *CorruptError) Unwrap() error { return e.Err }

func corrupt(position int64, format string, args ...any) error {
	return &CorruptError{Position: position, Err: fmt.Errorf(format, args...)}
}

// ParseTail reads tail and trailer. data must begin where the tail does and end where the object does; the result
// aliases it.
func ParseTail(data []byte) (*Tail, error) {
	trailer, err := ParseTrailer(data)
	if err == nil {
		err = trailer.check()
	}
	if err == nil && int(trailer.TailBytes) != len(data)-TrailerSize {
		err = fmt.Errorf("the tail has %d bytes, not the %d that were read", trailer.TailBytes, len(data)-TrailerSize)
	}
	if err != nil {
		return nil, &CorruptError{Position: int64(max(0, len(data)-TrailerSize)), Err: err}
	}
	sections := data[:trailer.TailBytes]
	if got := crc32.Checksum(sections, castagnoli); got != trailer.TailChecksum {
		return nil, corrupt(trailer.DataBytes, "the tail's checksum is %08x but its bytes have %08x", trailer.TailChecksum,
			got)
	}
	t := &Tail{parsedBytes: int32(len(data))}
	t.DataBytes = trailer.DataBytes
	if err := t.parseSections(sections); err != nil {
		return nil, err
	}
	return t, nil
}

// parseSections reads sections that are known to be as they were written, which says nothing of who wrote them.
func (t *Tail) parseSections(data []byte) error {
	position, previous, seen := t.DataBytes, 0, 0
	for len(data) > 0 {
		if len(data) < sectionHeaderSize {
			return corrupt(position, "the tail ends inside a section's header")
		}
		kind, flags := int(binary.BigEndian.Uint16(data)), binary.BigEndian.Uint16(data[2:])
		length := int64(binary.BigEndian.Uint32(data[4:]))
		data = data[sectionHeaderSize:]
		if length > int64(len(data)) {
			return corrupt(position, "section %d of %d bytes runs past the tail's end", kind, length)
		}
		if kind <= previous {
			return corrupt(position, "section %d follows section %d", kind, previous)
		}
		if err := t.parseSection(kind, flags, data[:length:length]); err != nil {
			return &CorruptError{Position: position, Err: fmt.Errorf("section %d: %w", kind, err)}
		}
		if kind <= sectionChecksums {
			seen++
		}
		previous, data, position = kind, data[length:], position+sectionHeaderSize+length
	}
	if seen < sectionChecksums {
		return corrupt(position, "one of the sections 1 to %d is missing", sectionChecksums)
	}
	return t.check()
}

func (t *Tail) parseSection(kind int, flags uint16, data []byte) error {
	switch kind {
	case sectionIdentity:
		return t.parseIdentity(data)
	case sectionRange:
		return t.parseRange(data)
	case sectionStatistics:
		return t.parseStatistics(data)
	case sectionChecksums:
		return t.parseChecksums(data)
	case sectionOffsetIndex:
		t.OffsetIndex = data
		return checkMultiple(data, offsetEntrySize)
	case sectionTimeIndex:
		t.TimeIndex = data
		return checkMultiple(data, timeEntrySize)
	case sectionAbortedTransactions:
		return t.parseAbortedTransactions(data)
	case sectionLeaderEpochs:
		return t.parseLeaderEpochs(data)
	case sectionProducerSnapshot:
		t.ProducerSnapshot = data
		return nil
	}
	if flags&sectionMustBeKnown != 0 {
		return fmt.Errorf("it must be understood and this program does not know it")
	}
	return nil
}

func (t *Tail) parseIdentity(data []byte) error {
	if len(data) < identityFixedSize {
		return fmt.Errorf("%d bytes are too few", len(data))
	}
	t.ClusterID, t.Partition.ID = kafka.UUID(data[:16]), kafka.TopicID(data[16:32])
	t.Partition.Partition = int32(binary.BigEndian.Uint32(data[32:]))
	t.Topic = string(data[identityFixedSize:])
	return nil
}

func (t *Tail) parseRange(data []byte) error {
	if len(data) != rangeSize {
		return fmt.Errorf("%d bytes instead of %d", len(data), rangeSize)
	}
	t.BaseOffset, t.EndOffset = int64At(data, 0), int64At(data, 8)
	t.LeaderEpoch = kafka.LeaderEpoch(binary.BigEndian.Uint32(data[16:]))
	t.UploadID = kafka.UUID(data[20:36])
	t.LogStartOffset, t.IndexBaseOffset = int64At(data, 36), int64At(data, 44)
	return nil
}

func (t *Tail) parseStatistics(data []byte) error {
	if len(data) != statisticsSize {
		return fmt.Errorf("%d bytes instead of %d", len(data), statisticsSize)
	}
	t.BatchCount, t.RecordCount = int64At(data, 0), int64At(data, 8)
	t.MinTimestamp, t.MaxTimestamp, t.MaxTimestampOffset = int64At(data, 16), int64At(data, 24), int64At(data, 32)
	t.FirstAppendedAt, t.LastAppendedAt = int64At(data, 40), int64At(data, 48)
	return nil
}

func (t *Tail) parseChecksums(data []byte) error {
	if len(data) < 4 {
		return fmt.Errorf("%d bytes are too few", len(data))
	}
	t.ChunkBytes = int64(binary.BigEndian.Uint32(data))
	data = data[4:]
	if t.ChunkBytes == 0 || int64(len(data)) != 4*chunks(t.DataBytes, t.ChunkBytes) {
		return fmt.Errorf("%d bytes of checksums do not fit %d bytes of data in chunks of %d", len(data), t.DataBytes,
			t.ChunkBytes)
	}
	t.Checksums = make([]uint32, len(data)/4)
	for i := range t.Checksums {
		t.Checksums[i] = binary.BigEndian.Uint32(data[4*i:])
	}
	return nil
}

func (t *Tail) parseAbortedTransactions(data []byte) error {
	if err := checkMultiple(data, abortedSize); err != nil || len(data) == 0 {
		return err
	}
	t.AbortedTransactions = make([]AbortedTransaction, len(data)/abortedSize)
	for i := range t.AbortedTransactions {
		entry := data[i*abortedSize:]
		if version := binary.BigEndian.Uint16(entry); version != abortedVersion {
			return fmt.Errorf("entry %d has version %d", i, version)
		}
		t.AbortedTransactions[i] = AbortedTransaction{ProducerID: int64At(entry, 2), FirstOffset: int64At(entry, 10),
			LastOffset: int64At(entry, 18), LastStableOffset: int64At(entry, 26)}
	}
	return nil
}

func (t *Tail) parseLeaderEpochs(data []byte) error {
	if err := checkMultiple(data, epochSize); err != nil || len(data) == 0 {
		return err
	}
	t.LeaderEpochs = make([]EpochStart, len(data)/epochSize)
	for i := range t.LeaderEpochs {
		entry := data[i*epochSize:]
		epoch := kafka.LeaderEpoch(binary.BigEndian.Uint32(entry))
		t.LeaderEpochs[i] = EpochStart{Epoch: epoch, StartOffset: int64At(entry, 4)}
	}
	return nil
}

// check holds the fields against each other; it does not look at the data.
func (t *Tail) check() error {
	switch {
	case t.ClusterID.IsZero() || t.Partition.ID.IsZero() || t.Topic == "" || t.Partition.Partition < 0:
		return corrupt(t.DataBytes, "cluster, topic or partition is not named")
	case t.UploadID.IsZero():
		return corrupt(t.DataBytes, "the upload is not named")
	case t.BaseOffset < 0 || t.EndOffset <= t.BaseOffset || t.LeaderEpoch < 0:
		return corrupt(t.DataBytes, "[%d, %d) under leader epoch %d is no range", t.BaseOffset, t.EndOffset, t.LeaderEpoch)
	case t.LogStartOffset < 0 || t.LogStartOffset > t.BaseOffset:
		return corrupt(t.DataBytes, "log start offset %d is past the range's begin %d", t.LogStartOffset, t.BaseOffset)
	case t.IndexBaseOffset < 0 || t.IndexBaseOffset > t.EndOffset:
		return corrupt(t.DataBytes, "index base %d is past the range's end %d", t.IndexBaseOffset, t.EndOffset)
	case t.BatchCount < 0 || t.RecordCount < 0 || (t.BatchCount == 0) != (t.DataBytes == 0):
		return corrupt(t.DataBytes, "%d batches and %d records do not fit %d bytes", t.BatchCount, t.RecordCount, t.DataBytes)
	}
	for i, start := range t.LeaderEpochs {
		if i > 0 && (start.Epoch <= t.LeaderEpochs[i-1].Epoch || start.StartOffset < t.LeaderEpochs[i-1].StartOffset) {
			return corrupt(t.DataBytes, "leader epoch %d does not follow %d", start.Epoch, t.LeaderEpochs[i-1].Epoch)
		}
	}
	return t.checkIndexes()
}

func checkMultiple(data []byte, entrySize int) error {
	if len(data)%entrySize != 0 {
		return fmt.Errorf("%d bytes are no whole number of entries of %d", len(data), entrySize)
	}
	return nil
}

func int64At(data []byte, position int) int64 { return int64(binary.BigEndian.Uint64(data[position:])) }
