package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// writeTxnMarkers serves WriteTxnMarkers v1–v2, by which an administrator ends a transaction whose coordinator has
// forgotten it (KIP-664). v2 tells the version of the transaction protocol (KIP-1228).
func (h *Handlers) writeTxnMarkers(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrWriteTxnMarkersRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		return h.markAll(ctx, request)
	})
}

func (h *Handlers) markAll(ctx context.Context, request *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	var markers []replica.Marker
	for i := range request.Markers {
		asked := &request.Markers[i]
		kind := record.Abort
		if asked.Committed {
			kind = record.Commit
		}
		for _, topic := range asked.Topics {
			for _, partition := range topic.Partitions {
				markers = append(markers, replica.Marker{
					TopicPartition: kafka.TopicPartition{Topic: topic.Topic, Partition: partition},
					ProducerID:     asked.ProducerID, ProducerEpoch: asked.ProducerEpoch, Type: kind,
					CoordinatorEpoch: asked.CoordinatorEpoch, TransactionVersion: asked.TransactionVersion,
				})
			}
		}
	}
	errs := h.options.Replicas.WriteMarkers(ctx, markers, metadataTimeout)

	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	for i := range request.Markers {
		asked := &request.Markers[i]
		marker := kmsg.NewWriteTxnMarkersResponseMarker()
		marker.ProducerID = asked.ProducerID
		for _, topic := range asked.Topics {
			answer := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			answer.Topic = topic.Topic
			for _, partition := range topic.Partitions {
				one := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				one.Partition, one.ErrorCode = partition, int16(kafka.CodeOf(errs[0]))
				answer.Partitions, errs = append(answer.Partitions, one), errs[1:]
			}
			marker.Topics = append(marker.Topics, answer)
		}
		resp.Markers = append(resp.Markers, marker)
	}
	return resp
}
