package kafka

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
)

// BrokerID identifies a broker of the cluster (node.id). −1 means none.
type BrokerID int32

// NoBroker is the id of no broker: a partition without a leader has it.
const NoBroker BrokerID = -1

// LeaderEpoch counts the leaderships of one partition (KIP-101). It only grows; −1 means unknown.
type LeaderEpoch int32

// NoLeaderEpoch is the epoch a request carries when it does not know one.
const NoLeaderEpoch LeaderEpoch = -1

// UUID is the 128-bit identifier that Kafka prints as URL-safe base64 without padding: cluster ids, directory ids.
type UUID [16]byte

// TopicID names one incarnation of a topic (KIP-516): a topic created again under the same name has another one.
type TopicID = UUID

// ParseUUID reads Kafka's 22-character form.
func ParseUUID(text string) (UUID, error) {
	var id UUID
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("%q is not a Kafka id: 22 characters of URL-safe base64 are expected", text)
	}
	copy(id[:], raw)
	return id, nil
}

// String prints Kafka's 22-character form.
func (id UUID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Hex prints 32 hexadecimal digits: the form used in object keys, where case must not matter.
func (id UUID) Hex() string { return hex.EncodeToString(id[:]) }

// IsZero tells whether the id is unset, which on the wire means "by name".
func (id UUID) IsZero() bool { return id == UUID{} }

// TopicPartition names a partition by its topic's name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String prints topic-partition, which is also the name of the partition's folder.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// TopicIDPartition names a partition by its topic's id, so that it never means a later topic of the same name.
type TopicIDPartition struct {
	ID        TopicID
	Partition int32
}

// String prints id:partition.
func (tp TopicIDPartition) String() string {
	return tp.ID.String() + ":" + strconv.Itoa(int(tp.Partition))
}
