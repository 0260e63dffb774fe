package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// Fetch reads the committed offsets of a group; nil topics mean all it has. The answer is an OffsetFetchResponse with
// that one group. A partition without an offset, and a group that does not exist, are answered with −1 and no error.
// The topics that are asked for have their names, and their ids where the client knows them.
//
// requireStable answers UNSTABLE_OFFSET_COMMIT for offsets that an open transaction is about to replace (KIP-447), and
// waits for commits that came before.
func (c *Coordinator) Fetch(asked *kmsg.OffsetFetchRequestGroup, requireStable bool) *Answer {
	refuse := func(err error) kmsg.Response { return FetchRefused(asked.Group, errorCode(err)) }
	return c.serve(asked.Group, refuse, func(t turn) (machine.Step, error) {
		if t.slot.group != nil {
			if err := t.slot.group.CheckFetch(asked.MemberID, asked.MemberEpoch); err != nil {
				return machine.Step{}, err
			}
		}
		waiter := t.take(t.waiter)
		read := func(err error) {
			var response *kmsg.OffsetFetchResponse
			if err == nil {
				response, err = t.fetch(asked, requireStable)
			}
			if err != nil {
				waiter.refuse(err)
				return
			}
			waiter.answer.Resolve(response)
		}
		if last := t.slot.lastAppended(); requireStable && last > 0 {
			t.await(t.slot, last, read)
			return machine.Step{}, nil
		}
		read(nil)
		return machine.Step{}, nil
	})
}

// lastAppended is the end of the last batch with offsets of the group that the view does not have yet; 0 if it has all.
func (s *slot) lastAppended() int64 {
	last := int64(0)
	for _, end := range s.appended {
		last = max(last, end)
	}
	return last
}

func (r *registry) fetch(asked *kmsg.OffsetFetchRequestGroup, requireStable bool) (*kmsg.OffsetFetchResponse, error) {
	group := kmsg.NewOffsetFetchResponseGroup()
	group.Group = asked.Group
	var err error
	if asked.Topics == nil {
		group.Topics, err = r.fetchAll(asked.Group, requireStable)
	} else {
		group.Topics, err = r.fetchSome(asked, requireStable)
	}
	if err != nil {
		return nil, err
	}
	response := kmsg.NewPtrOffsetFetchResponse()
	response.Groups = []kmsg.OffsetFetchResponseGroup{group}
	return response, nil
}

func (r *registry) fetchSome(asked *kmsg.OffsetFetchRequestGroup, requireStable bool) (
	[]kmsg.OffsetFetchResponseGroupTopic, error,
) {
	topics := make([]kmsg.OffsetFetchResponseGroupTopic, len(asked.Topics))
	for i := range asked.Topics {
		topic := &asked.Topics[i]
		topics[i].Topic, topics[i].TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			key := records.Key{
				Kind: records.OffsetCommit, Group: asked.Group, Topic: topic.Topic, Partition: partition,
			}
			answer, err := r.fetchOne(key, topic.TopicID, requireStable)
			if err != nil {
				return nil, err
			}
			topics[i].Partitions = append(topics[i].Partitions, answer)
		}
	}
	return topics, nil
}

// fetchOne reads one offset. One that was committed to a topic of the same name that is gone is none.
func (r *registry) fetchOne(key records.Key, topic kafka.TopicID, requireStable bool) (
	kmsg.OffsetFetchResponseGroupTopicPartition, error,
) {
	answer := NoOffset(key.Partition)
	encoded := key.Encode()
	if requireStable && r.shard.Staged(encoded) {
		answer.ErrorCode = int16(kafka.UnstableOffsetCommit)
		return answer, nil
	}
	entry, found, err := r.shard.Get(encoded)
	if err != nil || !found {
		return answer, err
	}
	value, err := parseOffset(key, entry)
	if err != nil || differ(value.TopicID, topic) {
		return answer, err
	}
	fillOffset(&answer, value)
	return answer, nil
}

// differ tells whether two topic ids are of different topics: one that is not known is of any.
func differ(a, b kafka.TopicID) bool {
	return a != b && a != kafka.TopicID{} && b != kafka.TopicID{}
}

func (r *registry) fetchAll(group string, requireStable bool) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	topics := []kmsg.OffsetFetchResponseGroupTopic{}
	err := r.eachOffset(group, func(key records.Key, encoded []byte, value *kmsg.OffsetCommitValue) error {
		answer := NoOffset(key.Partition)
		if requireStable && r.shard.Staged(encoded) {
			answer.ErrorCode = int16(kafka.UnstableOffsetCommit)
		} else {
			fillOffset(&answer, value)
		}
		if len(topics) == 0 || topics[len(topics)-1].Topic != key.Topic {
			topics = append(topics, kmsg.OffsetFetchResponseGroupTopic{Topic: key.Topic})
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, answer)
		return nil
	})
	return topics, err
}

// eachOffset visits the offsets of a group that the view has, by topic and partition.
func (r *registry) eachOffset(group string,
	visit func(key records.Key, encoded []byte, value *kmsg.OffsetCommitValue) error,
) error {
	return eachOffset(r.shard, records.GroupPrefix(records.OffsetCommit, group), visit)
}

func eachOffset(shard *coordinator.Shard, prefix []byte,
	visit func(key records.Key, encoded []byte, value *kmsg.OffsetCommitValue) error,
) error {
	return shard.Scan(prefix, func(encoded []byte, entry coordinator.Entry) error {
		key, err := records.ParseKey(encoded)
		if err != nil {
			return err
		}
		value, err := parseOffset(key, entry)
		if err != nil {
			return err
		}
		return visit(key, encoded, value)
	})
}

func parseOffset(key records.Key, entry coordinator.Entry) (*kmsg.OffsetCommitValue, error) {
	value := kmsg.NewOffsetCommitValue()
	value.LeaderEpoch, value.ExpireTimestamp = -1, -1 // old versions do not have them
	if err := value.ReadFrom(entry.Value); err != nil {
		return nil, fmt.Errorf("read the offset of group %q in %s-%d: %w", key.Group, key.Topic, key.Partition, err)
	}
	return &value, nil
}

// NoOffset is the answer for a partition in which nothing was committed, or to which an error is added.
func NoOffset(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	answer := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	noMetadata := ""
	answer.Partition, answer.Offset, answer.LeaderEpoch, answer.Metadata = partition, -1, -1, &noMetadata
	return answer
}

func fillOffset(answer *kmsg.OffsetFetchResponseGroupTopicPartition, value *kmsg.OffsetCommitValue) {
	answer.Offset, answer.LeaderEpoch, answer.Metadata = value.Offset, value.LeaderEpoch, &value.Metadata
}

// FetchRefused is the answer for a group as a whole.
func FetchRefused(group string, code kafka.Errno) *kmsg.OffsetFetchResponse {
	refused := kmsg.NewOffsetFetchResponseGroup()
	refused.Group, refused.ErrorCode = group, int16(code)
	response := kmsg.NewPtrOffsetFetchResponse()
	response.Groups = []kmsg.OffsetFetchResponseGroup{refused}
	return response
}
