package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// CommitInTransaction stores offsets that count once the producer's transaction is committed. Whoever calls it has made
// sure that the journal's partition is a part of that transaction. The topics have both their names and their ids.
func (c *Coordinator) CommitInTransaction(request *kmsg.TxnOffsetCommitRequest) *Answer {
	refuse := func(err error) kmsg.Response { return TxnCommitRefused(request, errorCode(err)) }
	if request.Group == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		check, err := t.checkCommit(machine.Committer{
			MemberID: request.MemberID, InstanceID: request.InstanceID, Generation: request.Generation,
			Transactional: true, Version: request.Version,
		})
		if err != nil {
			return machine.Step{}, err
		}
		plain := plainCommit(request)
		list, answered, err := t.judge(plain, check)
		if errors.Is(err, kafka.StaleMemberEpoch) {
			err = kafka.IllegalGeneration // all that the versions up to 5 know
		}
		if err != nil {
			return machine.Step{}, err
		}
		producer := &coordinator.Producer{ID: request.ProducerID, Epoch: request.ProducerEpoch}
		t.appendOffsets(producer, list, transactionalResponse(answered))
		return machine.Step{}, nil
	})
}

// plainCommit is the same commit outside of a transaction.
func plainCommit(request *kmsg.TxnOffsetCommitRequest) *kmsg.OffsetCommitRequest {
	plain := kmsg.NewPtrOffsetCommitRequest()
	plain.Group = request.Group
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

// TxnCommitRefused is the answer to a commit in a transaction that says the same of each partition.
func TxnCommitRefused(request *kmsg.TxnOffsetCommitRequest, code kafka.Errno) *kmsg.TxnOffsetCommitResponse {
	return transactionalResponse(CommitRefused(plainCommit(request), code))
}
