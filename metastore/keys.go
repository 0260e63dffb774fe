package metastore

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// Keys of the metadata space (state.SpaceMetadata). Ids are 16 raw bytes, numbers big endian.
//
//	'c'                        cluster id, 16 bytes
//	'n'                        next producer id
//	'e'                        highest elapsed time of any command, milliseconds
//	'b' broker(4)              broker
//	't' topic                  topic: name and settings
//	'p' topic partition(4)     partition: leader, epochs, replicas
//	'f' name                   dynamic settings of a broker; of all brokers under the empty name
//	'o' group                  settings of a group
//
// Keys of the tier space (state.SpaceTier):
//
//	's' topic partition(4)               tier state
//	'h' topic partition(4) base(8)       top-level item of the manifest; its second byte is the kind of item
//	'r' topic partition(4) upload        reserved upload id
//	'l' deadline(8) topic partition(4) upload   the same, by deadline; one without an 'r' is left over and means nothing
//	'g' topic partition(4) upload [to(8)]   garbage: objects to be collected; with an offset behind it, a part of a tree
//	'd' topic                            deleted topic with objects to be collected
//	'k' id                               pin: a range whose objects are kept
//	'w' index(8) id                      checkpoint that is durable in the bucket, one of the newest
const (
	keyCluster      = 'c'
	keyNextProducer = 'n'
	keyElapsed      = 'e'
	keyBroker       = 'b'
	keyTopic        = 't'
	keyPartition    = 'p'
	keyBrokerConfig = 'f'
	keyGroupConfig  = 'o'

	keyTier         = 's'
	keyHead         = 'h'
	keyReservation  = 'r'
	keyDeadline     = 'l'
	keyGarbage      = 'g'
	keyDeletedTopic = 'd'
	keyPin          = 'k'
	keyCheckpoint   = 'w'
)

func brokerKey(id kafka.BrokerID) []byte {
	return binary.BigEndian.AppendUint32([]byte{keyBroker}, uint32(id))
}

func topicKey(kind byte, id kafka.TopicID) []byte { return append([]byte{kind}, id[:]...) }

func partitionKey(kind byte, tp kafka.TopicIDPartition) []byte {
	return binary.BigEndian.AppendUint32(topicKey(kind, tp.ID), uint32(tp.Partition))
}

func headKey(tp kafka.TopicIDPartition, base int64) []byte {
	return binary.BigEndian.AppendUint64(partitionKey(keyHead, tp), uint64(base))
}

func uploadKey(kind byte, tp kafka.TopicIDPartition, upload kafka.UUID) []byte {
	return append(partitionKey(kind, tp), upload[:]...)
}

// garbageKey sorts the parts of a tree that have gone behind the tree's own upload id.
func garbageKey(object command.CollectedObject) []byte {
	key := uploadKey(keyGarbage, object.Partition, object.UploadID)
	if object.To == 0 {
		return key
	}
	return binary.BigEndian.AppendUint64(key, uint64(object.To))
}

func pinKey(id kafka.UUID) []byte { return append([]byte{keyPin}, id[:]...) }

func checkpointKey(checkpoint command.Checkpoint) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{keyCheckpoint}, checkpoint.Index), checkpoint.ID[:]...)
}

func parseCheckpoint(key []byte) command.Checkpoint {
	return command.Checkpoint{Index: binary.BigEndian.Uint64(key[1:]), ID: kafka.UUID(key[1+8:])}
}

func deadlineKey(deadline int64, tp kafka.TopicIDPartition, upload kafka.UUID) []byte {
	key := binary.BigEndian.AppendUint64([]byte{keyDeadline}, uint64(deadline))
	return append(key, uploadKey(0, tp, upload)[1:]...)
}

// Sizes of keys that are taken apart again.
const (
	topicKeySize     = 1 + 16
	partitionKeySize = topicKeySize + 4
	uploadKeySize    = partitionKeySize + 16
	deadlineKeySize  = 8 + uploadKeySize
)

// parsePartition reads topic and partition behind a key's first byte.
func parsePartition(key []byte) kafka.TopicIDPartition {
	return kafka.TopicIDPartition{
		ID:        kafka.UUID(key[1:topicKeySize]),
		Partition: int32(binary.BigEndian.Uint32(key[topicKeySize:partitionKeySize])),
	}
}

// parseUpload reads topic, partition and upload id behind a key's first byte.
func parseUpload(key []byte) (kafka.TopicIDPartition, kafka.UUID) {
	return parsePartition(key), kafka.UUID(key[partitionKeySize:uploadKeySize])
}

// parseDeadline reads a key of the index by deadline.
func parseDeadline(key []byte) (deadline int64, tp kafka.TopicIDPartition, upload kafka.UUID) {
	deadline = int64(binary.BigEndian.Uint64(key[1:]))
	tp, upload = parseUpload(key[deadlineKeySize-uploadKeySize:])
	return deadline, tp, upload
}
