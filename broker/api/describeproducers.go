package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// describeProducers serves DescribeProducers v0 (KIP-664): which producers a partition remembers.
func (h *Handlers) describeProducers(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeProducersRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrDescribeProducersResponse()
	for i := range request.Topics {
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = request.Topics[i].Topic
		for _, partition := range request.Topics[i].Partitions {
			topic.Partitions = append(topic.Partitions, h.producersOf(topic.Topic, partition))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(req, resp)
}

func (h *Handlers) producersOf(topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
	answer := kmsg.NewDescribeProducersResponseTopicPartition()
	answer.Partition = partition
	if _, ok := h.options.Metadata.Image().Topic(topic); !ok {
		answer.ErrorCode, answer.ErrorMessage = fail(unknownTopicError(topic))
		return answer
	}
	p, err := h.partition(topic, partition)
	if err == nil {
		err = p.CheckLeader(kafka.NoLeaderEpoch)
	}
	if err != nil {
		answer.ErrorCode, answer.ErrorMessage = fail(err)
		return answer
	}
	log, err := p.Log()
	if err != nil {
		answer.ErrorCode, answer.ErrorMessage = fail(err)
		return answer
	}
	for _, known := range log.Producers() {
		producer := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		producer.ProducerID, producer.ProducerEpoch = known.ProducerID, int32(known.Epoch)
		producer.LastSequence, producer.LastTimestamp = known.LastSequence, known.LastTimestamp
		producer.CoordinatorEpoch, producer.CurrentTxnStartOffset = known.CoordinatorEpoch, known.TxnStartOffset
		answer.ActiveProducers = append(answer.ActiveProducers, producer)
	}
	return answer
}
