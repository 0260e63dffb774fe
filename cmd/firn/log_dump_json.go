package main

import (
	"fmt"
	"io"
	"reflect"

	"github.com/firnlog/firn/broker/storage"
)

// dumpedItem is one line of `log dump --format json`.
type dumpedItem struct {
	Type string `json:"type"`
	Item any    `json:"item"`
}

// dumpedProducer is an entry of a producer snapshot in JSON.
type dumpedProducer struct {
	ProducerID       int64 `json:"producerId"`
	ProducerEpoch    int16 `json:"producerEpoch"`
	LastSequence     int32 `json:"lastSequence"`
	LastOffset       int64 `json:"lastOffset"`
	OffsetDelta      int32 `json:"offsetDelta"`
	Timestamp        int64 `json:"timestamp"`
	CoordinatorEpoch int32 `json:"coordinatorEpoch"`
	TxnFirstOffset   int64 `json:"currentTxnFirstOffset"` // −1 without an open transaction
}

// dumpedEpoch is an entry of leader-epoch-checkpoint in JSON.
type dumpedEpoch struct {
	Epoch       int32 `json:"epoch"`
	StartOffset int64 `json:"startOffset"`
}

// dumpedLine gives an item its type.
func dumpedLine(item fmt.Stringer) dumpedItem {
	switch item := item.(type) {
	case storage.DumpedFile:
		return dumpedItem{"file", item}
	case dumpedObject:
		return dumpedItem{"object", item}
	case storage.DumpedBatch:
		return dumpedItem{"batch", item}
	case storage.DumpedRecord:
		return dumpedItem{"record", item}
	case storage.DumpedOffset:
		return dumpedItem{"offset", item}
	case storage.DumpedTime:
		return dumpedItem{"time", item}
	case storage.AbortedTransaction:
		return dumpedItem{"transaction", item}
	case storage.DumpedMetadata:
		return dumpedItem{"metadata", item}
	case storage.SnapshotEntry:
		return dumpedItem{"producer", dumpedProducer{ProducerID: item.ProducerID, ProducerEpoch: item.ProducerEpoch,
			LastSequence: item.LastSequence, LastOffset: item.LastOffset, OffsetDelta: item.OffsetDelta,
			Timestamp: item.Timestamp, CoordinatorEpoch: item.CoordinatorEpoch, TxnFirstOffset: item.TxnFirstOffset}}
	case storage.EpochEntry:
		return dumpedItem{"epoch", dumpedEpoch{Epoch: int32(item.Epoch), StartOffset: item.StartOffset}}
	}
	return dumpedPart(item)
}

// dumpedPart gives a type to an item of what tells where segments are.
func dumpedPart(item fmt.Stringer) dumpedItem {
	switch item := item.(type) {
	case dumpedSealed:
		return dumpedItem{"manifest", item}
	case dumpedSegment:
		return dumpedItem{"segment", item}
	case dumpedReference:
		return dumpedItem{"reference", item}
	case dumpedCheckpoint:
		return dumpedItem{"checkpoint", item}
	case dumpedShardName:
		return dumpedItem{"shard", item}
	case dumpedShard:
		return dumpedItem{"contents", item}
	case dumpedTopic:
		return dumpedItem{"topic", item}
	case dumpedPartition:
		return dumpedItem{"partition", item}
	case dumpedGroup:
		return dumpedItem{"group", item}
	case dumpedCommit:
		return dumpedItem{"commit", item}
	}
	return dumpedItem{"other", item.String()}
}

// writeDumpSchema prints each type of line.
func writeDumpSchema(w io.Writer) error {
	for _, item := range []fmt.Stringer{
		storage.DumpedFile{}, dumpedObject{}, storage.DumpedBatch{}, storage.DumpedRecord{}, storage.DumpedOffset{},
		storage.DumpedTime{}, storage.SnapshotEntry{}, storage.EpochEntry{}, storage.AbortedTransaction{},
		storage.DumpedMetadata{}, dumpedSealed{}, dumpedSegment{}, dumpedReference{}, dumpedCheckpoint{}, dumpedShardName{},
		dumpedShard{}, dumpedTopic{}, dumpedPartition{}, dumpedGroup{}, dumpedCommit{},
	} {
		line := dumpedLine(item)
		schema := schemaOf(reflect.TypeOf(line.Item), "  ")
		_, err := fmt.Fprintf(w, "{\n  \"type\": %q\n  \"item\": %s\n}\n", line.Type, schema)
		if err != nil {
			return err
		}
	}
	return nil
}
