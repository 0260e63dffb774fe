package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// Placement decides where replicas go. It is the controller's part in creating topics and partitions.
type Placement interface {
	// Place spreads new partitions of a topic over the live brokers. first is the number of the first of them.
	Place(img *image.Image, first, partitions int32, replicationFactor int16) ([]command.NewPartition, error)
	// Assign checks an assignment that the client made by hand; brokers[i] are the replicas of partition first+i.
	Assign(img *image.Image, brokers [][]kafka.BrokerID) ([]command.NewPartition, error)
}

// createTopics serves CreateTopics v2–v7: −1 partitions or replicas mean the broker's defaults (KIP-464), v5 answers
// the settings (KIP-525), v7 the topic's id. The answer comes when this broker serves the topic.
func (h *Handlers) createTopics(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrCreateTopicsRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, request.TimeoutMillis)
		defer cancel()
		return h.createAll(ctx, request)
	})
}

func (h *Handlers) createAll(ctx context.Context, request *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	img := h.options.Metadata.Image()
	resp := kmsg.NewPtrCreateTopicsResponse()
	named := map[string]int{}
	for i := range request.Topics {
		named[request.Topics[i].Topic]++
	}
	var create command.CreateTopics
	var creating []int // where in the response each topic of the command stands
	for i := range request.Topics {
		asked := &request.Topics[i]
		switch {
		case named[asked.Topic] < 0:
			continue // answered, for all its places
		case named[asked.Topic] > 1:
			named[asked.Topic] = -1
			resp.Topics = append(resp.Topics, createFailed(asked.Topic, fmt.Errorf(
				"topic %q stands more than once in the request: %w", asked.Topic, kafka.InvalidRequest)))
			continue
		}
		topic, err := h.newTopic(img, asked)
		if err != nil {
			resp.Topics = append(resp.Topics, createFailed(asked.Topic, err))
			continue
		}
		creating = append(creating, len(resp.Topics))
		resp.Topics = append(resp.Topics, h.created(img, &topic))
		create.Topics = append(create.Topics, topic)
	}
	if request.ValidateOnly || len(create.Topics) == 0 {
		return resp
	}
	h.commitTopics(ctx, create, creating, resp)
	return resp
}

// commitTopics proposes the topics and corrects the answers of those that the state machine refused, because somebody
// else was faster.
func (h *Handlers) commitTopics(ctx context.Context, create command.CreateTopics, creating []int,
	resp *kmsg.CreateTopicsResponse,
) {
	result, err := h.options.Metadata.Propose(ctx, create)
	if err != nil {
		err = commitError(err)
		for _, i := range creating {
			resp.Topics[i] = createFailed(resp.Topics[i].Topic, err)
		}
		return
	}
	for i, one := range result.([]command.TopicResult) {
		if one.Err != nil {
			resp.Topics[creating[i]] = createFailed(one.Name, one.Err)
		}
	}
}

// commitError turns the end of a proposal into what a client can act on: a commit that ran out of time may still have
// happened, and asking again finds out.
func commitError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("the change was not committed in time, it may still be: ask again: %w", kafka.RequestTimedOut)
	}
	return err
}

// newTopic checks one topic as a real creation would and decides where its replicas go.
func (h *Handlers) newTopic(img *image.Image, asked *kmsg.CreateTopicsRequestTopic) (command.NewTopic, error) {
	topic := command.NewTopic{Name: asked.Topic, Configs: map[string]string{}}
	if asked.Topic == metadataTopicName {
		return topic, fmt.Errorf("%s is the metadata quorum's own: %w", metadataTopicName, kafka.InvalidRequest)
	}
	if err := img.CheckNewTopicName(asked.Topic); err != nil {
		return topic, err
	}
	if err := checkNotInternal(asked.Topic, "created by clients"); err != nil {
		return topic, err
	}
	for _, setting := range asked.Configs {
		if setting.Value == nil {
			return topic, fmt.Errorf("setting %q of topic %q has no value: give one, or leave it out: %w",
				setting.Name, asked.Topic, kafka.InvalidConfig)
		}
		topic.Configs[setting.Name] = *setting.Value
	}
	if err := config.CheckTopicChange(nil, topic.Configs, h.options.Layers(img).Lookup); err != nil {
		return topic, err
	}
	h.tierByDefault(topic.Configs, h.options.Layers(img).Lookup)
	var err error
	if topic.Partitions, err = h.placeTopic(img, asked); err != nil {
		return topic, err
	}
	_, _ = rand.Read(topic.ID[:]) // never fails, as crypto/rand says
	return topic, nil
}

// tierByDefault gives a new topic remote storage where the broker does so, unless the topic has said what it wants or
// its other settings do not allow it: a program that creates a topic as it does elsewhere must not fail here.
func (h *Handlers) tierByDefault(configs map[string]string, broker config.BrokerLookup) {
	const setting = "remote.storage.enable"
	if _, said := configs[setting]; said || !h.options.RemoteStorageDefault {
		return
	}
	configs[setting] = "true"
	if config.CheckTopicChange(nil, configs, broker) != nil {
		delete(configs, setting)
	}
}

func (h *Handlers) placeTopic(img *image.Image, asked *kmsg.CreateTopicsRequestTopic) ([]command.NewPartition, error) {
	if len(asked.ReplicaAssignment) > 0 {
		if asked.NumPartitions != -1 || asked.ReplicationFactor != -1 {
			return nil, fmt.Errorf("topic %q: give either an assignment or counts of partitions and replicas: %w",
				asked.Topic, kafka.InvalidRequest)
		}
		brokers := make([][]kafka.BrokerID, len(asked.ReplicaAssignment))
		for _, one := range asked.ReplicaAssignment {
			if one.Partition < 0 || int(one.Partition) >= len(brokers) || brokers[one.Partition] != nil {
				return nil, fmt.Errorf("topic %q: the assigned partitions must be numbered 0 to %d, each once: %w",
					asked.Topic, len(brokers)-1, kafka.InvalidReplicaAssignment)
			}
			brokers[one.Partition] = brokersOf(one.Replicas)
		}
		return h.options.Placement.Assign(img, brokers)
	}
	partitions, replicas := asked.NumPartitions, asked.ReplicationFactor
	if partitions == -1 {
		partitions = h.options.DefaultPartitions
	}
	if replicas == -1 {
		replicas = h.options.DefaultReplicationFactor
	}
	return h.options.Placement.Place(img, 0, partitions, replicas)
}

func brokersOf(ids []int32) []kafka.BrokerID {
	brokers := make([]kafka.BrokerID, 0, len(ids)) // never nil: nil marks a partition that was not assigned
	for _, id := range ids {
		brokers = append(brokers, kafka.BrokerID(id))
	}
	return brokers
}

func createFailed(name string, err error) kmsg.CreateTopicsResponseTopic {
	answer := kmsg.NewCreateTopicsResponseTopic()
	answer.Topic = name
	answer.ErrorCode, answer.ErrorMessage = fail(err)
	answer.NumPartitions, answer.ReplicationFactor = -1, -1
	answer.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // null would mean that they may not be seen
	return answer
}

func (h *Handlers) created(img *image.Image, topic *command.NewTopic) kmsg.CreateTopicsResponseTopic {
	answer := kmsg.NewCreateTopicsResponseTopic()
	answer.Topic, answer.TopicID = topic.Name, topic.ID
	answer.NumPartitions = int32(len(topic.Partitions))
	answer.ReplicationFactor = int16(len(topic.Partitions[0].Replicas))
	for _, setting := range config.DescribeTopic(topic.Configs, h.options.Layers(img)) {
		answer.Configs = append(answer.Configs, kmsg.CreateTopicsResponseTopicConfig{
			Name: setting.Name, Value: setting.Value, ReadOnly: setting.ReadOnly,
			Source: int8(setting.Source), IsSensitive: setting.Sensitive,
		})
	}
	return answer
}
