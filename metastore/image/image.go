package image

import (
	"iter"
	"maps"
	"slices"

	radix "github.com/hashicorp/go-immutable-radix"

	"github.com/firnlog/firn/internal/kafka"
)

// Image is the cluster's metadata after one command of the log. The exported fields are for reading only.
type Image struct {
	Index          uint64 // of the last command in it
	ClusterID      kafka.UUID
	Controller     kafka.BrokerID // the broker that leads the metadata quorum, as far as this node knows
	Brokers        []*Broker      // by id
	NextProducerID int64
	ElapsedMs      int64 // the highest elapsed time that a command carried: running time, not wall time

	byName        *radix.Tree // normalised name → *Topic
	byID          *radix.Tree // topic id → *Topic
	brokerConfigs map[string]map[string]string
	groupConfigs  map[string]map[string]string
}

// Endpoint is an advertised address of a broker.
type Endpoint struct {
	Name     string // of the listener
	Host     string
	Port     int32
	Protocol string
}

// Broker is a registered broker.
type Broker struct {
	ID          kafka.BrokerID
	Epoch       int64 // grows with each start of the broker
	Incarnation kafka.UUID
	Rack        *string
	Listeners   []Endpoint
	Directories []kafka.UUID // those that serve
}

// Serves tells whether the broker has a log directory that works. A partition that was given none, as its broker had
// said nothing of directories, counts as being in one that does.
func (b *Broker) Serves(directory kafka.UUID) bool {
	return directory.IsZero() || len(b.Directories) == 0 || slices.Contains(b.Directories, directory)
}

// Topic is a topic with its partitions; Partitions[i] is partition i.
type Topic struct {
	ID         kafka.TopicID
	Name       string
	Internal   bool
	Configs    map[string]string // only what was set for this topic
	Partitions []Partition
	// Origins are the clusters that have ever written objects of the topic, this one at the end: a restored topic goes on
	// with the objects of its predecessors. Empty means just this cluster.
	Origins []kafka.UUID
}

// Origin is the index in Origins of what this cluster writes.
func (t *Topic) Origin() int { return max(len(t.Origins)-1, 0) }

// OriginID is the cluster that has written an object of the given origin; own is the id of this cluster.
func (t *Topic) OriginID(own kafka.UUID, origin int) kafka.UUID {
	if origin < 0 || origin >= len(t.Origins) {
		return own
	}
	return t.Origins[origin]
}

// Partition is where a partition's replicas are and who leads them.
type Partition struct {
	Leader         kafka.BrokerID // kafka.NoBroker if there is none
	Epoch          kafka.LeaderEpoch
	PartitionEpoch int32 // grows with every change of leader, replicas or ISR
	Replicas       []kafka.BrokerID
	Directories    []kafka.UUID // of each replica, in the same order
	ISR            []kafka.BrokerID
	Tier           *TierState // nil until tiering begins
}

// Directory is the log directory of the partition's replica on a broker; zero if it has none there.
func (p *Partition) Directory(broker kafka.BrokerID) kafka.UUID {
	if i := slices.Index(p.Replicas, broker); i >= 0 && i < len(p.Directories) {
		return p.Directories[i]
	}
	return kafka.UUID{}
}

// TierState is what of a partition is remote: the range [Start, End). Start is also the log start offset.
type TierState struct {
	Start       int64
	End         int64
	LeaderEpoch kafka.LeaderEpoch // of the last command that changed it
	Version     int64             // grows with every change
	Bytes       int64             // of all remote objects that are part of the log
	Segments    int64
}

// Empty is the image before the first command.
func Empty() *Image {
	return &Image{Controller: kafka.NoBroker, byName: radix.New(), byID: radix.New()}
}

// Broker finds a registered broker.
func (i *Image) Broker(id kafka.BrokerID) (*Broker, bool) {
	at, found := slices.BinarySearchFunc(i.Brokers, id, compareBroker)
	if !found {
		return nil, false
	}
	return i.Brokers[at], true
}

func compareBroker(broker *Broker, id kafka.BrokerID) int { return int(broker.ID) - int(id) }

// Topic finds a topic by its name.
func (i *Image) Topic(name string) (*Topic, bool) {
	topic, found := i.collision(name)
	if !found || topic.Name != name {
		return nil, false
	}
	return topic, true
}

// Collision finds the topic with another name that only differs by '.' and '_': metric names cannot tell the two
// apart, so Kafka allows only one of them.
func (i *Image) Collision(name string) (*Topic, bool) {
	topic, found := i.collision(name)
	if !found || topic.Name == name {
		return nil, false
	}
	return topic, true
}

func (i *Image) collision(name string) (*Topic, bool) {
	var buffer [MaxTopicNameLength]byte
	value, found := i.byName.Get(appendNormalised(buffer[:0], name))
	if !found {
		return nil, false
	}
	return value.(*Topic), true
}

// TopicByID finds a topic by its id.
func (i *Image) TopicByID(id kafka.TopicID) (*Topic, bool) {
	value, found := i.byID.Get(id[:])
	if !found {
		return nil, false
	}
	return value.(*Topic), true
}

// Topics yields all topics, in the order of their names with '.' and '_' taken as the same.
func (i *Image) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		walk := i.byName.Root().Iterator()
		for {
			_, value, more := walk.Next()
			if !more || !yield(value.(*Topic)) {
				return
			}
		}
	}
}

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { return i.byName.Len() }

// Partition finds a partition by its topic's name.
func (i *Image) Partition(tp kafka.TopicPartition) (*Partition, bool) {
	topic, found := i.Topic(tp.Topic)
	if !found {
		return nil, false
	}
	return topic.partition(tp.Partition)
}

// PartitionByID finds a partition by its topic's id.
func (i *Image) PartitionByID(tp kafka.TopicIDPartition) (*Partition, bool) {
	topic, found := i.TopicByID(tp.ID)
	if !found {
		return nil, false
	}
	return topic.partition(tp.Partition)
}

func (t *Topic) partition(partition int32) (*Partition, bool) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, false
	}
	return &t.Partitions[partition], true
}

// BrokerConfig gives the dynamic settings of one broker (its id as text) or, under "", the default of all brokers. The
// map is nil if there are none, and must not be changed.
func (i *Image) BrokerConfig(name string) map[string]string { return i.brokerConfigs[name] }

// BrokerConfigNames yields the names that have dynamic settings, in order.
func (i *Image) BrokerConfigNames() []string { return slices.Sorted(maps.Keys(i.brokerConfigs)) }

// GroupConfig gives the settings of a group. The map is nil if there are none, and must not be changed.
func (i *Image) GroupConfig(group string) map[string]string { return i.groupConfigs[group] }

// GroupConfigNames yields the groups that have settings of their own, in order; they need not exist.
func (i *Image) GroupConfigNames() []string { return slices.Sorted(maps.Keys(i.groupConfigs)) }
