package record

import (
	"fmt"
)

// Lookup answers questions about single records of a batch without holding more of it than a piece, whatever it
// decompresses to. So max.decompressed.message.bytes is no concern of it: where Kafka, which holds the record, fails
// look-ups of records beyond a limit that was lowered, these still answer. It may be used concurrently. The zero value
// is ready.
type Lookup struct{ sources sources }

// TimestampOffset is a record found by time.
type TimestampOffset struct {
	Offset    int64
	Timestamp int64
}

// OffsetForTimestamp finds the first record at or after fromOffset whose timestamp is target or later. The log start
// may lie inside a batch, hence fromOffset.
func (l *Lookup) OffsetForTimestamp(b Batch, target, fromOffset int64) (TimestampOffset, bool, error) {
	var found TimestampOffset
	var ok bool
	err := l.each(b, func(record TimestampOffset) (more bool) {
		if record.Offset >= fromOffset && record.Timestamp >= target {
			found, ok = record, true
		}
		return !ok
	})
	return found, ok, err
}

// MaxTimestamp finds, among the records at or after fromOffset, the first that has the largest timestamp
// (KAFKA-16310), which under LogAppendTime is the first one; false if there are none.
func (l *Lookup) MaxTimestamp(b Batch, fromOffset int64) (TimestampOffset, bool, error) {
	var found TimestampOffset
	var ok bool
	err := l.each(b, func(record TimestampOffset) (more bool) {
		if record.Offset >= fromOffset && (!ok || record.Timestamp > found.Timestamp) {
			found, ok = record, true
		}
		return true
	})
	return found, ok, err
}

// each visits the records until visit has had enough.
func (l *Lookup) each(b Batch, visit func(TimestampOffset) (more bool)) error {
	records := cursor{piece: b.Records()}
	if b.Codec() != None {
		source := l.sources.get()
		defer l.sources.put(source)
		if err := source.reset(b.Codec(), b.Records(), maxDecompressed); err != nil {
			return &CorruptError{Position: atRecords, Reason: "cannot be decompressed: " + err.Error()}
		}
		records = cursor{source: source}
	}
	var record Record
	for i := range b.Count() {
		if !records.next(&record) {
			reason := records.reason
			if records.err != nil {
				reason = records.err.Error()
			}
			return &CorruptError{Position: atRecords, Reason: recordReason(i, reason)}
		}
		if !visit(TimestampOffset{b.BaseOffset() + int64(record.OffsetDelta), b.timestamp(&record)}) {
			return nil
		}
	}
	return nil
}

// timestamp is what consumers see as the timestamp of a record.
func (b Batch) timestamp(record *Record) int64 {
	if b.TimestampType() == LogAppendTime {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + record.TimestampDelta
}

func recordReason(index int32, reason string) string {
	return fmt.Sprintf("record %d: %s", index, reason)
}
