package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// deleteTopics serves DeleteTopics v1–v6: by name, from v6 on also by id. The answer comes when this broker no longer
// serves the topic. What it has in the bucket is collected later.
func (h *Handlers) deleteTopics(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDeleteTopicsRequest())
	if err != nil {
		return malformed(err)
	}
	if req.Version < 6 {
		for i := range request.TopicNames {
			topic := kmsg.NewDeleteTopicsRequestTopic()
			topic.Topic = &request.TopicNames[i]
			request.Topics = append(request.Topics, topic)
		}
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, request.TimeoutMillis)
		defer cancel()
		resp := kmsg.NewPtrDeleteTopicsResponse()
		img := h.options.Metadata.Image()
		named := map[topicKey]int{}
		for i := range request.Topics {
			named[keyOf(img, &request.Topics[i])]++
		}
		for i := range request.Topics {
			key := keyOf(img, &request.Topics[i])
			if named[key] < 0 {
				continue // answered, for all its places
			}
			resp.Topics = append(resp.Topics, h.deleteTopic(ctx, img, &request.Topics[i], named[key] > 1))
			named[key] = -1
		}
		return resp
	})
}

// topicKey is a topic as a request means it: by its id, or by the name of one that is not there.
type topicKey struct {
	id   kafka.TopicID
	name string
}

func keyOf(img *image.Image, asked *kmsg.DeleteTopicsRequestTopic) topicKey {
	if topic, err := findTopic(img, asked); err == nil {
		return topicKey{id: topic.ID}
	}
	if asked.Topic != nil {
		return topicKey{name: *asked.Topic}
	}
	return topicKey{id: asked.TopicID}
}

func findTopic(img *image.Image, asked *kmsg.DeleteTopicsRequestTopic) (*image.Topic, error) {
	if asked.Topic != nil {
		if topic, ok := img.Topic(*asked.Topic); ok {
			return topic, nil
		}
		return nil, fmt.Errorf("there is no topic %q: %w", *asked.Topic, kafka.UnknownTopicOrPartition)
	}
	if topic, ok := img.TopicByID(asked.TopicID); ok {
		return topic, nil
	}
	return nil, fmt.Errorf("there is no topic with the id %s: %w", kafka.TopicID(asked.TopicID), kafka.UnknownTopicID)
}

func (h *Handlers) dropTopic(ctx context.Context, img *image.Image, topic *image.Topic) error {
	settings, err := config.ResolveTopic(topic.Configs, h.options.Layers(img).Lookup)
	if err != nil {
		return fmt.Errorf("the settings of topic %q, which say what becomes of its objects: %w", topic.Name, err)
	}
	_, err = h.options.Metadata.Propose(ctx, command.DeleteTopic{
		ID: topic.ID, ElapsedMs: h.options.Metadata.ElapsedMs(), Keep: !settings.RemoteDelete,
	})
	return commitError(err)
}

func (h *Handlers) deleteTopic(ctx context.Context, img *image.Image, asked *kmsg.DeleteTopicsRequestTopic,
	repeated bool,
) kmsg.DeleteTopicsResponseTopic {
	answer := kmsg.NewDeleteTopicsResponseTopic()
	answer.Topic, answer.TopicID = asked.Topic, asked.TopicID
	topic, err := findTopic(img, asked)
	switch {
	case !h.options.DeleteTopicEnable:
		err = fmt.Errorf("topics cannot be deleted here: delete.topic.enable is false: %w", kafka.TopicDeletionDisabled)
	case asked.Topic != nil && !kafka.TopicID(asked.TopicID).IsZero():
		err = fmt.Errorf("give either a topic's name or its id: %w", kafka.InvalidRequest)
	case asked.Topic == nil && kafka.TopicID(asked.TopicID).IsZero():
		err = fmt.Errorf("give a topic's name or its id: %w", kafka.InvalidRequest)
	case repeated:
		err = fmt.Errorf("a topic stands more than once in the request: %w", kafka.InvalidRequest)
	}
	if err == nil {
		answer.Topic, answer.TopicID = &topic.Name, topic.ID
		err = checkNotInternal(topic.Name, "deleted")
	}
	if err == nil {
		err = h.dropTopic(ctx, img, topic)
	}
	answer.ErrorCode, answer.ErrorMessage = fail(err)
	return answer
}
