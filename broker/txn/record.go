package txn

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// The versions of the records of __transaction_state that are written. Values of version 1 have tagged fields, and so
// all that KIP-890 needs to know after a crash.
const (
	keyVersion   int16 = 0
	valueVersion int16 = 1
)

// encodeKey makes the key of the record of a transactional id.
func encodeKey(transactionalID string) []byte {
	key := kmsg.NewTxnMetadataKey()
	key.Version, key.TransactionalID = keyVersion, transactionalID
	return key.AppendTo(nil)
}

// decodeKey reads the transactional id. False is a kind of record that a later Kafka may have written: none of ours.
func decodeKey(data []byte) (transactionalID string, known bool, err error) {
	if len(data) < 2 {
		return "", false, fmt.Errorf("the key of a transaction's record has %d bytes", len(data))
	}
	if int16(binary.BigEndian.Uint16(data)) != keyVersion {
		return "", false, nil
	}
	key := kmsg.NewTxnMetadataKey()
	if err := key.ReadFrom(data); err != nil {
		return "", false, fmt.Errorf("read the key of a transaction's record: %w", err)
	}
	return key.TransactionalID, true, nil
}

// encodeValue makes the value of a record, as Kafka 4.4 does at transaction.version 2.
func encodeValue(t Transaction) []byte {
	value := kmsg.NewTxnMetadataValue()
	value.Version = valueVersion
	value.ProducerID, value.ProducerEpoch = t.ID, t.Epoch
	value.PreviousProducerID, value.NextProducerID = t.PreviousID, t.NextID
	value.TimeoutMillis = t.TimeoutMs
	value.State = kmsg.TransactionState(t.State)
	value.LastUpdateTimestamp, value.StartTimestamp = t.UpdatedMs, t.StartedMs
	value.ClientTransactionVersion = t.Version
	if t.State != Empty { // of an empty one they are null
		value.Topics = topicsOf(t.Partitions)
	}
	return value.AppendTo(nil)
}

// topicsOf groups sorted partitions by topic. It is never nil.
func topicsOf(partitions []kafka.TopicPartition) []kmsg.TxnMetadataValueTopic {
	topics := []kmsg.TxnMetadataValueTopic{}
	for _, tp := range partitions {
		if len(topics) == 0 || topics[len(topics)-1].Topic != tp.Topic {
			topic := kmsg.NewTxnMetadataValueTopic()
			topic.Topic = tp.Topic
			topics = append(topics, topic)
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, tp.Partition)
	}
	return topics
}

// decodeValue reads a record of version 0 or 1.
func decodeValue(data []byte) (Transaction, error) {
	t := unknown()
	if len(data) < 2 {
		return t, fmt.Errorf("the value of a transaction's record has %d bytes", len(data))
	}
	if version := int16(binary.BigEndian.Uint16(data)); version < 0 || version > valueVersion {
		return t, fmt.Errorf("a transaction's record has version %d, and %d is the highest that is known",
			version, valueVersion)
	}
	value := kmsg.NewTxnMetadataValue()
	if err := value.ReadFrom(data); err != nil {
		return t, fmt.Errorf("read the value of a transaction's record: %w", err)
	}
	if state := State(value.State); state != Ongoing && !state.prepared() && !state.idle() {
		return t, fmt.Errorf("a transaction's record is in %s, which is never written", state)
	}
	t.Producer = Producer{ID: value.ProducerID, Epoch: value.ProducerEpoch}
	t.PreviousID, t.NextID = value.PreviousProducerID, value.NextProducerID
	t.State, t.TimeoutMs = State(value.State), value.TimeoutMillis
	t.StartedMs, t.UpdatedMs = value.StartTimestamp, value.LastUpdateTimestamp
	t.Version = value.ClientTransactionVersion
	var partitions []kafka.TopicPartition
	for _, topic := range value.Topics {
		for _, partition := range topic.Partitions {
			partitions = append(partitions, kafka.TopicPartition{Topic: topic.Topic, Partition: partition})
		}
	}
	t.Partitions = union(partitions, nil)
	return t, nil
}
