package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// What OffsetFetch can do from which version on.
const (
	fetchAllFrom    = 2 // no topics mean all; one error for the group
	fetchGroupsFrom = 8 // many groups
)

// offsetFetch serves OffsetFetch v1–v10: what groups have committed. A partition in which a group has committed
// nothing, and a group that nobody knows, are answered with −1 and no error. v7 can ask for stable offsets (KIP-447),
// v8 for many groups (KIP-709), v9 as a member of KIP-848, v10 by topic ids.
func (h *Handlers) offsetFetch(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrOffsetFetchRequest())
	if err != nil {
		return malformed(err)
	}
	img := h.options.Metadata.Image()
	asked := fetchedGroups(request)
	if len(asked) == 0 {
		return now(req, kmsg.NewPtrOffsetFetchResponse())
	}
	promised := make([]*promise, len(asked))
	unknown := make([][]kmsg.OffsetFetchResponseGroupTopic, len(asked))
	for i := range asked {
		unknown[i] = resolveFetched(img, &asked[i], request.Version >= offsetTopicIDsFrom)
		promised[i] = h.options.Groups.Fetch(&asked[i], request.RequireStable)
	}
	return awaitAll(req, promised, func(bodies []kmsg.Response) kmsg.Response {
		resp := kmsg.NewPtrOffsetFetchResponse()
		for i, body := range bodies {
			one := body.(*kmsg.OffsetFetchResponse).Groups[0]
			switch {
			case one.ErrorCode == 0 && asked[i].Topics == nil && request.Version >= offsetTopicIDsFrom:
				one.Topics = fetchedIDs(img, one.Topics)
			case one.ErrorCode == 0:
				one.Topics = append(one.Topics, unknown[i]...)
			}
			resp.Groups = append(resp.Groups, one)
		}
		if request.Version < fetchGroupsFrom {
			flattenFetched(resp, request)
		}
		return resp
	})
}

// fetchedGroups are the groups of a request, which names one in versions below 8.
func fetchedGroups(request *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchRequestGroup {
	if request.Version >= fetchGroupsFrom {
		return request.Groups
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = request.Group
	if request.Topics != nil || request.Version < fetchAllFrom {
		one.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(request.Topics))
	}
	for i, topic := range request.Topics {
		one.Topics[i].Topic, one.Topics[i].Partitions = topic.Topic, topic.Partitions
	}
	return []kmsg.OffsetFetchRequestGroup{one}
}

// resolveFetched fills in the names or the ids of topics. Those with an id that nobody has are taken out and answered
// with an error; a name that nobody has may still have offsets, for a moment.
func resolveFetched(img *image.Image, asked *kmsg.OffsetFetchRequestGroup, byID bool,
) []kmsg.OffsetFetchResponseGroupTopic {
	if asked.Topics == nil {
		return nil
	}
	known, unknown := asked.Topics[:0:0], []kmsg.OffsetFetchResponseGroupTopic(nil)
	for _, topic := range asked.Topics {
		if byID {
			found, ok := img.TopicByID(topic.TopicID)
			if !ok {
				unknown = append(unknown, unknownFetched(topic))
				continue
			}
			topic.Topic = found.Name
		} else if found, ok := img.Topic(topic.Topic); ok {
			topic.TopicID = found.ID
		}
		known = append(known, topic)
	}
	if known == nil {
		known = []kmsg.OffsetFetchRequestGroupTopic{} // none, which is not all
	}
	asked.Topics = known
	return unknown
}

func unknownFetched(asked kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroupTopic {
	topic := kmsg.NewOffsetFetchResponseGroupTopic()
	topic.TopicID = asked.TopicID
	for _, partition := range asked.Partitions {
		answer := group.NoOffset(partition)
		answer.ErrorCode = int16(kafka.UnknownTopicID)
		topic.Partitions = append(topic.Partitions, answer)
	}
	return topic
}

// fetchedIDs fills in the ids of all topics of a group; those that are gone are left out.
func fetchedIDs(img *image.Image, topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	kept := topics[:0]
	for _, topic := range topics {
		if found, ok := img.Topic(topic.Topic); ok {
			topic.TopicID = found.ID
			kept = append(kept, topic)
		}
	}
	return kept
}

// flattenFetched turns the answer into that of versions that know one group. v1 has no error for the group: each
// partition that was asked for gets it.
func flattenFetched(resp *kmsg.OffsetFetchResponse, request *kmsg.OffsetFetchRequest) {
	one := resp.Groups[0]
	resp.Groups, resp.ErrorCode = nil, one.ErrorCode
	if request.Version < fetchAllFrom && one.ErrorCode != 0 {
		for _, asked := range request.Topics {
			topic := kmsg.OffsetFetchResponseGroupTopic{Topic: asked.Topic}
			for _, partition := range asked.Partitions {
				answer := group.NoOffset(partition)
				answer.ErrorCode = one.ErrorCode
				topic.Partitions = append(topic.Partitions, answer)
			}
			one.Topics = append(one.Topics, topic)
		}
	}
	for _, topic := range one.Topics {
		flat := kmsg.NewOffsetFetchResponseTopic()
		flat.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			flat.Partitions = append(flat.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: partition.Partition, Offset: partition.Offset, LeaderEpoch: partition.LeaderEpoch,
				Metadata: partition.Metadata, ErrorCode: partition.ErrorCode,
			})
		}
		resp.Topics = append(resp.Topics, flat)
	}
}
