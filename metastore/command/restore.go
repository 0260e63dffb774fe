package command

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
)

// RestoreTopics creates topics whose history is in the bucket already, each on its own account. A topic with many
// partitions may come in several commands: the first one, with First 0, creates it and is refused if its name or id
// exists; a later one adds partitions to a topic that has exactly First of them. The result is a []TopicResult in the
// same order.
type RestoreTopics struct {
	Topics []RestoredTopic
}

// RestoredTopic is one topic of RestoreTopics.
type RestoredTopic struct {
	ID         kafka.TopicID // as it was: a topic keeps its id for ever
	Name       string
	Internal   bool
	Configs    map[string]string
	Origins    []kafka.UUID // all clusters that have written objects of it, and this one at the end
	First      int32        // number of the first of Partitions
	Partitions []RestoredPartition
}

// RestoredPartition is a partition with its tier.
type RestoredPartition struct {
	Replicas    []kafka.BrokerID // the first one leads
	Directories []kafka.UUID
	LeaderEpoch kafka.LeaderEpoch // above any that an object was written under
	Tiered      bool              // false: nothing of what follows is known, tiering has not begun
	Start       int64
	End         int64
	Version     int64
	Bytes       int64 // of the segments that are part of the log; items may list more, below the start
	Segments    int64
	Items       []Item
}

// Type is TypeRestoreTopics.
func (RestoreTopics) Type() Type { return TypeRestoreTopics }

// minRestoredTopicBytes: id, an empty name, a flag, two empty lists, a number and an empty list.
const minRestoredTopicBytes = 16 + 1 + 1 + 1 + 1 + 1 + 1

func (c RestoreTopics) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Topics)))
	for i := range c.Topics {
		topic := &c.Topics[i]
		dst = append(dst, topic.ID[:]...)
		dst = AppendString(dst, topic.Name)
		dst = AppendBool(dst, topic.Internal)
		dst = AppendConfigs(dst, topic.Configs)
		dst = AppendUUIDs(dst, topic.Origins)
		dst = binary.AppendVarint(dst, int64(topic.First))
		dst = binary.AppendUvarint(dst, uint64(len(topic.Partitions)))
		for j := range topic.Partitions {
			dst = appendRestoredPartition(dst, &topic.Partitions[j])
		}
	}
	return dst
}

func readRestoredTopic(c *Cursor) RestoredTopic {
	const minPartitionBytes = 2 + 1 + 1 // two empty lists, an epoch and a flag
	return RestoredTopic{
		ID:         c.UUID(),
		Name:       c.String(),
		Internal:   c.Bool(),
		Configs:    c.Configs(),
		Origins:    c.UUIDs(),
		First:      c.Int32(),
		Partitions: readList(c, minPartitionBytes, readRestoredPartition),
	}
}

func appendRestoredPartition(dst []byte, p *RestoredPartition) []byte {
	dst = AppendBrokers(dst, p.Replicas)
	dst = AppendUUIDs(dst, p.Directories)
	dst = binary.AppendVarint(dst, int64(p.LeaderEpoch))
	dst = AppendBool(dst, p.Tiered)
	if !p.Tiered {
		return dst
	}
	for _, number := range []int64{p.Start, p.End, p.Version, p.Bytes, p.Segments} {
		dst = binary.AppendVarint(dst, number)
	}
	return AppendItems(dst, p.Items)
}

func readRestoredPartition(c *Cursor) RestoredPartition {
	p := RestoredPartition{Replicas: c.Brokers(), Directories: c.UUIDs(), LeaderEpoch: c.LeaderEpoch(), Tiered: c.Bool()}
	if p.Tiered {
		p.Start, p.End, p.Version, p.Bytes, p.Segments = c.Int64(), c.Int64(), c.Int64(), c.Int64(), c.Int64()
		p.Items = c.Items()
	}
	return p
}

// SetNextProducerID moves the next producer id up to AtLeast: a restored cluster must not give out one that its
// predecessor has. The result is the next id from then on, an int64.
type SetNextProducerID struct {
	AtLeast int64
}

// Type is TypeSetNextProducerID.
func (SetNextProducerID) Type() Type { return TypeSetNextProducerID }

func (c SetNextProducerID) appendBody(dst []byte) []byte { return binary.AppendVarint(dst, c.AtLeast) }
