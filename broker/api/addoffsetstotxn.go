package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// addOffsetsToTxn serves AddOffsetsToTxn v0–v4: the partition in which a group's offsets are kept joins the
// transaction. Of the group nothing is asked. Its topic is made if it is not there yet, since a producer may get here
// before any consumer.
func (h *Handlers) addOffsetsToTxn(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrAddOffsetsToTxnRequest())
	if err != nil {
		return malformed(err)
	}
	answer := func(outcomes []txn.Outcome) kmsg.Response {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.ErrorCode = txnCode(outcomes[0].Err, request.Version, producerFencedFrom)
		return resp
	}
	if promise, ok := h.addOffsets(request); ok {
		return awaitOutcomes(req, []*txn.Promise{promise}, answer)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		made, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		if _, err := h.ensureInternalTopic(made, kafka.GroupMetadataTopic); err != nil {
			err = fmt.Errorf("%s cannot be made, ask again: %s: %w", kafka.GroupMetadataTopic, err.Error(),
				kafka.CoordinatorNotAvailable)
			h.logFailure("offsets cannot be added to a transaction", err)
			return answer([]txn.Outcome{{Err: err}})
		}
		promise, ok := h.addOffsets(request)
		if !ok { // deleted again at once
			return answer([]txn.Outcome{{Err: kafka.CoordinatorNotAvailable}})
		}
		select {
		case <-promise.Done():
			return answer([]txn.Outcome{promise.Value()})
		case <-ctx.Done():
			return answer([]txn.Outcome{{Err: kafka.CoordinatorNotAvailable}}) // nobody reads it
		}
	})
}

// addOffsets is false if there is no topic for the group's offsets yet.
func (h *Handlers) addOffsets(request *kmsg.AddOffsetsToTxnRequest) (*txn.Promise, bool) {
	partition, ok := h.options.Groups.Runtime().PartitionOf(request.Group)
	if !ok {
		return nil, false
	}
	return h.options.Transactions.Add(request.TransactionalID,
		txn.Producer{ID: request.ProducerID, Epoch: request.ProducerEpoch},
		[]kafka.TopicPartition{{Topic: kafka.GroupMetadataTopic, Partition: partition}}, classicTransactions), true
}
