package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partitionStickiness is the stickiness where the command line does not say how large a batch is to be.
const partitionStickiness = 64 << 10

// The names of --partitioner.
const (
	partitionMurmur2    = "murmur2"
	partitionSticky     = "sticky"
	partitionRoundRobin = "round-robin"
	partitionRandom     = "random"
)

func partitioners() []string {
	return []string{partitionMurmur2, partitionSticky, partitionRoundRobin, partitionRandom}
}

// newPartitioner sends a record to the partition it names, and the others by the rule of that name.
func newPartitioner(name string, stickiness int) (kgo.Partitioner, error) {
	var usual kgo.Partitioner
	switch name {
	case partitionMurmur2:
		usual = kgo.UniformBytesPartitioner(stickiness, true, true, nil)
	case partitionSticky:
		usual = kgo.UniformBytesPartitioner(stickiness, true, false, nil)
	case partitionRoundRobin:
		usual = kgo.RoundRobinPartitioner()
	case partitionRandom:
		seed := uint64(time.Now().UnixNano())
		usual = randomPartitioner{rand.New(rand.NewPCG(seed, seed))}
	default:
		known := partitioners()
		slices.Sort(known)
		return nil, fmt.Errorf("unknown --partitioner %q: %s are known", name, strings.Join(known, ", "))
	}
	return namedPartitioner{usual}, nil
}

type namedPartitioner struct{ usual kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (n namedPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &namedTopicPartitioner{TopicPartitioner: n.usual.ForTopic(topic)}
}

type namedTopicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner: what is named must not move to a partition that has a leader.
func (n *namedTopicPartitioner) RequiresConsistency(record *kgo.Record) bool {
	return record.Partition != anyPartition || n.TopicPartitioner.RequiresConsistency(record)
}

// PartitionByBackup implements kgo.TopicBackupPartitioner, which some of the usual partitioners are.
func (n *namedTopicPartitioner) PartitionByBackup(record *kgo.Record, partitions int, backup kgo.TopicBackupIter) int {
	if record.Partition != anyPartition {
		return int(record.Partition)
	}
	if usual, ok := n.TopicPartitioner.(kgo.TopicBackupPartitioner); ok {
		return usual.PartitionByBackup(record, partitions, backup)
	}
	return n.Partition(record, partitions)
}

var _ kgo.TopicBackupPartitioner = (*namedTopicPartitioner)(nil)

// randomPartitioner throws a die for each record. kgo asks it under a lock of the topic's, and a command whose records
// name several topics has them partitioned one after the other.
type randomPartitioner struct{ die *rand.Rand }

// ForTopic implements kgo.Partitioner.
func (r randomPartitioner) ForTopic(string) kgo.TopicPartitioner {
	return randomPartitioner{rand.New(rand.NewPCG(r.die.Uint64(), r.die.Uint64()))}
}

// RequiresConsistency implements kgo.TopicPartitioner: any partition that can be written will do.
func (randomPartitioner) RequiresConsistency(*kgo.Record) bool { return false }

// Partition implements kgo.TopicPartitioner.
func (r randomPartitioner) Partition(_ *kgo.Record, partitions int) int {
	return r.die.IntN(partitions)
}
