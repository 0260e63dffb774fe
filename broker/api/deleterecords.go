package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// deleteRecords serves DeleteRecords v0–v2: it moves the log start offset. −1 means the high watermark. Whatever was
// appended before the request came can be deleted, as a producer that was answered before the flush expects.
func (h *Handlers) deleteRecords(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDeleteRecordsRequest())
	if err != nil {
		return malformed(err)
	}
	var behind []replica.CommitItem
	for i := range request.Topics {
		for _, asked := range request.Topics[i].Partitions {
			p, err := h.partition(request.Topics[i].Topic, asked.Partition)
			if err != nil || !p.Behind() || asked.Offset > p.AwaitTarget() {
				continue
			}
			target := asked.Offset
			if target == -1 {
				target = p.AwaitTarget()
			}
			behind = append(behind, replica.CommitItem{Partition: p, Offset: target})
		}
	}
	reply := later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := within(ctx, request.TimeoutMillis)
		defer cancel()
		return h.deleteAll(ctx, request)
	})
	if len(behind) > 0 {
		timeout := time.Duration(max(request.TimeoutMillis, 0)) * time.Millisecond
		reply.Wait = h.options.Replicas.AwaitCommit(behind, timeout).Done()
	}
	return reply
}

func (h *Handlers) deleteAll(ctx context.Context, request *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	for i := range request.Topics {
		asked := &request.Topics[i]
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = asked.Topic
		for _, one := range asked.Partitions {
			answer := kmsg.NewDeleteRecordsResponseTopicPartition()
			answer.Partition, answer.LowWatermark = one.Partition, -1
			p, err := h.partition(asked.Topic, one.Partition)
			if err == nil {
				err = checkNotInternal(asked.Topic, "cut")
			}
			if err == nil {
				answer.LowWatermark, err = p.DeleteRecords(ctx, one.Offset)
			}
			if err != nil {
				answer.ErrorCode = int16(kafka.CodeOf(err))
				h.options.Logger.Debug("delete records failed",
					"topic", asked.Topic, "partition", one.Partition, "err", err)
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}
