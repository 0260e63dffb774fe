package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// The versions of the transaction protocol (transaction.version) that requests speak by their own version: KIP-890 has
// an epoch for each transaction, and lets partitions join with their first records.
const (
	classicTransactions int16 = 0
	bumpingTransactions int16 = 2
)

// producerFencedFrom is the version from which on the APIs of transactions know PRODUCER_FENCED. To clients before it
// is INVALID_PRODUCER_EPOCH, which they take as fatal, too.
const (
	producerFencedFrom               = 2
	initProducerIDProducerFencedFrom = 4
)

// txnCode is the code of an error for a client that knows PRODUCER_FENCED from a version on.
func txnCode(err error, version int16, knownFrom int16) int16 {
	code := kafka.CodeOf(err)
	if code == kafka.ProducerFenced && version < knownFrom {
		code = kafka.InvalidProducerEpoch
	}
	return int16(code)
}

// awaitOutcomes answers with what becomes of one or more requests to the transaction coordinator.
func awaitOutcomes(req *wire.Request, promises []*txn.Promise, answer func([]txn.Outcome) kmsg.Response) wire.Reply {
	key := req.Key
	reply := later(req, func(ctx context.Context) kmsg.Response {
		outcomes := make([]txn.Outcome, len(promises))
		for i, promise := range promises {
			select {
			case <-promise.Done():
				outcomes[i] = promise.Value()
			case <-ctx.Done():
				return kmsg.ResponseForKey(key) // nobody reads it
			}
		}
		return answer(outcomes)
	})
	if len(promises) > 0 {
		reply.Wait = promises[0].Done()
	}
	return reply
}
