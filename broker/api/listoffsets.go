package api

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// listOffsets serves ListOffsets v1–v11: by time, and the special times −1 latest, −2 earliest, −3 largest time
// (KIP-734), −4 earliest local (KIP-405), −5 latest tiered (KIP-1005), −6 earliest pending upload (KIP-1023). "Latest"
// includes what was appended before the question: the answer waits until that is flushed. Look-ups in the object
// store happen in the waiting phase, within their own timeout (KAFKA-15859).
func (h *Handlers) listOffsets(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrListOffsetsRequest())
	if err != nil {
		return malformed(err)
	}
	timeout := h.options.RemoteListOffsetsTimeout()
	if req.Version >= 10 && request.TimeoutMillis > 0 {
		timeout = min(timeout, time.Duration(request.TimeoutMillis)*time.Millisecond)
	}
	var behind []replica.CommitItem
	for i := range request.Topics {
		for j := range request.Topics[i].Partitions {
			asked := &request.Topics[i].Partitions[j]
			p, err := h.partition(request.Topics[i].Topic, asked.Partition)
			if err == nil && asked.Timestamp == replica.TimestampLatest && p.Behind() {
				behind = append(behind, replica.CommitItem{Partition: p, Offset: p.AwaitTarget()})
			}
		}
	}
	reply := later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return h.listAll(ctx, request)
	})
	if len(behind) > 0 {
		reply.Wait = h.options.Replicas.AwaitCommit(behind, timeout).Done()
	}
	return reply
}

func (h *Handlers) listAll(ctx context.Context, request *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	for i := range request.Topics {
		asked := &request.Topics[i]
		if len(asked.Partitions) == 0 {
			continue
		}
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = asked.Topic
		named := map[int32]int{}
		for j := range asked.Partitions {
			named[asked.Partitions[j].Partition]++
		}
		for j := range asked.Partitions {
			one := &asked.Partitions[j]
			switch {
			case named[one.Partition] < 0:
				continue // answered, for all its places
			case named[one.Partition] > 1:
				named[one.Partition] = -1
				topic.Partitions = append(topic.Partitions, notListed(one.Partition, kafka.InvalidRequest))
			case one.Timestamp < 0 && request.Version < specialTimestampFrom(one.Timestamp):
				topic.Partitions = append(topic.Partitions, notListed(one.Partition, kafka.UnsupportedVersion))
			default:
				topic.Partitions = append(topic.Partitions,
					h.listOne(ctx, asked.Topic, one, replica.Isolation(request.IsolationLevel)))
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func (h *Handlers) listOne(ctx context.Context, topic string, asked *kmsg.ListOffsetsRequestTopicPartition,
	isolation replica.Isolation,
) kmsg.ListOffsetsResponseTopicPartition {
	answer := notListed(asked.Partition, kafka.None)
	p, err := h.partition(topic, asked.Partition)
	if err != nil {
		answer.ErrorCode = int16(kafka.CodeOf(err))
		return answer
	}
	found, err := p.FindOffset(ctx, replica.OffsetQuery{
		Timestamp:          asked.Timestamp,
		CurrentLeaderEpoch: kafka.LeaderEpoch(asked.CurrentLeaderEpoch),
		Isolation:          isolation,
	})
	if err != nil {
		answer.ErrorCode = int16(kafka.CodeOf(err))
		h.options.Logger.Debug("offset look-up failed", "topic", topic, "partition", asked.Partition, "err", err)
		return answer
	}
	answer.Offset, answer.Timestamp, answer.LeaderEpoch = found.Offset, found.Timestamp, int32(found.Epoch)
	return answer
}

// notListed is the answer without an offset.
func notListed(partition int32, code kafka.Errno) kmsg.ListOffsetsResponseTopicPartition {
	answer := kmsg.NewListOffsetsResponseTopicPartition()
	answer.Partition, answer.ErrorCode = partition, int16(code)
	answer.Offset, answer.Timestamp, answer.LeaderEpoch = -1, -1, -1
	return answer
}

// specialTimestampFrom is the version of ListOffsets from which on a timestamp that is no time has a meaning.
func specialTimestampFrom(timestamp int64) int16 {
	switch timestamp {
	case replica.TimestampLatest, replica.TimestampEarliest:
		return 1
	case replica.TimestampMax:
		return 7
	case replica.TimestampEarliestLocal:
		return 8
	case replica.TimestampLatestTiered:
		return 9
	case replica.TimestampEarliestPending:
		return 11
	}
	return math.MaxInt16 // in no version
}

// partition finds a partition by name.
func (h *Handlers) partition(topic string, partition int32) (*replica.Partition, error) {
	return h.options.Replicas.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
}
