package metastore

import (
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/controller"
)

// Place chooses brokers and log directories for count new partitions of one topic, of which the first will be
// partition number first. Errors carry Kafka's code.
func (s *Store) Place(first, count int32, replicationFactor int16) ([]command.NewPartition, error) {
	return controller.Place(s.Image(), controller.Request{
		FirstPartition: first, Count: count, ReplicationFactor: replicationFactor,
	})
}

// PlaceOn checks an assignment that a client has chosen, one list of brokers a partition, and chooses the directories.
func (s *Store) PlaceOn(assignments [][]kafka.BrokerID) ([]command.NewPartition, error) {
	return controller.PlaceOn(s.Image(), assignments)
}
