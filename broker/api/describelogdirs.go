package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// LogDirectory is a log directory as DescribeLogDirs shows it.
type LogDirectory struct {
	ID   kafka.UUID
	Path string
	// Err is why it does not serve.
	Err error
	// TotalBytes and UsableBytes are of the volume it lies on (KIP-827); −1 unknown.
	TotalBytes, UsableBytes int64
}

// describeLogDirs serves DescribeLogDirs v1–v4: how much of which partition lies where. No topics (null) means all.
func (h *Handlers) describeLogDirs(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeLogDirsRequest())
	if err != nil {
		return malformed(err)
	}
	wanted := map[kafka.TopicPartition]bool{}
	for _, topic := range request.Topics {
		for _, partition := range topic.Partitions {
			wanted[kafka.TopicPartition{Topic: topic.Topic, Partition: partition}] = true
		}
	}
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	for _, dir := range h.options.LogDirectories() {
		answer := kmsg.NewDescribeLogDirsResponseDir()
		answer.Dir, answer.TotalBytes, answer.UsableBytes = dir.Path, dir.TotalBytes, dir.UsableBytes
		answer.ErrorCode = int16(kafka.CodeOf(dir.Err))
		if dir.Err == nil {
			answer.Topics = h.sizes(dir.ID, func(tp kafka.TopicPartition) bool {
				return request.Topics == nil || wanted[tp]
			})
		}
		resp.Dirs = append(resp.Dirs, answer)
	}
	return now(req, resp)
}

// sizes lists the local size of the wanted partitions in a directory, by topic and partition.
func (h *Handlers) sizes(
	dir kafka.UUID, wanted func(kafka.TopicPartition) bool,
) []kmsg.DescribeLogDirsResponseDirTopic {
	partitions := h.options.Replicas.Partitions()
	slices.SortFunc(partitions, func(a, b *replica.Partition) int {
		return byName(a.TopicPartition(), b.TopicPartition())
	})
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for _, p := range partitions {
		tp := p.TopicPartition()
		log, err := p.Log()
		if err != nil || log.DirectoryID() != dir || !wanted(tp) {
			continue
		}
		if len(topics) == 0 || topics[len(topics)-1].Topic != tp.Topic {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = tp.Topic
			topics = append(topics, topic)
		}
		size := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		size.Partition, size.Size = tp.Partition, log.Size()
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, size)
	}
	return topics
}
