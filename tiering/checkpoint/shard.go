package checkpoint

import (
	"encoding/binary"
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/segment"
)

// topicRecord is a topic without its partitions, which may be in other shards.
type topicRecord struct {
	topic      Topic
	partitions int
}

// partitionRecord is a partition with its name.
type partitionRecord struct {
	tp        kafka.TopicIDPartition
	partition Partition
}

// shard is the contents of a shard; of what is not of its kind it has nothing.
type shard struct {
	shardID
	topics     []topicRecord
	partitions []partitionRecord
	groups     []Group
}

func (s *shard) empty() bool { return len(s.topics)+len(s.partitions)+len(s.groups) == 0 }

func (s *shard) append(dst []byte, cluster kafka.UUID) []byte {
	dst = append(dst, byte(s.kind))
	dst = binary.AppendUvarint(dst, uint64(s.number))
	dst = append(dst, cluster[:]...)
	if s.kind == shardOfGroups {
		return s.appendGroups(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.topics)))
	for _, record := range s.topics {
		dst = append(dst, record.topic.ID[:]...)
		dst = command.AppendString(dst, record.topic.Name)
		dst = command.AppendConfigs(dst, record.topic.Configs)
		dst = command.AppendUUIDs(dst, record.topic.Origins)
		dst = binary.AppendUvarint(dst, uint64(record.partitions))
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.partitions)))
	for _, record := range s.partitions {
		dst = command.AppendPartition(dst, record.tp)
		dst = record.partition.append(dst)
	}
	return dst
}

func (p *Partition) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(p.LeaderEpoch))
	dst = command.AppendBool(dst, p.Tiered)
	if !p.Tiered {
		return dst
	}
	for _, number := range []int64{p.Start, p.End, p.Version, p.Segments, p.Bytes} {
		dst = binary.AppendVarint(dst, number)
	}
	return command.AppendItems(dst, p.Items)
}

func (s *shard) appendGroups(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.groups)))
	for _, group := range s.groups {
		dst = command.AppendString(dst, group.Name)
		dst = command.AppendConfigs(dst, group.Configs)
		dst = binary.AppendUvarint(dst, uint64(len(group.Offsets)))
		for _, offset := range group.Offsets {
			dst = command.AppendString(dst, offset.Topic)
			dst = append(dst, offset.TopicID[:]...)
			dst = binary.AppendVarint(dst, int64(offset.Partition))
			dst = binary.AppendVarint(dst, offset.Offset)
			dst = binary.AppendVarint(dst, int64(offset.LeaderEpoch))
			dst = command.AppendString(dst, offset.Metadata)
			dst = binary.AppendVarint(dst, offset.ExpiresAt)
		}
	}
	return dst
}

// parseShard reads the object of a shard, which must be the one that a root of the cluster names.
func parseShard(object []byte, cluster kafka.UUID, wanted shardID) (*shard, error) {
	contents, version, err := unseal(segment.KindShard, object)
	if err != nil {
		return nil, err
	}
	c := command.NewCursor(contents)
	s := &shard{shardID: readShardID(&c)}
	if owner := c.UUID(); s.shardID != wanted || owner != cluster {
		return nil, fmt.Errorf("it is shard %d of kind %d of cluster %s, not shard %d of kind %d of cluster %s",
			s.number, s.kind, owner.Hex(), wanted.number, wanted.kind, cluster.Hex())
	}
	switch s.kind {
	case shardOfTopics:
		s.topics = list(&c, minTopicBytes, readTopic)
		s.partitions = list(&c, minPartitionBytes, readPartition)
	case shardOfGroups:
		s.groups = list(&c, minGroupBytes, func(c *command.Cursor) Group { return readGroup(c, version) })
	default:
		return nil, fmt.Errorf("shards of kind %d are not known to this program", s.kind)
	}
	return s, c.Finish()
}

const (
	minTopicBytes     = 16 + 1 + 1 + 1 + 1
	minPartitionBytes = 16 + 1 + 1 + 1
	minGroupBytes     = 1 + 1 + 1
	minOffsetBytes    = 1 + 16 + 1 + 1 + 1 + 1
)

func readTopic(c *command.Cursor) topicRecord {
	return topicRecord{
		topic:      Topic{ID: c.UUID(), Name: c.String(), Configs: c.Configs(), Origins: c.UUIDs()},
		partitions: int(c.Uvarint()),
	}
}

func readPartition(c *command.Cursor) partitionRecord {
	record := partitionRecord{
		tp:        c.Partition(),
		partition: Partition{LeaderEpoch: c.LeaderEpoch(), Tiered: c.Bool()},
	}
	if record.partition.Tiered {
		p := &record.partition
		p.Start, p.End, p.Version = c.Int64(), c.Int64(), c.Int64()
		p.Segments, p.Bytes, p.Items = c.Int64(), c.Int64(), c.Items()
	}
	return record
}

func readGroup(c *command.Cursor, version int) Group {
	return Group{
		Name: c.String(), Configs: c.Configs(),
		Offsets: list(c, minOffsetBytes, func(c *command.Cursor) Offset {
			offset := Offset{
				Topic: c.String(), TopicID: c.UUID(), Partition: c.Int32(), Offset: c.Int64(),
				LeaderEpoch: c.LeaderEpoch(), Metadata: c.String(),
			}
			if version > 1 {
				offset.ExpiresAt = c.Int64()
			}
			return offset
		}),
	}
}
