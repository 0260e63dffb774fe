package firn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/checkpoint"
	"github.com/firnlog/firn/tiering/restore"
)

// build makes metadata and logs.
func (r *restoration) build(ctx context.Context, n *Node) error {
	for _, step := range []func(context.Context) error{n.openMetadata, n.openLogs} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := r.checkTarget(n.meta.Image()); err != nil {
		return err
	}
	if err := r.claim(ctx); err != nil {
		return err
	}
	registration := command.RegisterBroker{ID: n.config.NodeID, Incarnation: newID()}
	if n.config.Rack != "" {
		registration.Rack = &n.config.Rack
	}
	if err := n.registerAs(ctx, registration); err != nil {
		return err
	}
	if err := r.restoreSettings(ctx, n); err != nil {
		return err
	}
	for i := range r.plan.Topics {
		if err := r.restoreTopic(ctx, n, &r.plan.Topics[i]); err != nil {
			return fmt.Errorf("restore topic %s: %w", r.plan.Topics[i].Name, err)
		}
	}
	return nil
}

// checkTarget tells whether the cluster in the directories can take what is to come.
func (r *restoration) checkTarget(img *image.Image) error {
	r.cluster = img.ClusterID
	if r.cluster == r.plan.Cluster {
		return fmt.Errorf("the directories belong to cluster %s itself: there is nothing to restore, start it with "+
			"`firn serve`", r.cluster.Hex())
	}
	for i := range r.plan.Topics {
		topic := &r.plan.Topics[i]
		if _, exists := img.Topic(topic.Name); exists {
			return fmt.Errorf("topic %s exists here already: delete it first, or restore into other directories", topic.Name)
		}
		if _, exists := img.TopicByID(topic.ID); exists {
			return fmt.Errorf("topic %s exists here already under another name", topic.Name)
		}
	}
	return nil
}

// maxPlans bounds how often the plan is made anew because the old cluster, which ought to be dead, goes on writing.
const maxPlans = 3

// claim takes over the old cluster's part of the bucket, and makes the plan anew if it has written since: what it wrote
// last is what counts, and from here on it writes no further checkpoint.
func (r *restoration) claim(ctx context.Context) error {
	bucket, now := r.store.bucket, time.Now()
	var err error
	if r.options.TakeOver.IsZero() {
		err = checkpoint.Take(ctx, bucket, r.plan.Cluster, r.cluster, now)
	} else {
		err = checkpoint.Replace(ctx, bucket, r.plan.Cluster, r.options.TakeOver, r.cluster, now)
	}
	var taken *checkpoint.TakenError
	if errors.As(err, &taken) {
		return fmt.Errorf("%w: restore that one; or, if it never came to life, give --take-over %s", err,
			taken.Successor.Hex())
	}
	if err != nil {
		return err
	}
	r.options.Cluster = r.plan.Cluster // it has an owner now, and so would not be found without being named
	for range maxPlans {
		newest, err := checkpoint.NewestKey(ctx, bucket, r.plan.Cluster)
		if err != nil || newest == r.plan.NewestKey {
			return err
		}
		if err := r.makePlan(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("cluster %s goes on writing checkpoints: stop it", r.plan.Cluster.Hex())
}

// restoreSettings restores what belongs to no topic. Added to another cluster, only producer ids matter.
func (r *restoration) restoreSettings(ctx context.Context, n *Node) error {
	commands := []command.Command{command.SetNextProducerID{AtLeast: r.plan.NextProducerID}}
	if !r.existing {
		commands = append(commands, alterations(command.ResourceBroker, "", r.plan.Checkpoint.BrokerConfigs)...)
		singles := r.plan.Checkpoint.SingleBrokerConfigs
		for _, broker := range slices.Sorted(maps.Keys(singles)) {
			commands = append(commands, alterations(command.ResourceBroker, broker, singles[broker])...)
		}
		for _, group := range r.plan.Groups {
			commands = append(commands, alterations(command.ResourceGroup, group.Name, group.Configs)...)
		}
	}
	for _, cmd := range commands {
		if _, err := n.meta.Propose(ctx, cmd); err != nil {
			return fmt.Errorf("restore the settings: %w", err)
		}
	}
	return nil
}

func alterations(resource command.ResourceType, name string, configs map[string]string) []command.Command {
	if len(configs) == 0 {
		return nil
	}
	cmd := command.AlterConfigs{Resource: resource, Name: name}
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := configs[key]
		cmd.Ops = append(cmd.Ops, command.ConfigOp{Name: key, Value: &value})
	}
	return []command.Command{cmd}
}

// maxRestored is how many partitions one command restores: with a full manifest each has a dozen kilobytes.
const maxRestored = 256

// restoreTopic makes the logs of a topic and then the topic: logs without a topic are put aside by the next start,
// while a topic without its logs would get new ones that know nothing of what came before.
func (r *restoration) restoreTopic(ctx context.Context, n *Node, topic *restore.Topic) error {
	if !topic.Tiered {
		return r.createTopic(ctx, n, topic)
	}
	directories := usable(n.logs.Directories())
	config := n.logConfig(n.meta.Image(), &image.Topic{Name: topic.Name, Configs: topic.Configs})
	for first := 0; first < len(topic.Partitions); first += maxRestored {
		part := command.RestoredTopic{
			ID: topic.ID, Name: topic.Name, Configs: topic.Configs, First: int32(first),
			Origins: append(slices.Clone(topic.Origins), r.cluster),
		}
		var logs []storage.NewLog
		for i := first; i < min(first+maxRestored, len(topic.Partitions)); i++ {
			directory := directories[i%len(directories)]
			part.Partitions = append(part.Partitions, restoredPartition(n.config.NodeID, directory, &topic.Partitions[i]))
			if part.Partitions[i-first].Tiered {
				logs = append(logs, restoredLog(topic, int32(i), config, directory))
			}
		}
		for _, created := range n.logs.CreateAll(logs) {
			if created.Err != nil {
				return created.Err
			}
		}
		if err := restoreTopics(ctx, n, part); err != nil {
			return err
		}
	}
	return nil
}

func restoreTopics(ctx context.Context, n *Node, topic command.RestoredTopic) error {
	result, err := n.meta.Propose(ctx, command.RestoreTopics{Topics: []command.RestoredTopic{topic}})
	if err != nil {
		return err
	}
	return result.([]command.TopicResult)[0].Err
}

func restoredPartition(broker kafka.BrokerID, directory kafka.UUID, from *restore.Partition) command.RestoredPartition {
	return command.RestoredPartition{
		Replicas: []kafka.BrokerID{broker}, Directories: []kafka.UUID{directory}, LeaderEpoch: from.LeaderEpoch,
		Tiered: from.Tiered, Start: from.Start, End: from.End, Version: from.Version,
		Bytes: from.Bytes, Segments: from.Segments, Items: from.Items,
	}
}

func restoredLog(topic *restore.Topic, index int32, config storage.Config, directory kafka.UUID) storage.NewLog {
	from := &topic.Partitions[index]
	restored := &storage.RestoredLog{
		Remote:    storage.RemoteRange{StartOffset: from.Start, EndOffset: from.End},
		Producers: from.Producers,
	}
	for _, start := range from.Epochs {
		restored.Epochs = append(restored.Epochs,
			storage.EpochEntry{Epoch: start.Epoch, StartOffset: start.StartOffset})
	}
	return storage.NewLog{
		TopicPartition: kafka.TopicPartition{Topic: topic.Name, Partition: index}, TopicID: topic.ID, Config: config,
		Directory: directory, Restored: restored,
	}
}

// createTopic makes a topic that had nothing in the bucket: with its settings, and anew, as another topic of that name.
func (r *restoration) createTopic(ctx context.Context, n *Node, topic *restore.Topic) error {
	directories := usable(n.logs.Directories())
	created := command.NewTopic{ID: newID(), Name: topic.Name, Configs: topic.Configs}
	for i := range topic.Partitions {
		created.Partitions = append(created.Partitions, command.NewPartition{
			Replicas:    []kafka.BrokerID{n.config.NodeID},
			Directories: []kafka.UUID{directories[i%len(directories)]},
		})
	}
	result, err := n.meta.Propose(ctx, command.CreateTopics{Topics: []command.NewTopic{created}})
	if err != nil {
		return err
	}
	return result.([]command.TopicResult)[0].Err
}
