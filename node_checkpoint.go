package firn

import (
	"context"
	"slices"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/checkpoint"
)

// newCheckpoints makes the writer of checkpoints, and the claim that it and collection ask before they touch
// the bucket.
func (n *Node) newCheckpoints() {
	cluster := n.meta.Image().ClusterID
	n.claim = checkpoint.NewClaim(n.bucket, cluster, n.predecessors)
	n.checkpoints = checkpoint.NewWriter(checkpoint.Options{
		Logger: n.logger, Registerer: n.deps.Registry, BrokerID: n.config.NodeID, ClusterID: cluster,
		Bucket: n.bucket, Metadata: n.meta, Claim: n.claim, Groups: n.committedGroups, Uncollected: n.uncollected,
		Internal: kafka.IsInternalTopic, Interval: n.config.Tier.CheckpointInterval, NewID: newID,
	})
}

// checkpointed returns once a checkpoint knows the topic.
func (n *Node) checkpointed(ctx context.Context, topic kafka.TopicID) error {
	return n.checkpoints.Await(ctx, topic)
}

// predecessors are the clusters whose objects topics of this one still have, or had until they were deleted.
func (n *Node) predecessors() ([]kafka.UUID, error) {
	img := n.meta.Image()
	var all []kafka.UUID
	add := func(origins []kafka.UUID) {
		for _, origin := range origins {
			if origin != img.ClusterID && !slices.Contains(all, origin) {
				all = append(all, origin)
			}
		}
	}
	for topic := range img.Topics() {
		add(topic.Origins)
	}
	deleted, err := n.meta.DeletedTopics()
	for _, topic := range deleted {
		add(topic.Origins)
	}
	return all, err
}

// uncollected is the newest command of the metadata log that made something garbage which checkpoints must forget
// first.
func (n *Node) uncollected() (newest uint64, err error) {
	garbage, err := n.meta.Garbage()
	if err != nil {
		return 0, err
	}
	for _, piece := range garbage {
		if piece.EndOffset >= 0 { // what was never committed is in no checkpoint
			newest = max(newest, piece.Index)
		}
	}
	topics, err := n.meta.DeletedTopics()
	for _, topic := range topics {
		newest = max(newest, topic.Index)
	}
	return newest, err
}

// committedGroups are the groups with what they have committed, once all are loaded.
func (n *Node) committedGroups() ([]checkpoint.Group, error) {
	img := n.meta.Image()
	if topic, found := img.Topic(kafka.GroupMetadataTopic); found && !n.groups.Serves(len(topic.Partitions)) {
		return nil, checkpoint.ErrLoading
	}
	groups := map[string]*checkpoint.Group{}
	at := func(name string) *checkpoint.Group {
		if groups[name] == nil {
			groups[name] = &checkpoint.Group{Name: name, Configs: img.GroupConfig(name)}
		}
		return groups[name]
	}
	for _, name := range img.GroupConfigNames() {
		at(name)
	}
	err := n.groups.EachOffset(func(committed group.Committed) {
		of := at(committed.Group)
		of.Offsets = append(of.Offsets, checkpoint.Offset{
			Topic: committed.Topic, TopicID: committed.TopicID, Partition: committed.Partition, Offset: committed.Offset,
			LeaderEpoch: committed.LeaderEpoch, Metadata: committed.Metadata, ExpiresAt: committed.ExpiresAt,
		})
	})
	if err != nil {
		return nil, err
	}
	all := make([]checkpoint.Group, 0, len(groups))
	for _, one := range groups {
		all = append(all, *one)
	}
	return all, nil
}
