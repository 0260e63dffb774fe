package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// Versions of TxnOffsetCommit.
const (
	commitAbortableFrom = 4 // TRANSACTION_ABORTABLE is understood
	commitJoinsFrom     = 5 // the group's partition joins the transaction with the offsets (KIP-890)
)

// txnOffsetCommit serves TxnOffsetCommit v0–v5: offsets that count once the producer's transaction is committed. v3
// fences by the group's generation (KIP-447). The transaction coordinator is asked before, in the waiting phase.
func (h *Handlers) txnOffsetCommit(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrTxnOffsetCommitRequest())
	if err != nil {
		return malformed(err)
	}
	known, whole := h.splitCommit(plainCommit(request))
	if !slices.ContainsFunc(known.Topics, hasCommits) {
		return now(req, transactionalResponse(whole))
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		fillCommit(whole, h.commitInTransaction(ctx, request, known))
		return transactionalResponse(whole)
	})
}

// commitInTransaction commits once the partition of the group's journal is a part of the transaction.
func (h *Handlers) commitInTransaction(ctx context.Context, request *kmsg.TxnOffsetCommitRequest,
	known *kmsg.OffsetCommitRequest,
) *kmsg.OffsetCommitResponse {
	guard, err := h.joinWithOffsets(ctx, request)
	if err != nil {
		return group.CommitRefused(known, commitCode(err, request.Version))
	}
	committing := h.options.Groups.CommitInTransaction(known, coordinator.Producer{
		ID: request.ProducerID, Epoch: request.ProducerEpoch, Guard: coordinator.Guard(guard),
	})
	select {
	case <-committing.Done():
		return committing.Value().(*kmsg.OffsetCommitResponse)
	case <-ctx.Done():
		return group.CommitRefused(known, kafka.RequestTimedOut) // nobody reads it
	}
}

// joinWithOffsets makes sure that the group's partition is a part of the transaction, unless it is known to be.
func (h *Handlers) joinWithOffsets(ctx context.Context, request *kmsg.TxnOffsetCommitRequest) (
	replica.VerificationGuard, error,
) {
	partition, ok := h.options.Groups.Runtime().PartitionOf(request.Group)
	if !ok {
		return replica.NoGuard, kafka.NotCoordinator
	}
	tp := kafka.TopicPartition{Topic: kafka.GroupMetadataTopic, Partition: partition}
	p, err := h.options.Replicas.Partition(tp)
	if err != nil {
		return replica.NoGuard, kafka.NotCoordinator
	}
	joins := request.Version >= commitJoinsFrom
	guard, err := p.BeginVerification(replica.TransactionStart{
		ProducerID: request.ProducerID, ProducerEpoch: request.ProducerEpoch, BaseSequence: -1, BumpsEpoch: joins,
	})
	if err != nil {
		return replica.NoGuard, kafka.NotCoordinator
	}
	if guard == replica.NoGuard || !h.verifies(joins) {
		return guard, nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	producer := txn.Producer{ID: request.ProducerID, Epoch: request.ProducerEpoch}
	errs := joinTransaction(ctx, h.joiner, request.TransactionalID, producer, []kafka.TopicPartition{tp}, joins)
	return guard, errs[0]
}

// commitCode is what a producer is told when its transaction does not take the group's partition. That its transaction
// coordinator is elsewhere or away does not mean that the group's is: it asks again here.
func commitCode(err error, version int16) kafka.Errno {
	switch code := kafka.CodeOf(err); code {
	case kafka.ProducerFenced:
		return kafka.InvalidProducerEpoch
	case kafka.TransactionAbortable:
		if version < commitAbortableFrom {
			return kafka.InvalidTxnState
		}
		return code
	case kafka.CoordinatorNotAvailable, kafka.RequestTimedOut:
		return kafka.CoordinatorLoadInProgress
	default:
		return code
	}
}

// plainCommit is the same commit outside of a transaction.
func plainCommit(request *kmsg.TxnOffsetCommitRequest) *kmsg.OffsetCommitRequest {
	plain := kmsg.NewPtrOffsetCommitRequest()
	plain.Group, plain.MemberID, plain.InstanceID = request.Group, request.MemberID, request.InstanceID
	plain.Generation = request.Generation
	plain.Topics = make([]kmsg.OffsetCommitRequestTopic, len(request.Topics))
	for i := range request.Topics {
		asked, topic := &request.Topics[i], &plain.Topics[i]
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		topic.Partitions = make([]kmsg.OffsetCommitRequestTopicPartition, len(asked.Partitions))
		for j := range asked.Partitions {
			from, to := &asked.Partitions[j], &topic.Partitions[j]
			to.Partition, to.Offset, to.LeaderEpoch = from.Partition, from.Offset, from.LeaderEpoch
			to.Metadata = from.Metadata
		}
	}
	return plain
}

// transactionalResponse is the same answer for TxnOffsetCommit.
func transactionalResponse(plain *kmsg.OffsetCommitResponse) *kmsg.TxnOffsetCommitResponse {
	response := kmsg.NewPtrTxnOffsetCommitResponse()
	response.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(plain.Topics))
	for i := range plain.Topics {
		from, topic := &plain.Topics[i], &response.Topics[i]
		topic.Topic, topic.TopicID = from.Topic, from.TopicID
		topic.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			topic.Partitions[j].Partition = from.Partitions[j].Partition
			topic.Partitions[j].ErrorCode = from.Partitions[j].ErrorCode
		}
	}
	return response
}
