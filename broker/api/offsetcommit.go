package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// offsetTopicIDsFrom is the version from which on OffsetCommit and OffsetFetch name topics by their ids.
const offsetTopicIDsFrom = 10

// offsetCommit serves OffsetCommit v2–v10. v9 carries the member epoch of KIP-848, v10 topic ids. Topics and partitions
// that do not exist are told apart here; the group's coordinator judges the rest.
func (h *Handlers) offsetCommit(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrOffsetCommitRequest())
	if err != nil {
		return malformed(err)
	}
	known, whole := h.splitCommit(request)
	if !slices.ContainsFunc(known.Topics, hasCommits) {
		return now(req, whole)
	}
	return awaitAll(req, []*promise{h.options.Groups.Commit(known)}, func(bodies []kmsg.Response) kmsg.Response {
		fillCommit(whole, bodies[0].(*kmsg.OffsetCommitResponse))
		return whole
	})
}

// splitCommit takes what exists out of a commit, each topic with its name and its id, and makes the answer with the
// errors of what does not. As for Kafka a topic without partitions is not answered.
func (h *Handlers) splitCommit(request *kmsg.OffsetCommitRequest) (
	known *kmsg.OffsetCommitRequest, whole *kmsg.OffsetCommitResponse,
) {
	img := h.options.Metadata.Image()
	request.Topics = slices.DeleteFunc(request.Topics, func(topic kmsg.OffsetCommitRequestTopic) bool {
		return !hasCommits(topic)
	})
	known, whole = new(kmsg.OffsetCommitRequest), group.CommitRefused(request, kafka.None)
	*known = *request
	known.Topics = nil
	for i := range request.Topics {
		topic := request.Topics[i]
		found, err := commitTopic(img, &topic.Topic, (*kafka.TopicID)(&topic.TopicID), request.Version >= offsetTopicIDsFrom)
		topic.Partitions = nil
		for j, partition := range request.Topics[i].Partitions {
			switch {
			case err != nil:
				whole.Topics[i].Partitions[j].ErrorCode = int16(kafka.CodeOf(err))
			case !exists(found, partition.Partition):
				whole.Topics[i].Partitions[j].ErrorCode = int16(kafka.UnknownTopicOrPartition)
			default:
				topic.Partitions = append(topic.Partitions, partition)
			}
		}
		known.Topics = append(known.Topics, topic)
	}
	return known, whole
}

func hasCommits(topic kmsg.OffsetCommitRequestTopic) bool { return len(topic.Partitions) > 0 }

// commitTopic finds the topic of a commit and fills in what the request does not say: its name or its id.
func commitTopic(img *image.Image, name *string, id *kafka.TopicID, byID bool) (*image.Topic, error) {
	if byID {
		topic, ok := img.TopicByID(*id)
		if !ok {
			return nil, kafka.UnknownTopicID
		}
		*name = topic.Name
		return topic, nil
	}
	topic, ok := img.Topic(*name)
	if !ok {
		return nil, kafka.UnknownTopicOrPartition
	}
	*id = topic.ID
	return topic, nil
}

func exists(topic *image.Topic, partition int32) bool {
	return partition >= 0 && int(partition) < len(topic.Partitions)
}

// fillCommit takes over what the coordinator says of the partitions that it was asked for: in each topic those that
// have no error yet, in their order.
func fillCommit(whole, answered *kmsg.OffsetCommitResponse) {
	for i := range whole.Topics {
		next := 0
		for j := range whole.Topics[i].Partitions {
			if partition := &whole.Topics[i].Partitions[j]; partition.ErrorCode == int16(kafka.None) {
				partition.ErrorCode = answered.Topics[i].Partitions[next].ErrorCode
				next++
			}
		}
	}
}
