package main

import "github.com/twmb/franz-go/pkg/kgo"

// partitionStickiness is how many bytes of records without a key go to one partition before another one's turn.
const partitionStickiness = 64 << 10

// namedPartitioner sends a record to the partition it names and leaves the others to Kafka's usual rule: by the hash
// of the key, or spread evenly without one.
type namedPartitioner struct{}

// ForTopic implements kgo.Partitioner.
func (namedPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	usual := kgo.UniformBytesPartitioner(partitionStickiness, true, true, nil).ForTopic(topic)
	return &namedTopicPartitioner{TopicPartitioner: usual}
}

type namedTopicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner: what is named must not move to a partition that has a leader.
func (n *namedTopicPartitioner) RequiresConsistency(record *kgo.Record) bool {
	return record.Partition != anyPartition || n.TopicPartitioner.RequiresConsistency(record)
}

// PartitionByBackup implements kgo.TopicBackupPartitioner, as the usual partitioner does, which has no other way.
func (n *namedTopicPartitioner) PartitionByBackup(record *kgo.Record, partitions int, backup kgo.TopicBackupIter) int {
	if record.Partition != anyPartition {
		return int(record.Partition)
	}
	return n.TopicPartitioner.(kgo.TopicBackupPartitioner).PartitionByBackup(record, partitions, backup)
}

var _ kgo.TopicBackupPartitioner = (*namedTopicPartitioner)(nil)
