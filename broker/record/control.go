package record

import (
	"encoding/binary"
	"strconv"
)

// ControlType tells what a control batch says. Its only record has it in the key: version int16 | type int16. A marker
// that ends a transaction has the epoch of its coordinator in the value: version int16 | coordinator epoch int32.
type ControlType int16

// The markers that end a transaction. Kafka has other types for its own metadata log.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
)

const (
	atControlType      = 2
	controlKeyLen      = 4
	atCoordinatorEpoch = 2
	endMarkerLen       = 6
)

// String prints the name Kafka's dump tool uses.
func (t ControlType) String() string {
	switch t {
	case Abort:
		return "ABORT"
	case Commit:
		return "COMMIT"
	}
	return "control type " + strconv.Itoa(int(t))
}

// EndMarker is what ends a transaction in a partition.
type EndMarker struct {
	Type             ControlType
	CoordinatorEpoch int32
}

// ControlType reads the type of a control batch.
func (b Batch) ControlType() (ControlType, error) {
	record, err := b.controlRecord()
	if err != nil {
		return 0, err
	}
	return ControlType(binary.BigEndian.Uint16(record.Key[atControlType:])), nil
}

// EndMarker reads a control batch that ends a transaction; false if it is of another type.
func (b Batch) EndMarker() (EndMarker, bool, error) {
	record, err := b.controlRecord()
	if err != nil {
		return EndMarker{}, false, err
	}
	kind := ControlType(binary.BigEndian.Uint16(record.Key[atControlType:]))
	if kind != Abort && kind != Commit {
		return EndMarker{}, false, nil
	}
	if len(record.Value) < endMarkerLen {
		return EndMarker{}, false, &CorruptError{Position: atRecords, Reason: "end of transaction without an epoch"}
	}
	epoch := int32(binary.BigEndian.Uint32(record.Value[atCoordinatorEpoch:]))
	return EndMarker{Type: kind, CoordinatorEpoch: epoch}, true, nil
}

// controlRecord reads the first record, whose key is known to be long enough then.
func (b Batch) controlRecord() (Record, error) {
	var record Record
	if !b.IsControl() || b.Codec() != None || b.Count() < 1 {
		return record, &CorruptError{Position: atAttributes, Reason: "no control record"}
	}
	records := cursor{piece: b.Records()}
	if !records.next(&record) {
		return record, &CorruptError{Position: atRecords, Reason: recordReason(0, records.reason)}
	}
	if len(record.Key) < controlKeyLen {
		return record, &CorruptError{Position: atRecords, Reason: "control record without a type"}
	}
	return record, nil
}

// AppendEndMarker adds the marker that ends a transaction; the options of the builder must say that the batch is a
// control batch and transactional.
func (b *Builder) AppendEndMarker(timestamp int64, marker EndMarker) {
	key := binary.BigEndian.AppendUint16(make([]byte, 2, controlKeyLen), uint16(marker.Type))
	value := binary.BigEndian.AppendUint32(make([]byte, 2, endMarkerLen), uint32(marker.CoordinatorEpoch))
	b.Append(timestamp, key, value)
}

// NewEndMarker builds the control batch that ends a producer's transaction in a partition. Offset and leader epoch are
// assigned by whoever appends it.
func NewEndMarker(producerID int64, producerEpoch int16, timestamp int64, marker EndMarker) Batch {
	options := PlainProducer()
	options.ProducerID, options.ProducerEpoch = producerID, producerEpoch
	options.Transactional, options.Control = true, true
	b := NewBuilder(options)
	b.AppendEndMarker(timestamp, marker)
	return b.Build()
}
