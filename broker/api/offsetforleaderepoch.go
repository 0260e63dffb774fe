package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// offsetForLeaderEpoch serves OffsetForLeaderEpoch v2–v4 (KIP-101, KIP-320): where an epoch ended. The lineage is
// complete from the log start offset on, also where the records are only in the object store.
func (h *Handlers) offsetForLeaderEpoch(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrOffsetForLeaderEpochRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range request.Topics {
		asked := &request.Topics[i]
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = asked.Topic
		for _, one := range asked.Partitions {
			answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			answer.Partition, answer.LeaderEpoch, answer.EndOffset = one.Partition, -1, -1
			if p, err := h.partition(asked.Topic, one.Partition); err != nil {
				answer.ErrorCode = int16(kafka.CodeOf(err))
			} else if end, err := p.EndOffsetForEpoch(
				kafka.LeaderEpoch(one.LeaderEpoch), kafka.LeaderEpoch(one.CurrentLeaderEpoch)); err != nil {
				answer.ErrorCode = int16(kafka.CodeOf(err))
			} else {
				answer.LeaderEpoch, answer.EndOffset = int32(end.Epoch), end.EndOffset
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(req, resp)
}
