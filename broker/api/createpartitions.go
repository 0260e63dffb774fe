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

// createPartitions serves CreatePartitions v0–v3: Count is the number of partitions that the topic shall have.
func (h *Handlers) createPartitions(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrCreatePartitionsRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, request.TimeoutMillis)
		defer cancel()
		resp := kmsg.NewPtrCreatePartitionsResponse()
		named := map[string]int{}
		for i := range request.Topics {
			named[request.Topics[i].Topic]++
		}
		for i := range request.Topics {
			asked := &request.Topics[i]
			answer := kmsg.NewCreatePartitionsResponseTopic()
			answer.Topic = asked.Topic
			var err error
			switch {
			case named[asked.Topic] < 0:
				continue // answered, for all its places
			case named[asked.Topic] > 1:
				named[asked.Topic] = -1
				err = fmt.Errorf("topic %q stands more than once in the request: %w",
					asked.Topic, kafka.InvalidRequest)
			default:
				err = h.addPartitions(ctx, asked, request.ValidateOnly)
			}
			answer.ErrorCode, answer.ErrorMessage = fail(err)
			resp.Topics = append(resp.Topics, answer)
		}
		return resp
	})
}

func (h *Handlers) addPartitions(ctx context.Context, asked *kmsg.CreatePartitionsRequestTopic,
	validateOnly bool,
) error {
	img := h.options.Metadata.Image()
	topic, ok := img.Topic(asked.Topic)
	if !ok {
		return kafka.UnknownTopicOrPartition
	}
	if err := checkNotInternal(topic.Name, "given more partitions"); err != nil {
		return err
	}
	partitions, err := h.placeMore(img, topic, asked)
	if err != nil || validateOnly {
		return err
	}
	_, err = h.options.Metadata.Propose(ctx, command.CreatePartitions{
		TopicID: topic.ID, Existing: int32(len(topic.Partitions)), Partitions: partitions,
	})
	return commitError(err)
}

func (h *Handlers) placeMore(img *image.Image, topic *image.Topic, asked *kmsg.CreatePartitionsRequestTopic) (
	[]command.NewPartition, error,
) {
	existing := int32(len(topic.Partitions))
	switch {
	case asked.Count == existing:
		return nil, fmt.Errorf("topic %q already has %d partitions: %w", topic.Name, existing, kafka.InvalidPartitions)
	case asked.Count < existing:
		return nil, fmt.Errorf("topic %q has %d partitions, and their number cannot go down to %d: %w",
			topic.Name, existing, asked.Count, kafka.InvalidPartitions)
	}
	if asked.Assignment == nil {
		return h.options.Placement.Place(img, existing, asked.Count-existing, int16(len(topic.Partitions[0].Replicas)))
	}
	if len(asked.Assignment) != int(asked.Count-existing) {
		return nil, fmt.Errorf("%d new partitions of %q need as many assignments, not %d: %w",
			asked.Count-existing, topic.Name, len(asked.Assignment), kafka.InvalidReplicaAssignment)
	}
	brokers := make([][]kafka.BrokerID, len(asked.Assignment))
	for i := range asked.Assignment {
		brokers[i] = brokersOf(asked.Assignment[i].Replicas)
	}
	return h.options.Placement.Assign(img, brokers)
}
