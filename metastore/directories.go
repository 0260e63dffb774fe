package metastore

import (
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// settleDirectories takes partitions away from a broker whose log directory for them does not serve, and gives them
// back once it does (KIP-858). What is left without a leader is never made anew elsewhere: its records are in that
// directory. Electing another replica is for when there are several.
func (t *transition) settleDirectories(broker *image.Broker) {
	for topic := range t.image.Topics() {
		settled := func(p *image.Partition) bool { return !loses(p, broker) && !regains(p, broker) }
		first := 0
		for first < len(topic.Partitions) && settled(&topic.Partitions[first]) {
			first++
		}
		if first == len(topic.Partitions) {
			continue
		}
		var changed []int
		next := topic.WithPartitions(func(partitions []image.Partition) []image.Partition {
			for i := first; i < len(partitions); i++ {
				if p := &partitions[i]; !settled(p) {
					settle(p, broker)
					changed = append(changed, i)
				}
			}
			return partitions
		})
		for _, i := range changed {
			t.setPartition(next, i)
		}
		t.image = t.image.WithTopic(next)
	}
}

// loses tells whether a broker leads a partition, or is in sync, without the directory where the partition lies.
func loses(p *image.Partition, broker *image.Broker) bool {
	return (p.Leader == broker.ID || slices.Contains(p.ISR, broker.ID)) && !broker.Serves(p.Directory(broker.ID))
}

// regains tells whether a broker is the one that may lead a partition again: the only one that ever had its records, as
// an empty ISR with one replica says.
func regains(p *image.Partition, broker *image.Broker) bool {
	return p.Leader == kafka.NoBroker && len(p.ISR) == 0 && slices.Equal(p.Replicas, []kafka.BrokerID{broker.ID}) &&
		broker.Serves(p.Directory(broker.ID))
}

func settle(p *image.Partition, broker *image.Broker) {
	p.PartitionEpoch++
	if regains(p, broker) {
		p.Leader, p.ISR = broker.ID, []kafka.BrokerID{broker.ID}
		p.Epoch++
		return
	}
	p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(id kafka.BrokerID) bool { return id == broker.ID })
	if p.Leader == broker.ID {
		p.Leader = kafka.NoBroker
		p.Epoch++
	}
}
