package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// initProducerID serves InitProducerID v0–v5 for idempotent producers: a new id with epoch 0. A producer that already
// has one and asks for a new epoch (v3, KIP-360) gets a new id, as Kafka gives one without a transactional id.
// Transactional producers are refused with a code that clients do not retry: there is no coordinator yet.
func (h *Handlers) initProducerID(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrInitProducerIDRequest())
	if err != nil {
		return malformed(err)
	}
	if request.TransactionalID != nil {
		code := kafka.UnsupportedVersion
		if *request.TransactionalID == "" {
			code = kafka.InvalidRequest
		}
		h.options.Logger.Warn("a transactional producer was refused: transactions are not served yet",
			"transactional_id", *request.TransactionalID, "peer", req.Conn.Remote.String())
		return now(req, producerIDError(code))
	}
	if (request.ProducerID == -1) != (request.ProducerEpoch == -1) {
		return now(req, producerIDError(kafka.InvalidRequest))
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		id, err := h.options.ProducerIDs.Next(ctx)
		if err != nil {
			h.options.Logger.Error("no producer id", "err", err)
			return producerIDError(kafka.CoordinatorNotAvailable) // the client asks again
		}
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID, resp.ProducerEpoch = id, 0
		return resp
	})
}

func producerIDError(code kafka.Errno) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(code), -1, -1
	return resp
}
