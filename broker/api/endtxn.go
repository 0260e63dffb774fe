package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
)

// endTxnBumpsFrom is the version of EndTxn that gives each transaction an epoch of its own.
const endTxnBumpsFrom = 5

// endTxn serves EndTxn v0–v5: the transaction is decided once this is answered; its markers follow. v5 answers the
// producer id and epoch of the next transaction (KIP-890).
func (h *Handlers) endTxn(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrEndTxnRequest())
	if err != nil {
		return malformed(err)
	}
	version := classicTransactions
	if req.Version >= endTxnBumpsFrom {
		version = bumpingTransactions
	}
	producer := txn.Producer{ID: request.ProducerID, Epoch: request.ProducerEpoch}
	promise := h.options.Transactions.End(request.TransactionalID, producer, request.Commit, version)
	return awaitOutcomes(req, []*txn.Promise{promise}, func(outcomes []txn.Outcome) kmsg.Response {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.ErrorCode = txnCode(outcomes[0].Err, request.Version, producerFencedFrom)
		resp.ProducerID, resp.ProducerEpoch = outcomes[0].Producer.ID, outcomes[0].Producer.Epoch
		return resp
	})
}
