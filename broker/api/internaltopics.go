package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// InternalTopic is how a topic of a coordinator is made at its first use.
type InternalTopic struct {
	Partitions        int32
	ReplicationFactor int16 // no more than there are brokers
	MinInsyncReplicas int16 // no more than there are replicas; 0 inherits the broker's
	Configs           map[string]string
}

// checkNotInternal refuses what clients may not do to the cluster's own topics: the coordinators go by the number of
// partitions, and by what they have written themselves.
func checkNotInternal(name, action string) error {
	if !kafka.IsInternalTopic(name) {
		return nil
	}
	return fmt.Errorf("%s is the cluster's own and cannot be %s: it is made when it is first needed: %w",
		name, action, kafka.InvalidTopic)
}

// ensureInternalTopic makes a coordinator's topic unless it exists. It returns when this broker serves it.
func (h *Handlers) ensureInternalTopic(ctx context.Context, name string) (*image.Topic, error) {
	img := h.options.Metadata.Image()
	if topic, ok := img.Topic(name); ok {
		return topic, nil
	}
	topic, err := h.newInternalTopic(img, name)
	if err != nil {
		return nil, err
	}
	result, err := h.options.Metadata.Propose(ctx, command.CreateTopics{Topics: []command.NewTopic{topic}})
	if err != nil {
		return nil, commitError(err)
	}
	if err := result.([]command.TopicResult)[0].Err; err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return nil, err
	}
	created, ok := h.options.Metadata.Image().Topic(name)
	if !ok {
		return nil, fmt.Errorf("%s is not there yet: %w", name, kafka.CoordinatorNotAvailable)
	}
	return created, nil
}

func (h *Handlers) newInternalTopic(img *image.Image, name string) (command.NewTopic, error) {
	asked := h.options.InternalTopics[name]
	replicas := min(int(asked.ReplicationFactor), len(img.Brokers))
	topic := command.NewTopic{Name: name, Internal: true, Configs: maps.Clone(asked.Configs)}
	if asked.MinInsyncReplicas > 0 {
		topic.Configs["min.insync.replicas"] = fmt.Sprint(min(int(asked.MinInsyncReplicas), replicas))
	}
	if err := config.CheckTopicChange(nil, topic.Configs, h.options.Layers(img).Lookup); err != nil {
		return topic, err
	}
	var err error
	topic.Partitions, err = h.options.Placement.Place(img, 0, asked.Partitions, int16(replicas))
	_, _ = rand.Read(topic.ID[:]) // never fails, as crypto/rand says
	return topic, err
}
