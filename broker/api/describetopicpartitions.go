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
// all; a cursor says where the page begins, at one of the topics asked for.
func (h *Handlers) describeTopicPartitions(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeTopicPartitionsRequest())
	if err != nil {
		return malformed(err)
	}
	page := describedPage{
		image: h.options.Metadata.Image(), response: kmsg.NewPtrDescribeTopicPartitionsResponse(),
		left: min(maxDescribedPartitions, max(int(request.ResponsePartitionLimit), 1)),
	}
	if cursorFits(request) {
		page.describe(request)
	} else {
		page.refuse(request)
	}
	return now(req, page.response)
}

// cursorFits tells whether the cursor, if there is one, lies where this request asks.
func cursorFits(request *kmsg.DescribeTopicPartitionsRequest) bool {
	cursor := request.Cursor
	if cursor == nil {
		return true
	}
	return cursor.Partition >= 0 && (len(request.Topics) == 0 ||
		slices.ContainsFunc(request.Topics, func(asked kmsg.DescribeTopicPartitionsRequestTopic) bool {
			return asked.Topic == cursor.Topic
		}))
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
			first = cursor.Partition
		}
	}
	for _, name := range names {
		if !p.topic(name, first) {
			return
		}
		first = 0
	}
}

// refuse answers a request whose cursor does not fit: the error can only be told by topic.
func (p *describedPage) refuse(request *kmsg.DescribeTopicPartitionsRequest) {
	for i := range request.Topics {
		answer := kmsg.NewDescribeTopicPartitionsResponseTopic()
		answer.Topic, answer.ErrorCode = &request.Topics[i].Topic, int16(kafka.InvalidRequest)
		answer.AuthorizedOperations = authorizedOperationsUnknown
		p.response.Topics = append(p.response.Topics, answer)
	}
}

// topic adds a topic from one of its partitions on, and tells whether the page has room for more.
func (p *describedPage) topic(name string, first int32) (more bool) {
	if p.left == 0 {
		p.stopAt(name, first)
		return false
	}
	answer := kmsg.NewDescribeTopicPartitionsResponseTopic()
	answer.Topic, answer.AuthorizedOperations = &name, allTopicOperations
	topic, ok := p.image.Topic(name)
	if !ok {
		answer.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		if image.CheckTopicName(name) != nil {
			answer.ErrorCode = int16(kafka.InvalidTopic)
		}
		p.response.Topics = append(p.response.Topics, answer)
		return true
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
		partition.Partition = from.Partition // without the error of Metadata: no leader is told by the −1 alone
		partition.LeaderID, partition.LeaderEpoch = from.Leader, from.LeaderEpoch
		partition.Replicas, partition.ISR, partition.OfflineReplicas = from.Replicas, from.ISR, from.OfflineReplicas
		partition.EligibleLeaderReplicas, partition.LastKnownELR = []int32{}, []int32{}
		if from.Leader == int32(kafka.NoBroker) && len(from.ISR) == 0 && len(from.Replicas) == 1 {
			partition.LastKnownELR = from.Replicas // KIP-966: the only one that ever had the records
		}
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
