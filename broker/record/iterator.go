package record

// Iterator walks over the records of batches, one batch after the other. It keeps its decompressor and its memory, so
// it is worth keeping; it is not for concurrent use. The zero value is ready.
type Iterator struct {
	// MaxDecompressed bounds the memory for a compressed batch; 0 is as much as the validator lets in.
	MaxDecompressed int64

	batch     Batch
	source    source
	buffer    []byte // of the decompressed records
	encoded   []byte // all records, as they are when they are not compressed
	records   cursor
	remaining int32
	record    Record
	lastDelta int32
	err       error
}

// maxKeptRecords bounds the memory that an iterator keeps from batch to batch; usual batches decompress to less.
const maxKeptRecords = 16 << 20

// Reset begins with a batch. Records of a batch without codec alias it; those of others are valid until the next
// Reset. The checksum is not verified.
func (it *Iterator) Reset(b Batch) error {
	it.batch, it.remaining, it.lastDelta, it.err = b, b.Count(), -1, nil
	encoded := b.Records()
	if b.Codec() != None {
		if cap(it.buffer) > maxKeptRecords {
			it.buffer = nil
		}
		limit := it.MaxDecompressed
		if limit == 0 {
			limit = maxDecompressed
		}
		var err error
		it.buffer, err = it.source.appendAll(it.buffer[:0], b.Codec(), encoded, limit)
		if err != nil {
			it.remaining = 0
			it.err = &CorruptError{Position: atRecords, Reason: "cannot be decompressed: " + err.Error()}
			return it.err
		}
		encoded = it.buffer
	}
	it.encoded = encoded
	it.records = cursor{piece: encoded}
	return nil
}

// Next moves to the next record; false is the end, or an error that Err tells.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	if it.remaining <= 0 {
		if !it.records.atEnd() {
			it.corrupt(it.records.reason)
		}
		return false
	}
	it.remaining--
	if !it.records.next(&it.record) {
		return it.corrupt(it.records.reason)
	}
	if delta := it.record.OffsetDelta; delta <= it.lastDelta || delta > it.batch.LastOffsetDelta() {
		return it.corrupt(reasonOffsetDelta)
	}
	it.lastDelta = it.record.OffsetDelta
	return true
}

func (it *Iterator) corrupt(reason string) bool {
	it.err = &CorruptError{Position: atRecords, Reason: recordReason(it.batch.Count()-it.remaining, reason)}
	return false
}

// Record is the current record; it is overwritten by Next.
func (it *Iterator) Record() *Record { return &it.record }

// Offset is the current record's offset.
func (it *Iterator) Offset() int64 { return it.batch.BaseOffset() + int64(it.record.OffsetDelta) }

// Timestamp is the current record's timestamp, or the batch's under LogAppendTime.
func (it *Iterator) Timestamp() int64 { return it.batch.timestamp(&it.record) }

// Err is what ended the walk early: a *CorruptError, or nil.
func (it *Iterator) Err() error { return it.err }
