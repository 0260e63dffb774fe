package metastore

import (
	"fmt"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

func (t *transition) restoreTopics(cmd command.RestoreTopics) []command.TopicResult {
	results := make([]command.TopicResult, len(cmd.Topics))
	for i := range cmd.Topics {
		topic := &cmd.Topics[i]
		results[i] = command.TopicResult{ID: topic.ID, Name: topic.Name, Err: t.restoreTopic(topic)}
	}
	return results
}

func (t *transition) restoreTopic(restored *command.RestoredTopic) error {
	topic, err := t.restoredTopic(restored)
	if err != nil {
		return err
	}
	if len(restored.Partitions) == 0 {
		return fmt.Errorf("topic %q needs at least one partition: %w", restored.Name, kafka.InvalidPartitions)
	}
	for i := range restored.Partitions {
		p := &restored.Partitions[i]
		err := t.checkReplicas([]command.NewPartition{{Replicas: p.Replicas, Directories: p.Directories}})
		if err == nil {
			err = checkRestored(p, len(topic.Origins))
		}
		if err != nil {
			return fmt.Errorf("partition %d of topic %q: %w", int(restored.First)+i, restored.Name, err)
		}
	}
	next := topic.WithPartitions(func(partitions []image.Partition) []image.Partition {
		for i := range restored.Partitions {
			partitions = append(partitions, restoredPartition(&restored.Partitions[i]))
		}
		return partitions
	})
	for i := range restored.Partitions {
		t.setRestored(next, int(restored.First)+i, restored.Partitions[i].Items)
	}
	t.setTopic(next)
	if restored.First == 0 {
		t.batch.Delete(state.SpaceTier, topicKey(keyDeletedTopic, next.ID)) // of one that was kept
		t.delta.TopicsCreated = append(t.delta.TopicsCreated, next)
	}
	return nil
}

// restoredTopic is the topic without the partitions that are to be restored.
func (t *transition) restoredTopic(restored *command.RestoredTopic) (*image.Topic, error) {
	if restored.First != 0 {
		topic, found := t.image.TopicByID(restored.ID)
		if !found {
			return nil, fmt.Errorf("topic %s: %w", restored.ID, kafka.UnknownTopicID)
		}
		if topic.Name != restored.Name || int(restored.First) != len(topic.Partitions) {
			return nil, fmt.Errorf("topic %q has %d partitions, not %d, or another name than %q: %w",
				topic.Name, len(topic.Partitions), restored.First, restored.Name, kafka.InvalidPartitions)
		}
		return topic, nil
	}
	check := t.checkNewTopic
	if t.isKept(restored.ID) { // what was kept when it was deleted comes back
		check = func(name string, _ kafka.TopicID) error { return t.image.CheckNewTopicName(name) }
	}
	if err := check(restored.Name, restored.ID); err != nil {
		return nil, err
	}
	if n := len(restored.Origins); n == 0 || n > command.MaxOrigins || restored.Origins[n-1] != t.image.ClusterID {
		return nil, fmt.Errorf("the %d origins of topic %q do not end with this cluster: %w", n, restored.Name,
			kafka.InvalidRequest)
	}
	return &image.Topic{
		ID: restored.ID, Name: restored.Name, Internal: restored.Internal, Configs: restored.Configs,
		Origins: restored.Origins,
	}, nil
}

// checkRestored checks that a partition's items are what its tier state says.
func checkRestored(p *command.RestoredPartition, origins int) error {
	if p.LeaderEpoch < 0 {
		return fmt.Errorf("leader epoch %d is none: %w", p.LeaderEpoch, kafka.InvalidRequest)
	}
	if !p.Tiered {
		return nil
	}
	end := p.Start
	for i, item := range p.Items {
		if err := item.Validate(); err != nil {
			return err
		}
		s := item.Summary()
		if i == 0 && (s.BaseOffset > p.Start || s.EndOffset <= p.Start) || i > 0 && s.BaseOffset != end ||
			s.Origin() >= origins {
			return fmt.Errorf("item [%d, %d) of origin %d does not follow offset %d: %w",
				s.BaseOffset, s.EndOffset, s.Origin(), end, kafka.InvalidRequest)
		}
		end = s.EndOffset
	}
	tier := image.TierState{Segments: p.Segments, Bytes: p.Bytes}
	if p.Start < 0 || end != p.End || p.Version < 1 || len(p.Items) == 0 && p.Segments != 0 {
		return fmt.Errorf("%d items up to offset %d are no range [%d, %d) at version %d: %w",
			len(p.Items), end, p.Start, p.End, p.Version, kafka.InvalidRequest)
	}
	if len(p.Items) == 0 {
		return nil
	}
	if segments, bytes := totals(p.Items, command.Below{}); segments == p.Segments && bytes != p.Bytes {
		return fmt.Errorf("%d segments have %d bytes, not %d: %w", segments, bytes, p.Bytes, kafka.InvalidRequest)
	}
	hidden := hiddenIn(p.Items, tier)
	if hidden.Segments == 0 {
		hidden.Reference = referenceAt(p.Items, p.Start).UploadID
	}
	return checkBelow(p.Items, p.Start, hidden)
}

func restoredPartition(p *command.RestoredPartition) image.Partition {
	partition := newPartition(&command.NewPartition{Replicas: p.Replicas, Directories: p.Directories})
	partition.Epoch = p.LeaderEpoch
	if p.Tiered {
		partition.Tier = &image.TierState{
			Start: p.Start, End: p.End, LeaderEpoch: p.LeaderEpoch, Version: p.Version, Bytes: p.Bytes, Segments: p.Segments,
		}
	}
	return partition
}

// setRestored writes one partition with its tier to the batch.
func (t *transition) setRestored(topic *image.Topic, partition int, items []command.Item) {
	t.setPartition(topic, partition)
	tier := topic.Partitions[partition].Tier
	if tier == nil {
		return
	}
	tp := kafka.TopicIDPartition{ID: topic.ID, Partition: int32(partition)}
	t.batch.Set(state.SpaceTier, partitionKey(keyTier, tp), encodeTier(tier))
	t.setItems(tp, nil, items)
	t.delta.TierChanged = append(t.delta.TierChanged, tp)
}
