package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// Kinds of coordinators, as FindCoordinator numbers them.
const (
	groupCoordinator int8 = iota
	transactionCoordinator
	shareCoordinator
)

// findCoordinator serves FindCoordinator v0–v6: the coordinator of a group or of a transactional id is whoever leads
// the partition of the internal topic that its name falls on. The first one who asks waits until the topic is made.
// v4 and later ask for many at a time.
func (h *Handlers) findCoordinator(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrFindCoordinatorRequest())
	if err != nil {
		return malformed(err)
	}
	topicName, err := topicOfCoordinator(request)
	if err != nil {
		return now(req, h.coordinators(req.Conn, request, nil, err))
	}
	if topic, ok := h.options.Metadata.Image().Topic(topicName); ok {
		return now(req, h.coordinators(req.Conn, request, topic, nil))
	}
	conn := req.Conn
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		topic, err := h.ensureInternalTopic(ctx, topicName)
		if err != nil {
			h.options.Logger.Error("a coordinator's topic cannot be made", "topic", topicName, "err", err)
			err = fmt.Errorf("%s cannot be made, ask again: %w", topicName, kafka.CoordinatorNotAvailable)
		} else {
			h.awaitCoordinators(ctx, request.CoordinatorType)
		}
		return h.coordinators(conn, request, topic, err)
	})
}

// awaitCoordinators waits until the coordinators that have just come to be here serve.
func (h *Handlers) awaitCoordinators(ctx context.Context, kind int8) {
	if kind == groupCoordinator {
		h.options.Groups.Runtime().AwaitLoaded(ctx)
	} else {
		h.options.Transactions.Runtime().AwaitLoaded(ctx)
	}
}

// topicOfCoordinator is the internal topic that tells who coordinates a kind of things.
func topicOfCoordinator(request *kmsg.FindCoordinatorRequest) (string, error) {
	switch kind := request.CoordinatorType; {
	case kind == groupCoordinator:
		return kafka.GroupMetadataTopic, nil
	case kind == transactionCoordinator:
		return kafka.TransactionStateTopic, nil
	case kind == shareCoordinator && request.Version >= 6:
		return "", fmt.Errorf("share groups are not served: %w", kafka.UnsupportedVersion)
	default:
		return "", fmt.Errorf("there is no coordinator of type %d: %w", kind, kafka.InvalidRequest)
	}
}

// manyCoordinatorsFrom is the version from which on a request names any number of keys.
const manyCoordinatorsFrom = 4

// coordinators answers for each key. failed holds for all of them.
func (h *Handlers) coordinators(conn *wire.Conn, request *kmsg.FindCoordinatorRequest, topic *image.Topic, failed error,
) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if request.Version < manyCoordinatorsFrom {
		one := h.coordinator(conn, request.CoordinatorKey, topic, failed)
		resp.ErrorCode, resp.ErrorMessage = one.ErrorCode, one.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = one.NodeID, one.Host, one.Port
		return resp
	}
	for _, key := range request.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, h.coordinator(conn, key, topic, failed))
	}
	return resp
}

func (h *Handlers) coordinator(conn *wire.Conn, key string, topic *image.Topic, failed error,
) kmsg.FindCoordinatorResponseCoordinator {
	answer := kmsg.NewFindCoordinatorResponseCoordinator()
	answer.Key, answer.NodeID, answer.Port = key, -1, -1
	noMessage := ""
	answer.ErrorMessage = &noMessage // as Kafka answers a success
	if failed == nil {
		partition := coordinator.PartitionOf(key, int32(len(topic.Partitions)))
		broker, alive := h.options.Metadata.Image().Broker(topic.Partitions[partition].Leader)
		if alive {
			answer.NodeID = int32(broker.ID)
			answer.Host, answer.Port = h.address(broker, conn)
			return answer
		}
		failed = fmt.Errorf("%s-%d has no leader now: %w", topic.Name, partition, kafka.CoordinatorNotAvailable)
	}
	answer.ErrorCode, answer.ErrorMessage = fail(failed)
	return answer
}
