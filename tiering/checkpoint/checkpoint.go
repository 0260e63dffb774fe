package checkpoint

import (
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// Checkpoint is what a cluster was at one index of its metadata log, as far as the bucket has to know.
type Checkpoint struct {
	Root   Root
	Topics []Topic // by name; those of the coordinators are not among them
	Groups []Group // by name
	// Damaged are the newer checkpoints that were passed over because they cannot be read, with the reason.
	Damaged []string

	byID  map[kafka.TopicID]*Topic
	image *image.Image
}

// Image shows the topics as metadata, for whoever reads a manifest. Nobody leads them.
func (c *Checkpoint) Image() *image.Image { return c.image }

// index prepares what Image and Items answer.
func (c *Checkpoint) index() {
	c.image = image.Empty().With(func(next *image.Image) { next.ClusterID, next.Index = c.Root.ClusterID, c.Root.Index })
	c.byID = make(map[kafka.TopicID]*Topic, len(c.Topics))
	for i := range c.Topics {
		c.image = c.image.WithTopic(c.Topics[i].image())
		c.byID[c.Topics[i].ID] = &c.Topics[i]
	}
}

// Items is a partition's tier state with its manifest, as metastore.Store has it.
func (c *Checkpoint) Items(tp kafka.TopicIDPartition) (*image.TierState, []command.Item, error) {
	if topic := c.byID[tp.ID]; topic != nil && tp.Partition >= 0 && int(tp.Partition) < len(topic.Partitions) {
		p := &topic.Partitions[tp.Partition]
		if !p.Tiered {
			return nil, nil, nil
		}
		return p.tier(), p.Items, nil
	}
	return nil, nil, fmt.Errorf("partition %s is not in the checkpoint: %w", tp, kafka.UnknownTopicID)
}

// Root is the part of a checkpoint that names the others.
type Root struct {
	ClusterID      kafka.UUID
	Index          uint64     // of the metadata log: what was committed up to it is in the checkpoint, at least
	ID             kafka.UUID // of the checkpoint; later ones have higher ids
	WrittenAt      int64
	NextProducerID int64
	BrokerConfigs  map[string]string // dynamic settings of all brokers
	// SingleBrokerConfigs are those of single brokers, by their ids.
	SingleBrokerConfigs map[string]map[string]string

	shards []shardRef // by kind and number
}

// Topic is a topic with its partitions; Partitions[i] is partition i.
type Topic struct {
	ID         kafka.TopicID
	Name       string
	Configs    map[string]string
	Origins    []kafka.UUID // clusters that have written objects of the topic; none: the checkpoint's own only
	Partitions []Partition
}

func (t *Topic) image() *image.Topic {
	shown := &image.Topic{ID: t.ID, Name: t.Name, Configs: t.Configs, Origins: t.Origins}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		partition := image.Partition{Leader: kafka.NoBroker, Epoch: p.LeaderEpoch}
		if p.Tiered {
			partition.Tier = p.tier()
		}
		shown.Partitions = append(shown.Partitions, partition)
	}
	return shown
}

func (p *Partition) tier() *image.TierState {
	return &image.TierState{
		Start: p.Start, End: p.End, LeaderEpoch: p.LeaderEpoch, Version: p.Version, Segments: p.Segments, Bytes: p.Bytes,
	}
}

// Tiered tells whether anything of the topic is, or could be, in the bucket.
func (t *Topic) Tiered() bool {
	for i := range t.Partitions {
		if t.Partitions[i].Tiered {
			return true
		}
	}
	return false
}

// Partition is what a checkpoint says of a partition. Of one that is not tiered that is its leader epoch only.
type Partition struct {
	LeaderEpoch kafka.LeaderEpoch
	Tiered      bool
	Start       int64 // the log start offset
	End         int64 // the remote end
	Version     int64
	Segments    int64          // that are part of the log; the manifest may list more, below Start
	Bytes       int64          // of their objects
	Items       []command.Item // the manifest, by offset
}

// Group is a consumer group with what it has committed.
type Group struct {
	Name    string
	Configs map[string]string // of the group itself
	Offsets []Offset          // by topic and partition
}

// Offset is a committed offset.
type Offset struct {
	Topic       string
	TopicID     kafka.TopicID // zero where the client did not know it
	Partition   int32
	Offset      int64
	LeaderEpoch kafka.LeaderEpoch
	Metadata    string
	ExpiresAt   int64 // Unix ms, as a client has said (OffsetCommit v2–v4); 0: nobody has
}
