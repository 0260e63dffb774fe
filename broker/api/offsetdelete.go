package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// offsetDelete serves OffsetDelete v0 (KIP-496): what a group has committed to topics that no member reads is removed.
func (h *Handlers) offsetDelete(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrOffsetDeleteRequest())
	if err != nil {
		return malformed(err)
	}
	img := h.options.Metadata.Image()
	var unknown []kmsg.OffsetDeleteResponseTopic
	known := *request
	known.Topics = nil
	for _, topic := range request.Topics {
		found, ok := img.Topic(topic.Topic)
		there := kmsg.OffsetDeleteRequestTopic{Topic: topic.Topic}
		missing := kmsg.OffsetDeleteResponseTopic{Topic: topic.Topic}
		for _, partition := range topic.Partitions {
			if ok && exists(found, partition.Partition) {
				there.Partitions = append(there.Partitions, partition)
				continue
			}
			missing.Partitions = append(missing.Partitions, kmsg.OffsetDeleteResponseTopicPartition{
				Partition: partition.Partition, ErrorCode: int16(kafka.UnknownTopicOrPartition),
			})
		}
		if len(there.Partitions) > 0 {
			known.Topics = append(known.Topics, there)
		}
		if len(missing.Partitions) > 0 {
			unknown = append(unknown, missing)
		}
	}
	return awaitAll(req, []*promise{h.options.Groups.DeleteOffsets(&known)}, func(bodies []kmsg.Response) kmsg.Response {
		resp := bodies[0].(*kmsg.OffsetDeleteResponse)
		if resp.ErrorCode == 0 {
			resp.Topics = mergeDeleted(unknown, resp.Topics)
		}
		return resp
	})
}

// mergeDeleted puts what is said of a topic's partitions together.
func mergeDeleted(unknown, known []kmsg.OffsetDeleteResponseTopic) []kmsg.OffsetDeleteResponseTopic {
	for _, topic := range known {
		at := slices.IndexFunc(unknown, func(other kmsg.OffsetDeleteResponseTopic) bool { return other.Topic == topic.Topic })
		if at < 0 {
			unknown = append(unknown, topic)
			continue
		}
		unknown[at].Partitions = append(unknown[at].Partitions, topic.Partitions...)
	}
	return unknown
}
