package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// alterPartitionAssignments serves AlterPartitionReassignments v0–v1 (KIP-455). On one broker there is nowhere to move
// a replica to: an assignment is checked, and the one there is already is the only one that is accepted.
func (h *Handlers) alterPartitionAssignments(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrAlterPartitionAssignmentsRequest())
	if err != nil {
		return malformed(err)
	}
	img := h.options.Metadata.Image()
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	for i := range request.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic = request.Topics[i].Topic
		for _, asked := range request.Topics[i].Partitions {
			answer := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			answer.Partition = asked.Partition
			answer.ErrorCode, answer.ErrorMessage = fail(reassignment(img, topic.Topic, &asked))
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(req, resp)
}

func reassignment(img *image.Image, topic string, asked *kmsg.AlterPartitionAssignmentsRequestTopicPartition) error {
	tp := kafka.TopicPartition{Topic: topic, Partition: asked.Partition}
	if _, ok := img.Partition(tp); !ok {
		return fmt.Errorf("there is no partition %s: %w", tp, kafka.UnknownTopicOrPartition)
	}
	if asked.Replicas == nil {
		return kafka.NoReassignmentInProgress
	}
	if len(asked.Replicas) == 0 {
		return fmt.Errorf("%s needs at least one replica: %w", tp, kafka.InvalidReplicaAssignment)
	}
	for i, id := range asked.Replicas {
		if slices.Contains(asked.Replicas[:i], id) {
			return fmt.Errorf("broker %d stands twice in the replicas of %s: %w", id, tp, kafka.InvalidReplicaAssignment)
		}
		if _, known := img.Broker(kafka.BrokerID(id)); !known {
			return fmt.Errorf("there is no broker %d for %s: %w", id, tp, kafka.InvalidReplicaAssignment)
		}
	}
	return nil // all are brokers, none twice, and there is one broker: this is where the replica already is
}

// listPartitionReassignments serves ListPartitionReassignments v0: none is ever under way.
func (h *Handlers) listPartitionReassignments(_ context.Context, req *wire.Request) wire.Reply {
	if _, err := decode(req, kmsg.NewPtrListPartitionReassignmentsRequest()); err != nil {
		return malformed(err)
	}
	return now(req, kmsg.NewPtrListPartitionReassignmentsResponse())
}
