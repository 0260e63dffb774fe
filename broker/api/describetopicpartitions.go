package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// maxDescribedPartitions bounds one answer, whatever the client asks for (max.request.partition.size.limit in Kafka,
// which has the same default).
const maxDescribedPartitions = 2000

// describeTopicPartitions serves DescribeTopicPartitions v0 (KIP-966): Metadata for tools, in pages. No topics means
// all; a cursor says where the page begins.
func (h *Handlers) describeTopicPartitions(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeTopicPartitionsRequest())
	if err != nil {
		return h.malformed(req, err)
	}
	page := describedPage{
		image: h.options.Metadata.Image(), response: kmsg.NewPtrDescribeTopicPartitionsResponse(),
		left: maxDescribedPartitions,
	}
	if limit := request.ResponsePartitionLimit; limit > 0 {
		page.left = min(page.left, int(limit))
	}
	page.describe(request)
	return now(req, page.response)
}

// describedPage is one answer being made.
type describedPage struct {
	image    *image.Image
	response *kmsg.DescribeTopicPartitionsResponse
	left     int // partitions that still fit
}

func (p *describedPage) describe(request *kmsg.DescribeTopicPartitionsRequest) {
	var names []string
	for _, topic := range request.Topics {
		names = append(names, topic.Topic)
	}
	if len(names) == 0 {
		for topic := range p.image.Topics() {
			names = append(names, topic.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	first := int32(0)
	if cursor := request.Cursor; cursor != nil {
		at, found := slices.BinarySearch(names, cursor.Topic)
		names = names[at:]
		if found {
			first = max(cursor.Partition, 0)
		}
	}
	for _, name := range names {
		if !p.topic(name, first) {
			return
		}
		first = 0
	}
}

// topic adds a topic from one of its partitions on, and tells whether the page has room for more.
func (p *describedPage) topic(name string, first int32) (more bool) {
	answer := kmsg.NewDescribeTopicPartitionsResponseTopic()
	answer.Topic, answer.AuthorizedOperations = &name, authorizedOperationsUnknown
	topic, ok := p.image.Topic(name)
	if !ok {
		answer.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		if image.CheckTopicName(name) != nil {
			answer.ErrorCode = int16(kafka.InvalidTopic)
		}
		p.response.Topics = append(p.response.Topics, answer)
		return true
	}
	if p.left == 0 {
		p.stopAt(name, first)
		return false
	}
	answer.TopicID, answer.IsInternal = topic.ID, topic.Internal
	described := metadataTopic(p.image, topic).Partitions
	for i := int(first); i < len(described); i++ {
		if p.left == 0 {
			p.stopAt(name, int32(i))
			break
		}
		p.left--
		from := &described[i]
		partition := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		partition.ErrorCode, partition.Partition = from.ErrorCode, from.Partition
		partition.LeaderID, partition.LeaderEpoch = from.Leader, from.LeaderEpoch
		partition.Replicas, partition.ISR, partition.OfflineReplicas = from.Replicas, from.ISR, from.OfflineReplicas
		partition.EligibleLeaderReplicas, partition.LastKnownELR = []int32{}, []int32{}
		answer.Partitions = append(answer.Partitions, partition)
	}
	p.response.Topics = append(p.response.Topics, answer)
	return p.response.NextCursor == nil
}

func (p *describedPage) stopAt(topic string, partition int32) {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	p.response.NextCursor = &cursor
}
