package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// initProducerID serves InitProducerID v0–v5. An idempotent producer gets a new id with epoch 0, also if it already has
// one and asks for a new epoch (v3, KIP-360), as with Kafka. A transactional one is begun by the coordinator of its
// transactional id. v6, which prepares transactions for a second coordinator (KIP-939), is not served: see
// docs/protocol.md.
func (h *Handlers) initProducerID(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrInitProducerIDRequest())
	if err != nil {
		return malformed(err)
	}
	owner := txn.Producer{ID: request.ProducerID, Epoch: request.ProducerEpoch}
	if (owner.ID == txn.NoProducer.ID) != (owner.Epoch == txn.NoProducer.Epoch) {
		return now(req, producerIDError(kafka.InvalidRequest, req.Version))
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		if request.TransactionalID == nil {
			owner, err = h.idempotentProducer(ctx)
		} else {
			owner, err = h.options.Transactions.InitProducerID(ctx, *request.TransactionalID,
				request.TransactionTimeoutMillis, owner)
		}
		if err != nil {
			return producerIDError(err, request.Version)
		}
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID, resp.ProducerEpoch = owner.ID, owner.Epoch
		return resp
	})
}

func (h *Handlers) idempotentProducer(ctx context.Context) (txn.Producer, error) {
	id, err := h.options.ProducerIDs.Next(ctx)
	if err != nil {
		h.options.Logger.Error("no producer id", "err", err)
		return txn.NoProducer, kafka.CoordinatorNotAvailable // the client asks again
	}
	return txn.Producer{ID: id}, nil
}

func producerIDError(err error, version int16) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ErrorCode = txnCode(err, version, initProducerIDProducerFencedFrom)
	resp.ProducerID, resp.ProducerEpoch = txn.NoProducer.ID, txn.NoProducer.Epoch
	return resp
}
