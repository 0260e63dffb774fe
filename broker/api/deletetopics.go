package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// deleteTopics serves DeleteTopics v1–v6: by name, from v6 on also by id. The answer comes when this broker no longer
// serves the topic. What it has in the bucket is collected later.
func (h *Handlers) deleteTopics(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDeleteTopicsRequest())
	if err != nil {
		return h.malformed(req, err)
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
		seen := map[kafka.TopicID]int{}
		img := h.options.Metadata.Image()
		for i := range request.Topics {
			if topic, err := findTopic(img, &request.Topics[i]); err == nil {
				seen[topic.ID]++
			}
		}
		for i := range request.Topics {
			resp.Topics = append(resp.Topics, h.deleteTopic(ctx, img, &request.Topics[i], seen))
		}
		return resp
	})
}

func findTopic(img *image.Image, asked *kmsg.DeleteTopicsRequestTopic) (*image.Topic, error) {
	if asked.Topic != nil {
		if topic, ok := img.Topic(*asked.Topic); ok {
			return topic, nil
		}
		return nil, kafka.UnknownTopicOrPartition
	}
	if topic, ok := img.TopicByID(asked.TopicID); ok {
		return topic, nil
	}
	return nil, kafka.UnknownTopicID
}

func (h *Handlers) deleteTopic(ctx context.Context, img *image.Image, asked *kmsg.DeleteTopicsRequestTopic,
	seen map[kafka.TopicID]int,
) kmsg.DeleteTopicsResponseTopic {
	answer := kmsg.NewDeleteTopicsResponseTopic()
	answer.Topic, answer.TopicID = asked.Topic, asked.TopicID
	topic, err := findTopic(img, asked)
	switch {
	case !h.options.DeleteTopicEnable:
		err = fmt.Errorf("topics cannot be deleted here: delete.topic.enable is false: %w", kafka.TopicDeletionDisabled)
	case asked.Topic != nil && !kafka.TopicID(asked.TopicID).IsZero():
		err = fmt.Errorf("give either a topic's name or its id: %w", kafka.InvalidRequest)
	case err == nil && seen[topic.ID] > 1:
		err = fmt.Errorf("topic %q stands more than once in the request: %w", topic.Name, kafka.InvalidRequest)
	}
	if err == nil {
		answer.Topic, answer.TopicID = &topic.Name, topic.ID
		_, err = h.options.Metadata.Propose(ctx, command.DeleteTopic{
			ID: topic.ID, ElapsedMs: h.options.Metadata.ElapsedMs(),
		})
		err = commitError(err)
	}
	answer.ErrorCode, answer.ErrorMessage = fail(err)
	return answer
}
