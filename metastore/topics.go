package metastore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

func (t *transition) createTopics(cmd command.CreateTopics) []command.TopicResult {
	results := make([]command.TopicResult, len(cmd.Topics))
	for i, topic := range cmd.Topics {
		results[i] = command.TopicResult{ID: topic.ID, Name: topic.Name, Err: t.createTopic(topic)}
	}
	return results
}

func (t *transition) createTopic(new command.NewTopic) error {
	if err := t.checkNewTopic(new.Name, new.ID); err != nil {
		return err
	}
	if len(new.Partitions) == 0 {
		return fmt.Errorf("topic %q needs at least one partition: %w", new.Name, kafka.InvalidPartitions)
	}
	if err := t.checkReplicas(new.Partitions); err != nil {
		return err
	}
	topic := &image.Topic{ID: new.ID, Name: new.Name, Internal: new.Internal, Configs: new.Configs}
	for i := range new.Partitions {
		topic.Partitions = append(topic.Partitions, newPartition(&new.Partitions[i]))
		t.setPartition(topic, i)
	}
	t.setTopic(topic)
	t.delta.TopicsCreated = append(t.delta.TopicsCreated, topic)
	return nil
}

func (t *transition) checkNewTopic(name string, id kafka.TopicID) error {
	if err := t.image.CheckNewTopicName(name); err != nil {
		return err
	}
	if _, taken := t.image.TopicByID(id); taken || id.IsZero() || t.isDeleted(id) {
		return fmt.Errorf("topic id %s is not a new one: %w", id, kafka.InvalidRequest)
	}
	return nil
}

// isDeleted tells whether the id belongs to a deleted topic that still has objects: its keys must not be used again.
func (t *transition) isDeleted(id kafka.TopicID) bool {
	return t.get(topicKey(keyDeletedTopic, id)) != nil
}

// isKept tells whether the id belongs to a deleted topic whose objects stay for good.
func (t *transition) isKept(id kafka.TopicID) bool {
	value := t.get(topicKey(keyDeletedTopic, id))
	if value == nil {
		return false
	}
	topic, err := parseDeletedTopic(id, value)
	t.note(err)
	return topic.Kept
}

func (t *transition) checkReplicas(partitions []command.NewPartition) error {
	for i, partition := range partitions {
		if len(partition.Replicas) == 0 || len(partition.Directories) != len(partition.Replicas) {
			return fmt.Errorf("new partition %d has %d replicas in %d directories: %w",
				i, len(partition.Replicas), len(partition.Directories), kafka.InvalidReplicaAssignment)
		}
		for j, replica := range partition.Replicas {
			if _, known := t.image.Broker(replica); !known {
				return fmt.Errorf("broker %d is not registered: %w", replica, kafka.InvalidReplicaAssignment)
			}
			if slices.Contains(partition.Replicas[:j], replica) {
				return fmt.Errorf("broker %d is listed twice: %w", replica, kafka.InvalidReplicaAssignment)
			}
		}
	}
	return nil
}

func newPartition(new *command.NewPartition) image.Partition {
	return image.Partition{
		Leader:      new.Replicas[0],
		Replicas:    new.Replicas,
		Directories: new.Directories,
		ISR:         new.Replicas,
	}
}

// setTopic puts a topic, but not its partitions, into image and batch.
func (t *transition) setTopic(topic *image.Topic) {
	t.image = t.image.WithTopic(topic)
	t.batch.Set(state.SpaceMetadata, topicKey(keyTopic, topic.ID), encodeTopic(topic))
}

// setPartition writes one partition to the batch and notes the change.
func (t *transition) setPartition(topic *image.Topic, partition int) {
	tp := kafka.TopicIDPartition{ID: topic.ID, Partition: int32(partition)}
	t.batch.Set(state.SpaceMetadata, partitionKey(keyPartition, tp), encodePartition(&topic.Partitions[partition]))
	t.delta.PartitionsChanged = append(t.delta.PartitionsChanged, tp)
}

func (t *transition) deleteTopic(cmd command.DeleteTopic) error {
	topic, found := t.image.TopicByID(cmd.ID)
	if !found {
		return fmt.Errorf("topic %s: %w", cmd.ID, kafka.UnknownTopicID)
	}
	elapsedMs := t.observe(cmd.ElapsedMs)
	t.batch.Delete(state.SpaceMetadata, topicKey(keyTopic, topic.ID))
	t.batch.DeleteRange(state.SpaceMetadata, state.Prefix(topicKey(keyPartition, topic.ID)))
	if slices.ContainsFunc(topic.Partitions, func(p image.Partition) bool { return p.Tier != nil }) {
		t.dropTier(topic, elapsedMs, cmd.Keep)
	}
	t.image = t.image.WithoutTopic(topic)
	t.delta.TopicsDeleted = append(t.delta.TopicsDeleted, topic)
	return nil
}

// dropTier replaces all that is known about a topic's objects by one marker: they are all garbage, unless they are kept
// for good, and are found by listing what is under the topic's id. The index by deadline is left to lapseReservations.
func (t *transition) dropTier(topic *image.Topic, elapsedMs int64, keep bool) {
	for _, kind := range []byte{keyTier, keyHead, keyReservation, keyGarbage} {
		t.batch.DeleteRange(state.SpaceTier, state.Prefix(topicKey(kind, topic.ID)))
	}
	marker := command.DeletedTopic{
		ID: topic.ID, Name: topic.Name, Partitions: int32(len(topic.Partitions)), ElapsedMs: elapsedMs,
		Index: t.index, Origins: topic.Origins, Kept: keep,
	}
	t.batch.Set(state.SpaceTier, topicKey(keyDeletedTopic, topic.ID), encodeDeletedTopic(marker))
}

func (t *transition) createPartitions(cmd command.CreatePartitions) error {
	topic, found := t.image.TopicByID(cmd.TopicID)
	if !found {
		return fmt.Errorf("topic %s: %w", cmd.TopicID, kafka.UnknownTopicID)
	}
	if int(cmd.Existing) != len(topic.Partitions) || len(cmd.Partitions) == 0 {
		return fmt.Errorf("topic %q has %d partitions, not %d, and %d are to be added: %w",
			topic.Name, len(topic.Partitions), cmd.Existing, len(cmd.Partitions), kafka.InvalidPartitions)
	}
	if err := t.checkReplicas(cmd.Partitions); err != nil {
		return err
	}
	next := topic.WithPartitions(func(partitions []image.Partition) []image.Partition {
		for i := range cmd.Partitions {
			partitions = append(partitions, newPartition(&cmd.Partitions[i]))
		}
		return partitions
	})
	for i := len(topic.Partitions); i < len(next.Partitions); i++ {
		t.setPartition(next, i)
	}
	t.image = t.image.WithTopic(next)
	return nil
}

func (t *transition) alterConfigs(cmd command.AlterConfigs) error {
	switch cmd.Resource {
	case command.ResourceTopic:
		topic, found := t.image.Topic(cmd.Name)
		if !found {
			return fmt.Errorf("topic %q: %w", cmd.Name, kafka.UnknownTopicOrPartition)
		}
		t.setTopic(topic.WithConfigs(alter(topic.Configs, cmd.Ops)))
	case command.ResourceBroker:
		if _, err := strconv.ParseInt(cmd.Name, 10, 32); err != nil && cmd.Name != "" {
			return fmt.Errorf("%q is not a broker id: %w", cmd.Name, kafka.InvalidRequest)
		}
		configs := alter(t.image.BrokerConfig(cmd.Name), cmd.Ops)
		t.image = t.image.WithBrokerConfig(cmd.Name, configs)
		t.setConfigs(keyBrokerConfig, cmd.Name, configs)
	case command.ResourceGroup:
		if cmd.Name == "" {
			return fmt.Errorf("a group has a name: %w", kafka.InvalidRequest)
		}
		configs := alter(t.image.GroupConfig(cmd.Name), cmd.Ops)
		t.image = t.image.WithGroupConfig(cmd.Name, configs)
		t.setConfigs(keyGroupConfig, cmd.Name, configs)
		t.delta.GroupConfigsChanged = append(t.delta.GroupConfigsChanged, cmd.Name)
		return nil
	default:
		return fmt.Errorf("resource type %d has no settings: %w", cmd.Resource, kafka.InvalidRequest)
	}
	resource := image.ConfigResource{Topic: cmd.Resource == command.ResourceTopic, Name: cmd.Name}
	t.delta.ConfigsChanged = append(t.delta.ConfigsChanged, resource)
	return nil
}

// setConfigs writes the settings of a broker or a group to the batch.
func (t *transition) setConfigs(kind byte, name string, configs map[string]string) {
	key := append([]byte{kind}, name...)
	if len(configs) == 0 {
		t.batch.Delete(state.SpaceMetadata, key)
		return
	}
	t.batch.Set(state.SpaceMetadata, key, encodeConfigs(configs))
}

// alter gives a map with the operations done; nil if nothing is left.
func alter(configs map[string]string, ops []command.ConfigOp) map[string]string {
	next := maps.Clone(configs)
	if next == nil {
		next = make(map[string]string, len(ops))
	}
	for _, op := range ops {
		if op.Value == nil {
			delete(next, op.Name)
		} else {
			next[op.Name] = *op.Value
		}
	}
	if len(next) == 0 {
		return nil
	}
	return next
}

func (t *transition) bumpLeaderEpochs(cmd command.BumpLeaderEpochs) command.EpochsBumped {
	var bumped command.EpochsBumped
	for topic := range t.image.Topics() {
		leads := func(p image.Partition) bool { return p.Leader == cmd.Broker }
		if !slices.ContainsFunc(topic.Partitions, leads) {
			continue
		}
		next := topic.WithPartitions(func(partitions []image.Partition) []image.Partition {
			for i := range partitions {
				if leads(partitions[i]) {
					partitions[i].Epoch++
					partitions[i].PartitionEpoch++
					bumped.Partitions++
				}
			}
			return partitions
		})
		for i := range next.Partitions {
			if leads(next.Partitions[i]) {
				t.setPartition(next, i)
			}
		}
		t.image = t.image.WithTopic(next)
	}
	return bumped
}
