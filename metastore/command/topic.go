package command

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
)

// NewPartition is where a new partition's replicas go. The first replica is the preferred leader.
type NewPartition struct {
	Replicas    []kafka.BrokerID
	Directories []kafka.UUID // of each replica, in the same order: its log directory on that broker
}

// NewTopic is one topic of CreateTopics.
type NewTopic struct {
	ID         kafka.TopicID
	Name       string
	Internal   bool
	Configs    map[string]string
	Partitions []NewPartition
}

// CreateTopics creates topics, each on its own account. The result is a []TopicResult in the same order.
type CreateTopics struct {
	Topics []NewTopic
}

// TopicResult says what became of one topic.
type TopicResult struct {
	ID   kafka.TopicID
	Name string
	Err  error
}

// Type is TypeCreateTopics.
func (CreateTopics) Type() Type { return TypeCreateTopics }

// minNewTopicBytes: id, an empty name, a flag and two empty lists.
const minNewTopicBytes = 16 + 1 + 1 + 1 + 1

func (c CreateTopics) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Topics)))
	for _, topic := range c.Topics {
		dst = append(dst, topic.ID[:]...)
		dst = AppendString(dst, topic.Name)
		dst = AppendBool(dst, topic.Internal)
		dst = AppendConfigs(dst, topic.Configs)
		dst = appendNewPartitions(dst, topic.Partitions)
	}
	return dst
}

func readNewTopic(c *Cursor) NewTopic {
	return NewTopic{
		ID:         c.UUID(),
		Name:       c.String(),
		Internal:   c.Bool(),
		Configs:    c.Configs(),
		Partitions: readNewPartitions(c),
	}
}

func appendNewPartitions(dst []byte, partitions []NewPartition) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(partitions)))
	for _, partition := range partitions {
		dst = AppendBrokers(dst, partition.Replicas)
		dst = AppendUUIDs(dst, partition.Directories)
	}
	return dst
}

func readNewPartitions(c *Cursor) []NewPartition {
	const minBytes = 2 // two empty lists
	return readList(c, minBytes, func(c *Cursor) NewPartition {
		return NewPartition{Replicas: c.Brokers(), Directories: c.UUIDs()}
	})
}

// DeleteTopic removes a topic. What it has in the bucket stays behind as a DeletedTopic until TopicCollected. It has
// no result beyond the error.
type DeleteTopic struct {
	ID        kafka.TopicID
	ElapsedMs int64
	Keep      bool // what it has in the bucket stays for good (firn.remote.delete)
}

// Type is TypeDeleteTopic.
func (DeleteTopic) Type() Type { return TypeDeleteTopic }

func (c DeleteTopic) appendBody(dst []byte) []byte {
	dst = append(dst, c.ID[:]...)
	dst = binary.AppendVarint(dst, c.ElapsedMs)
	return AppendBool(dst, c.Keep)
}

func readDeleteTopic(c *Cursor, version uint8) Command {
	cmd := DeleteTopic{ID: c.UUID(), ElapsedMs: c.Int64()}
	if version > version1 {
		cmd.Keep = c.Bool()
	}
	return cmd
}

// CreatePartitions adds partitions to a topic that has exactly Existing of them: of two requests at once, one is
// refused instead of both being added. It has no result beyond the error.
type CreatePartitions struct {
	TopicID    kafka.TopicID
	Existing   int32
	Partitions []NewPartition
}

// Type is TypeCreatePartitions.
func (CreatePartitions) Type() Type { return TypeCreatePartitions }

func (c CreatePartitions) appendBody(dst []byte) []byte {
	dst = append(dst, c.TopicID[:]...)
	dst = binary.AppendVarint(dst, int64(c.Existing))
	return appendNewPartitions(dst, c.Partitions)
}

func readCreatePartitions(c *Cursor) Command {
	return CreatePartitions{TopicID: c.UUID(), Existing: c.Int32(), Partitions: readNewPartitions(c)}
}

// ResourceType is what a setting belongs to, under the numbers of Kafka's protocol.
type ResourceType int8

// The resources with settings of their own.
const (
	ResourceTopic  ResourceType = 2
	ResourceBroker ResourceType = 4
	ResourceGroup  ResourceType = 32
)

// ConfigOp sets one setting, or deletes it if Value is nil. Lists that a client appends to or subtracts from are
// resolved by whoever proposes.
type ConfigOp struct {
	Name  string
	Value *string
}

// AlterConfigs changes the dynamic settings of one resource. It has no result beyond the error. Values are checked
// before they are proposed, never here: what is a legal value may change from version to version, and the state
// machine must not.
type AlterConfigs struct {
	Resource ResourceType
	Name     string // of the topic or group, or the broker id; "" is the default of all brokers
	Ops      []ConfigOp
}

// Type is TypeAlterConfigs.
func (AlterConfigs) Type() Type { return TypeAlterConfigs }

func (c AlterConfigs) appendBody(dst []byte) []byte {
	dst = append(dst, byte(c.Resource))
	dst = AppendString(dst, c.Name)
	dst = binary.AppendUvarint(dst, uint64(len(c.Ops)))
	for _, op := range c.Ops {
		dst = AppendString(dst, op.Name)
		dst = AppendNullableString(dst, op.Value)
	}
	return dst
}

func readAlterConfigs(c *Cursor) Command {
	const minBytes = 2 // an empty name and no value
	return AlterConfigs{
		Resource: ResourceType(c.Uint8()),
		Name:     c.String(),
		Ops: readList(c, minBytes, func(c *Cursor) ConfigOp {
			return ConfigOp{Name: c.String(), Value: c.NullableString()}
		}),
	}
}

// BumpLeaderEpochs gives every partition that the broker leads a new leader epoch: after an unclean stop the broker
// may have lost records that nobody was promised, and their offsets must not be told apart by epoch later (KIP-101).
// The result is an EpochsBumped.
type BumpLeaderEpochs struct {
	Broker kafka.BrokerID
}

// EpochsBumped is the result of BumpLeaderEpochs.
type EpochsBumped struct {
	Partitions int
}

// Type is TypeBumpLeaderEpochs.
func (BumpLeaderEpochs) Type() Type { return TypeBumpLeaderEpochs }

func (c BumpLeaderEpochs) appendBody(dst []byte) []byte {
	return binary.AppendVarint(dst, int64(c.Broker))
}
