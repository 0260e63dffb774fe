package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// describeTransactions serves DescribeTransactions v0 (KIP-664).
func (h *Handlers) describeTransactions(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeTransactionsRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrDescribeTransactionsResponse()
		for _, id := range request.TransactionalIDs {
			described, err := h.options.Transactions.Describe(ctx, id)
			resp.TransactionStates = append(resp.TransactionStates, describedTransaction(id, described, err))
		}
		return resp
	})
}

func describedTransaction(id string, t txn.Transaction, err error,
) kmsg.DescribeTransactionsResponseTransactionState {
	state := kmsg.NewDescribeTransactionsResponseTransactionState()
	state.TransactionalID = id
	if err != nil {
		state.ErrorCode = int16(kafka.CodeOf(err))
		return state
	}
	state.State, state.TimeoutMillis, state.StartTimestamp = t.State.String(), t.TimeoutMs, t.StartedMs
	state.ProducerID, state.ProducerEpoch = t.ID, t.Epoch
	for _, tp := range t.Partitions { // sorted
		if last := len(state.Topics) - 1; last < 0 || state.Topics[last].Topic != tp.Topic {
			topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			topic.Topic = tp.Topic
			state.Topics = append(state.Topics, topic)
		}
		topic := &state.Topics[len(state.Topics)-1]
		topic.Partitions = append(topic.Partitions, tp.Partition)
	}
	return state
}
