package storage

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// DumpOptions say how much of a file is printed.
type DumpOptions struct {
	Records bool // each record of a batch, too
}

// DumpedFile begins the items of one file.
type DumpedFile struct {
	File string `json:"file"`
}

// String prints the name as a heading.
func (f DumpedFile) String() string { return "File: " + f.File }

// DumpedBatch is the header of one batch, and what its checks say.
type DumpedBatch struct {
	Position        int64  `json:"position"`
	BaseOffset      int64  `json:"baseOffset"`
	LastOffset      int64  `json:"lastOffset"`
	Count           int32  `json:"count"`
	LeaderEpoch     int32  `json:"partitionLeaderEpoch"`
	ProducerID      int64  `json:"producerId"`
	ProducerEpoch   int16  `json:"producerEpoch"`
	BaseSequence    int32  `json:"baseSequence"`
	LastSequence    int32  `json:"lastSequence"`
	IsTransactional bool   `json:"isTransactional"`
	IsControl       bool   `json:"isControl"`
	TimestampType   string `json:"timestampType"`
	BaseTimestamp   int64  `json:"baseTimestamp"`
	MaxTimestamp    int64  `json:"maxTimestamp"`
	Size            int    `json:"size"`
	Codec           string `json:"compression"`
	CRC             uint32 `json:"crc"`
	Valid           bool   `json:"isValid"` // the checksum fits
	// Marker is what a control batch says that ends a transaction.
	Marker *DumpedMarker `json:"endTxnMarker,omitempty"`
}

// DumpedMarker is the end of a transaction.
type DumpedMarker struct {
	Type             string `json:"type"` // COMMIT or ABORT
	CoordinatorEpoch int32  `json:"coordinatorEpoch"`
}

// String prints the batch in one line, in the words of Kafka's dump tool.
func (b DumpedBatch) String() string {
	line := fmt.Sprintf("baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d "+
		"producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t isControl: %t position: %d %s: %d size: %d "+
		"magic: %d compresscodec: %s crc: %d isvalid: %t",
		b.BaseOffset, b.LastOffset, b.Count, b.BaseSequence, b.LastSequence, b.ProducerID, b.ProducerEpoch,
		b.LeaderEpoch, b.IsTransactional, b.IsControl, b.Position, b.TimestampType, b.MaxTimestamp, b.Size,
		record.Magic, b.Codec, b.CRC, b.Valid)
	if b.Marker != nil {
		line += fmt.Sprintf(" endTxnMarker: %s coordinatorEpoch: %d", b.Marker.Type, b.Marker.CoordinatorEpoch)
	}
	return line
}

// DumpedRecord is one record of a batch.
type DumpedRecord struct {
	Offset    int64          `json:"offset"`
	Timestamp int64          `json:"timestamp"`
	Key       []byte         `json:"key"`
	Value     []byte         `json:"value"`
	Headers   []DumpedHeader `json:"headers,omitempty"`
}

// DumpedHeader is one header of a record.
type DumpedHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// String prints the record in one line.
func (r DumpedRecord) String() string {
	return fmt.Sprintf("| offset: %d timestamp: %d keySize: %d valueSize: %d headers: %d key: %s payload: %s",
		r.Offset, r.Timestamp, sizeOrNull(r.Key), sizeOrNull(r.Value), len(r.Headers), r.Key, r.Value)
}

func sizeOrNull(field []byte) int {
	if field == nil {
		return -1
	}
	return len(field)
}

// DumpedOffset is one entry of an offset index.
type DumpedOffset struct {
	Offset   int64 `json:"offset"`
	Position int32 `json:"position"`
}

// String prints the entry in one line.
func (e DumpedOffset) String() string {
	return fmt.Sprintf("offset: %d position: %d", e.Offset, e.Position)
}

// DumpedTime is one entry of a time index.
type DumpedTime struct {
	Timestamp int64 `json:"timestamp"`
	Offset    int64 `json:"offset"`
}

// String prints the entry in one line.
func (e DumpedTime) String() string {
	return fmt.Sprintf("timestamp: %d offset: %d", e.Timestamp, e.Offset)
}

// String prints the entry in one line, in the words of Kafka's dump tool.
func (e SnapshotEntry) String() string {
	return fmt.Sprintf("producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %d "+
		"lastTimestamp: %d lastSequence: %d lastOffset: %d offsetDelta: %d", e.ProducerID, e.ProducerEpoch,
		e.CoordinatorEpoch, e.TxnFirstOffset, e.Timestamp, e.LastSequence, e.LastOffset, e.OffsetDelta)
}

// String prints the entry in one line.
func (e EpochEntry) String() string {
	return fmt.Sprintf("epoch: %d startOffset: %d", e.Epoch, e.StartOffset)
}

// DumpedMetadata is the content of partition.metadata.
type DumpedMetadata struct {
	TopicID string `json:"topicId"`
}

// String prints the topic id.
func (m DumpedMetadata) String() string { return "topic_id: " + m.TopicID }

// Dump visits what is in a file of a log, or in all files of a partition's folder: a DumpedFile for each file, then
// its items, each of which prints as one line and encodes as JSON. It reads files that nobody has open for writing, or
// that are being written: what is not whole yet ends the file with a *CorruptError.
func Dump(fsys vfs.FS, name string, opts DumpOptions, visit func(item fmt.Stringer) error) error {
	info, err := fsys.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return dumpFile(fsys, name, opts, visit)
	}
	names, err := fsys.List(name)
	if err != nil {
		return err
	}
	found := false
	for _, base := range names {
		if dumperOf(base) == nil {
			continue
		}
		found = true
		if err := dumpFile(fsys, path.Join(name, base), opts, visit); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s holds no files of a log: name the folder of one partition", name)
	}
	return nil
}

// dumper visits the items of one file.
type dumper func(fsys vfs.FS, name string, opts DumpOptions, visit func(item fmt.Stringer) error) error

func dumperOf(name string) dumper {
	switch suffix := path.Ext(name); {
	case suffix == logSuffix:
		return dumpBatches
	case suffix == offsetIndexSuffix:
		return dumpOffsetIndex
	case suffix == timeIndexSuffix:
		return dumpTimeIndex
	case suffix == txnIndexSuffix:
		return dumpParsed(ParseTransactionIndex)
	case suffix == snapshotSuffix:
		return dumpParsed(ParseProducerSnapshot)
	case path.Base(name) == epochFileName:
		return dumpParsed(parseEpochFile)
	case path.Base(name) == metadataFileName:
		return dumpParsed(func(data []byte) ([]DumpedMetadata, error) {
			id, err := parsePartitionMetadata(data)
			return []DumpedMetadata{{TopicID: id.String()}}, err
		})
	}
	return nil
}

func dumpFile(fsys vfs.FS, name string, opts DumpOptions, visit func(item fmt.Stringer) error) error {
	dump := dumperOf(name)
	if dump == nil {
		return fmt.Errorf("%s is no file of a log: %s are", name, strings.Join([]string{
			"*" + logSuffix, "*" + offsetIndexSuffix, "*" + timeIndexSuffix, "*" + txnIndexSuffix, "*" + snapshotSuffix,
			epochFileName, metadataFileName,
		}, ", "))
	}
	if err := visit(DumpedFile{File: name}); err != nil {
		return err
	}
	return dump(fsys, name, opts, visit)
}

// dumpParsed dumps files that are read whole.
func dumpParsed[T fmt.Stringer](parse func(data []byte) ([]T, error)) dumper {
	return func(fsys vfs.FS, name string, _ DumpOptions, visit func(item fmt.Stringer) error) error {
		data, err := vfs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		items, err := parse(data)
		if err != nil {
			return &CorruptError{File: name, Err: err}
		}
		for _, item := range items {
			if err := visit(item); err != nil {
				return err
			}
		}
		return nil
	}
}

// baseOffsetOf reads the base offset that the entries of an index are relative to off the file's name.
func baseOffsetOf(name, suffix string) (int64, error) {
	baseOffset, ok := parseSegmentName(path.Base(name), suffix)
	if !ok {
		return 0, fmt.Errorf("%s is not named by a base offset of %d digits", name, offsetDigits)
	}
	return baseOffset, nil
}

func dumpOffsetIndex(fsys vfs.FS, name string, _ DumpOptions, visit func(item fmt.Stringer) error) error {
	baseOffset, err := baseOffsetOf(name, offsetIndexSuffix)
	if err != nil {
		return err
	}
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	for i := range len(data) / offsetEntrySize {
		entry := offsetEntryAt(data, i)
		item := DumpedOffset{Offset: baseOffset + int64(entry.relative), Position: entry.position}
		if err := visit(item); err != nil {
			return err
		}
	}
	return checkWholeEntries(name, len(data), offsetEntrySize)
}

func dumpTimeIndex(fsys vfs.FS, name string, _ DumpOptions, visit func(item fmt.Stringer) error) error {
	baseOffset, err := baseOffsetOf(name, timeIndexSuffix)
	if err != nil {
		return err
	}
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	for i := range len(data) / timeEntrySize {
		entry := timeEntryAt(data, i)
		if err := visit(DumpedTime{Timestamp: entry.timestamp, Offset: baseOffset + int64(entry.relative)}); err != nil {
			return err
		}
	}
	return checkWholeEntries(name, len(data), timeEntrySize)
}

func checkWholeEntries(name string, size, entrySize int) error {
	if left := size % entrySize; left > 0 {
		return &CorruptError{File: name, Position: int64(size - left), Err: io.ErrUnexpectedEOF}
	}
	return nil
}

func dumpBatches(fsys vfs.FS, name string, opts DumpOptions, visit func(item fmt.Stringer) error) error {
	return eachBatch(fsys, name, func(position int64, batch record.Batch) error {
		if err := visit(dumpedBatch(position, batch)); err != nil || !opts.Records {
			return err
		}
		return eachRecord(name, position, batch, func(item DumpedRecord) error { return visit(item) })
	})
}

// eachBatch visits the batches of a file, whole. Its memory is that of the largest one.
func eachBatch(fsys vfs.FS, name string, visit func(position int64, batch record.Batch) error) error {
	file, err := fsys.Open(name)
	if err != nil {
		return err
	}
	size, err := file.Size()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	scan := newBatchScan(scanBufferSize)
	scan.reset(file, 0, size)
	var data []byte
	for {
		header, position, err := scan.next()
		if err != nil {
			return errors.Join(ignoreEOF(err), file.Close())
		}
		data = slices.Grow(data[:0], header.Size())[:header.Size()]
		if n, err := file.ReadAt(data, position); n < len(data) {
			return errors.Join(fmt.Errorf("read %s at %d: %w", name, position, err), file.Close())
		}
		if err := visit(position, data); err != nil {
			return errors.Join(err, file.Close())
		}
	}
}

func dumpedBatch(position int64, batch record.Batch) DumpedBatch {
	dumped := DumpedBatch{
		Position:        position,
		BaseOffset:      batch.BaseOffset(),
		LastOffset:      batch.LastOffset(),
		Count:           batch.Count(),
		LeaderEpoch:     int32(batch.LeaderEpoch()),
		ProducerID:      batch.ProducerID(),
		ProducerEpoch:   batch.ProducerEpoch(),
		BaseSequence:    batch.BaseSequence(),
		LastSequence:    batch.LastSequence(),
		IsTransactional: batch.IsTransactional(),
		IsControl:       batch.IsControl(),
		TimestampType:   batch.TimestampType().String(),
		BaseTimestamp:   batch.BaseTimestamp(),
		MaxTimestamp:    batch.MaxTimestamp(),
		Size:            batch.Size(),
		Codec:           batch.Codec().String(),
		CRC:             batch.CRC(),
		Valid:           batch.VerifyCRC() == nil,
	}
	if marker, ends, err := batch.EndMarker(); err == nil && ends {
		dumped.Marker = &DumpedMarker{Type: marker.Type.String(), CoordinatorEpoch: marker.CoordinatorEpoch}
	}
	return dumped
}

// eachRecord visits the records of a batch; they are valid until visit returns.
func eachRecord(name string, position int64, batch record.Batch, visit func(item DumpedRecord) error) error {
	var records record.Iterator
	if err := records.Reset(batch); err != nil {
		return &CorruptError{File: name, Position: position, Err: err}
	}
	for records.Next() {
		item := DumpedRecord{
			Offset:    records.Offset(),
			Timestamp: records.Timestamp(),
			Key:       records.Record().Key,
			Value:     records.Record().Value,
		}
		for key, value := range records.Record().Headers() {
			item.Headers = append(item.Headers, DumpedHeader{Key: string(key), Value: value})
		}
		if err := visit(item); err != nil {
			return err
		}
	}
	if err := records.Err(); err != nil {
		return &CorruptError{File: name, Position: position, Err: err}
	}
	return nil
}
