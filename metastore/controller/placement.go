package controller

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// MaxPartitionsPerRequest bounds what one request may add to a topic, as in Kafka: each partition costs descriptors and
// memory on every replica, and a mistyped number must not take the cluster down.
const MaxPartitionsPerRequest = 10_000

// Placement is the controller's part in creating topics and partitions. It keeps nothing.
type Placement struct{}

// Place spreads the replicas of new partitions of one topic; first is the number of the first of them. Leaders go round
// all brokers, beginning at another one for each topic; followers go round as well, one step further after each round
// of leaders, and a rack gets a second replica of a partition only when every rack has one.
func (Placement) Place(
	img *image.Image, first, partitions int32, replicationFactor int16,
) ([]command.NewPartition, error) {
	brokers := alternateRacks(img.Brokers)
	if err := checkCount(int(partitions)); err != nil {
		return nil, err
	}
	if replicationFactor < 1 || int(replicationFactor) > len(brokers) {
		return nil, fmt.Errorf("replication factor %d is not possible with %d brokers: %w",
			replicationFactor, len(brokers), kafka.InvalidReplicationFactor)
	}
	directories := newDirectories(img)
	placed := make([]command.NewPartition, partitions)
	for i := range placed {
		turn := img.TopicCount() + int(first) + i
		placed[i] = directories.assign(pickReplicas(brokers, turn, int(replicationFactor)))
	}
	return placed, nil
}

// Assign takes brokers that a client has chosen: brokers[i] are the replicas of the i-th new partition.
func (Placement) Assign(img *image.Image, brokers [][]kafka.BrokerID) ([]command.NewPartition, error) {
	if err := checkCount(len(brokers)); err != nil {
		return nil, err
	}
	directories := newDirectories(img)
	placed := make([]command.NewPartition, len(brokers))
	for i, replicas := range brokers {
		if err := checkAssignment(img, replicas, len(brokers[0])); err != nil {
			return nil, fmt.Errorf("new partition %d: %w", i, err)
		}
		placed[i] = directories.assign(slices.Clone(replicas))
	}
	return placed, nil
}

func checkCount(partitions int) error {
	switch {
	case partitions < 1:
		return fmt.Errorf("%d new partitions, at least one is needed: %w", partitions, kafka.InvalidPartitions)
	case partitions > MaxPartitionsPerRequest:
		return fmt.Errorf("%d new partitions are more than the %d that one request may add: %w",
			partitions, MaxPartitionsPerRequest, kafka.PolicyViolation)
	}
	return nil
}

func checkAssignment(img *image.Image, replicas []kafka.BrokerID, replicationFactor int) error {
	if len(replicas) == 0 || len(replicas) != replicationFactor {
		return fmt.Errorf("%d replicas, the first partition has %d: %w",
			len(replicas), replicationFactor, kafka.InvalidReplicaAssignment)
	}
	for i, replica := range replicas {
		if _, known := img.Broker(replica); !known {
			return fmt.Errorf("broker %d is not registered: %w", replica, kafka.InvalidReplicaAssignment)
		}
		if slices.Contains(replicas[:i], replica) {
			return fmt.Errorf("broker %d is listed twice: %w", replica, kafka.InvalidReplicaAssignment)
		}
	}
	return nil
}

// alternateRacks orders brokers so that neighbours are in different racks as far as possible: the first of each rack,
// then the second of each, and so on. A broker without a rack counts as a rack of its own name "".
func alternateRacks(brokers []*image.Broker) []*image.Broker {
	seen := make(map[string]int)
	round := make(map[kafka.BrokerID]int, len(brokers))
	for _, broker := range brokers {
		round[broker.ID] = seen[rackOf(broker)]
		seen[rackOf(broker)]++
	}
	ordered := slices.Clone(brokers)
	slices.SortFunc(ordered, func(a, b *image.Broker) int {
		return cmp.Or(
			cmp.Compare(round[a.ID], round[b.ID]), cmp.Compare(rackOf(a), rackOf(b)), cmp.Compare(a.ID, b.ID))
	})
	return ordered
}

func rackOf(broker *image.Broker) string {
	if broker.Rack == nil {
		return ""
	}
	return *broker.Rack
}

// pickReplicas chooses the brokers of one partition, the leader first. turn counts partitions over all topics.
func pickReplicas(brokers []*image.Broker, turn, count int) []kafka.BrokerID {
	leader := brokers[turn%len(brokers)]
	others := make([]*image.Broker, 0, len(brokers)-1)
	for i := range len(brokers) - 1 {
		shift := (turn/len(brokers) + i) % (len(brokers) - 1)
		others = append(others, brokers[(turn+1+shift)%len(brokers)])
	}
	replicas := []kafka.BrokerID{leader.ID}
	racks := map[string]int{rackOf(leader): 1}
	for len(replicas) < count {
		next := 0
		for i, broker := range others {
			if racks[rackOf(broker)] < racks[rackOf(others[next])] {
				next = i
			}
		}
		replicas = append(replicas, others[next].ID)
		racks[rackOf(others[next])]++
		others = slices.Delete(others, next, next+1)
	}
	return replicas
}

// directories chooses each replica's log directory: the one of its broker with the fewest replicas.
type directories struct {
	image *image.Image
	used  map[kafka.UUID]int // replicas per directory; directory ids are unique in the cluster
}

func newDirectories(img *image.Image) *directories {
	d := &directories{image: img}
	if slices.ContainsFunc(img.Brokers, func(b *image.Broker) bool { return len(b.Directories) > 1 }) {
		d.used = make(map[kafka.UUID]int)
		for topic := range img.Topics() {
			for i := range topic.Partitions {
				d.count(topic.Partitions[i].Directories)
			}
		}
	}
	return d
}

func (d *directories) count(ids []kafka.UUID) {
	for _, id := range ids {
		d.used[id]++
	}
}

func (d *directories) assign(replicas []kafka.BrokerID) command.NewPartition {
	partition := command.NewPartition{Replicas: replicas, Directories: make([]kafka.UUID, len(replicas))}
	for i, replica := range replicas {
		broker, _ := d.image.Broker(replica)
		if len(broker.Directories) > 0 {
			partition.Directories[i] = slices.MinFunc(broker.Directories, func(a, b kafka.UUID) int {
				return cmp.Compare(d.used[a], d.used[b])
			})
		}
	}
	if d.used != nil {
		d.count(partition.Directories)
	}
	return partition
}
