package checkpoint

import (
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/segment"
)

// Object is one object of a checkpoint by itself, for whoever looks into a bucket: a root, or a shard.
type Object struct {
	Root  *Root  // nil: it is a shard
	Shard *Shard // nil: it is a root
}

// Shard is what one shard holds. The partitions of a topic are spread over several.
type Shard struct {
	ClusterID  kafka.UUID
	Contents   string // topics or groups
	Number     uint32
	Topics     []ShardTopic
	Partitions []ShardPartition
	Groups     []Group
}

// ShardTopic is a topic without its partitions, and how many there are of them.
type ShardTopic struct {
	Topic
	PartitionCount int
}

// ShardPartition is a partition with its name.
type ShardPartition struct {
	kafka.TopicIDPartition
	Partition
}

// ShardName says where a shard of a checkpoint is.
type ShardName struct {
	Key      string
	Contents string // topics or groups
	Number   uint32
	Bytes    int64 // of the object
}

func (k shardKind) String() string {
	switch k {
	case shardOfTopics:
		return "topics"
	case shardOfGroups:
		return "groups"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Shards lists the shards that the checkpoint consists of.
func (r *Root) Shards() []ShardName {
	names := make([]ShardName, len(r.shards))
	for i := range r.shards {
		shard := &r.shards[i]
		names[i] = ShardName{
			Key: shard.key(r.ClusterID), Contents: shard.kind.String(), Number: shard.number, Bytes: shard.bytes,
		}
	}
	return names
}

// ParseObject reads a whole object of a checkpoint and checks all that can be checked without the others.
func ParseObject(data []byte) (*Object, error) {
	trailer, err := segment.ParseTrailer(data)
	if err != nil {
		return nil, err
	}
	if trailer.Kind != segment.KindShard {
		root, err := parseRoot(data)
		return &Object{Root: root}, err
	}
	contents, _, err := unseal(segment.KindShard, data)
	if err != nil {
		return nil, err
	}
	header := command.NewCursor(contents)
	which, owner := readShardID(&header), header.UUID()
	parsed, err := parseShard(data, owner, which)
	if err != nil {
		return nil, err
	}
	shard := &Shard{ClusterID: owner, Contents: which.kind.String(), Number: which.number, Groups: parsed.groups}
	for _, record := range parsed.topics {
		shard.Topics = append(shard.Topics, ShardTopic{record.topic, record.partitions})
	}
	for _, record := range parsed.partitions {
		if err := record.partition.check(); err != nil {
			return nil, fmt.Errorf("partition %s: %w", record.tp, err)
		}
		shard.Partitions = append(shard.Partitions, ShardPartition{record.tp, record.partition})
	}
	return &Object{Shard: shard}, nil
}
