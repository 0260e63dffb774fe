package group

import (
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// Versions of a record's value that are written: the newest, and the one that can tell when an offset expires, which
// clients may say in OffsetCommit v2–v4.
const (
	offsetVersion         int16 = 4
	expiringOffsetVersion int16 = 1
)

// groupNotFoundFrom is the OffsetCommit version from which on a member of no group is told so.
const groupNotFoundFrom = 9

// Commit stores offsets outside of transactions. The topics have both their names and their ids and exist.
func (c *Coordinator) Commit(request *kmsg.OffsetCommitRequest) *Answer {
	refuse := func(err error) kmsg.Response { return CommitRefused(request, errorCode(err)) }
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		return machine.Step{}, t.commit(request, nil)
	})
}

// commit commits, as a part of a producer's transaction if there is one.
func (t turn) commit(request *kmsg.OffsetCommitRequest, producer *coordinator.Producer) error {
	check, err := t.checkCommit(machine.Committer{
		MemberID: request.MemberID, InstanceID: request.InstanceID, Generation: request.Generation,
		Transactional: producer != nil, Version: request.Version,
	})
	if err != nil {
		return err
	}
	list, response, err := t.judge(request, check)
	if err != nil {
		return err
	}
	t.appendOffsets(producer, list, response)
	return nil
}

// checkCommit asks the group whether offsets may be committed. Who is no member may make a group that only stores them.
func (t turn) checkCommit(by machine.Committer) (machine.PartitionCheck, error) {
	if t.slot.group == nil {
		switch {
		case by.Generation < 0:
			t.put(t.slot, classic.New(t.slot.id, t.coordinator.options.Config.Classic, t.now))
		case !by.Transactional && by.Version >= groupNotFoundFrom:
			return nil, kafka.GroupIDNotFound
		default:
			return nil, kafka.IllegalGeneration
		}
	}
	return t.slot.group.CheckCommit(t.now, by)
}

// judge makes the records of a commit, and the answer for when they are written.
func (t turn) judge(request *kmsg.OffsetCommitRequest, check machine.PartitionCheck) (
	[]coordinator.Record, *kmsg.OffsetCommitResponse, error,
) {
	response := CommitRefused(request, kafka.None)
	var list []coordinator.Record
	for i := range request.Topics {
		topic := &request.Topics[i]
		for j := range topic.Partitions {
			partition := &topic.Partitions[j]
			if tooLong(partition.Metadata, t.coordinator.options.Config.MaxMetadataLength) {
				response.Topics[i].Partitions[j].ErrorCode = int16(kafka.OffsetMetadataTooLarge)
				continue
			}
			if check != nil {
				if err := check(topic.Topic, topic.TopicID, partition.Partition); err != nil {
					return nil, nil, err
				}
			}
			key := records.Key{
				Kind: records.OffsetCommit, Group: request.Group, Topic: topic.Topic, Partition: partition.Partition,
			}
			value := offsetValue(topic.TopicID, partition, t.now, request.RetentionTimeMillis)
			list = append(list, coordinator.Record{Key: key.Encode(), Value: value.AppendTo(nil)})
		}
	}
	return list, response, nil
}

func offsetValue(topic kafka.TopicID, partition *kmsg.OffsetCommitRequestTopicPartition, now time.Time,
	retentionMs int64,
) *kmsg.OffsetCommitValue {
	value := kmsg.NewOffsetCommitValue()
	value.Version, value.TopicID = offsetVersion, topic
	value.Offset, value.LeaderEpoch = partition.Offset, max(partition.LeaderEpoch, -1)
	if partition.Metadata != nil {
		value.Metadata = *partition.Metadata
	}
	value.CommitTimestamp = now.UnixMilli()
	if retentionMs != -1 {
		value.Version, value.ExpireTimestamp = expiringOffsetVersion, now.UnixMilli()+retentionMs
	}
	return &value
}

// tooLong tells whether metadata has more UTF-16 units than a limit.
func tooLong(metadata *string, limit int) bool {
	if metadata == nil || len(*metadata) <= limit { // no text has more units than bytes
		return false
	}
	units := 0
	for _, char := range *metadata {
		units += utf16.RuneLen(char)
	}
	return units > limit
}

// appendOffsets appends the records of offsets, of which the view does not know yet, and answers when it does.
func (t turn) appendOffsets(producer *coordinator.Producer, list []coordinator.Record, response kmsg.Response) {
	asked := t.take(t.waiter)
	if len(list) == 0 {
		asked.answer.Resolve(response)
		return
	}
	err := t.writeOffsets(t.slot, producer, list, func(err error) {
		if err != nil {
			asked.refuse(err)
			return
		}
		asked.answer.Resolve(response)
	})
	if err != nil {
		asked.refuse(err)
		return
	}
	t.hurry(asked)
}

// writeOffsets appends the records of offsets, or their tombstones, and calls done when the view has them.
func (r *registry) writeOffsets(s *slot, producer *coordinator.Producer, list []coordinator.Record,
	done func(error),
) error {
	end, err := r.shard.Append(producer, list...)
	if err != nil {
		return err
	}
	if s.appended == nil {
		s.appended = map[string]int64{}
	}
	for _, one := range list {
		s.appended[string(one.Key)] = end
		s.asLoaded = s.asLoaded && one.Value != nil // a group that has offsets only ends with the last of them
	}
	r.await(s, end, func(err error) {
		for _, one := range list {
			if s.appended[string(one.Key)] == end {
				delete(s.appended, string(one.Key))
			}
		}
		done(err)
	})
	return nil
}

// CommitRefused is the answer to a commit that says the same of each partition.
func CommitRefused(request *kmsg.OffsetCommitRequest, code kafka.Errno) *kmsg.OffsetCommitResponse {
	response := kmsg.NewPtrOffsetCommitResponse()
	response.Topics = make([]kmsg.OffsetCommitResponseTopic, len(request.Topics))
	for i := range request.Topics {
		asked, topic := &request.Topics[i], &response.Topics[i]
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		topic.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(asked.Partitions))
		for j := range asked.Partitions {
			topic.Partitions[j].Partition = asked.Partitions[j].Partition
			topic.Partitions[j].ErrorCode = int16(code)
		}
	}
	return response
}
