package group

import (
	"bytes"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// maxTombstoneBytes bounds the keys of a batch of tombstones, well below the default limit of a batch.
const maxTombstoneBytes = 256 << 10

// consumerProtocol is the protocol type of consumers, the only one of which it is known what members read.
const consumerProtocol = "consumer"

// DeleteOffsets removes committed offsets of topics that no member reads. The topics exist.
func (c *Coordinator) DeleteOffsets(request *kmsg.OffsetDeleteRequest) *Answer {
	refuse := func(err error) kmsg.Response {
		response := kmsg.NewPtrOffsetDeleteResponse()
		response.ErrorCode = int16(errorCode(err))
		return response
	}
	if request.Group == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		group := t.slot.group
		if group == nil {
			return machine.Step{}, kafka.GroupIDNotFound
		}
		summary := group.Summary()
		if !summary.Empty && summary.ProtocolType != consumerProtocol {
			return machine.Step{}, kafka.NonEmptyGroup
		}
		response := kmsg.NewPtrOffsetDeleteResponse()
		var tombstones []coordinator.Record
		for i := range request.Topics {
			asked := &request.Topics[i]
			code := kafka.None
			if summary.Subscribed != nil && summary.Subscribed(asked.Topic) {
				code = kafka.GroupSubscribedToTopic
			}
			topic := kmsg.NewOffsetDeleteResponseTopic()
			topic.Topic = asked.Topic
			for _, partition := range asked.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.OffsetDeleteResponseTopicPartition{
					Partition: partition.Partition, ErrorCode: int16(code),
				})
				if code != kafka.None {
					continue
				}
				tombstone, err := t.offsetTombstone(asked.Topic, partition.Partition)
				if err != nil {
					return machine.Step{}, err
				}
				tombstones = append(tombstones, tombstone...)
			}
			response.Topics = append(response.Topics, topic)
		}
		t.appendOffsets(nil, tombstones, response)
		return machine.Step{}, nil
	})
}

// offsetTombstone is the tombstone of an offset, or nothing if there is no such offset.
func (t turn) offsetTombstone(topic string, partition int32) ([]coordinator.Record, error) {
	key := records.Key{Kind: records.OffsetCommit, Group: t.slot.id, Topic: topic, Partition: partition}.Encode()
	_, found, err := t.shard.Get(key)
	if err != nil {
		return nil, err
	}
	if _, appended := t.slot.appended[string(key)]; !found && !appended && !t.shard.Staged(key) {
		return nil, nil
	}
	return []coordinator.Record{{Key: key}}, nil
}

// Delete removes a group that has no members, with its offsets. The answer is a DeleteGroupsResponse with that group.
func (c *Coordinator) Delete(group string) *Answer {
	refuse := func(err error) kmsg.Response { return deleted(group, errorCode(err)) }
	return c.serve(group, refuse, func(t turn) (machine.Step, error) {
		switch {
		case t.slot.group == nil:
			return machine.Step{}, kafka.GroupIDNotFound
		case !t.slot.group.Summary().Empty:
			return machine.Step{}, kafka.NonEmptyGroup
		}
		keys, err := t.offsetKeys(t.slot)
		if err != nil {
			return machine.Step{}, err
		}
		asked := t.take(t.waiter)
		err = t.remove(t.slot, keys, func(err error) {
			if err != nil {
				asked.refuse(err)
				return
			}
			asked.answer.Resolve(deleted(group, kafka.None))
		})
		if err != nil {
			asked.refuse(err)
			return machine.Step{}, nil
		}
		t.hurry(asked)
		return machine.Step{}, nil
	})
}

func deleted(group string, code kafka.Errno) *kmsg.DeleteGroupsResponse {
	response := kmsg.NewPtrDeleteGroupsResponse()
	response.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: group, ErrorCode: int16(code)}}
	return response
}

// offsetKeys lists the keys of all offsets of a group: those that the view has, those that are on their way there, and
// those of open transactions.
func (r *registry) offsetKeys(s *slot) ([][]byte, error) {
	prefix := records.GroupPrefix(records.OffsetCommit, s.id)
	var keys [][]byte
	err := r.shard.Scan(prefix, func(key []byte, _ coordinator.Entry) error {
		keys = append(keys, bytes.Clone(key))
		return nil
	})
	if err != nil {
		return nil, err
	}
	keys = append(keys, r.shard.StagedKeys(prefix)...)
	for key := range s.appended {
		keys = append(keys, []byte(key))
	}
	return keys, nil
}

// remove removes an empty group with its offsets, of which the keys are given, and calls done when the view does not
// have them any more. The offsets go first: what is left after a failure can be removed again.
func (r *registry) remove(s *slot, keys [][]byte, done func(error)) error {
	if err := r.removeOffsets(s, keys); err != nil {
		return err
	}
	end, err := r.shard.Append(nil, s.group.Tombstones()...)
	if err != nil {
		return err
	}
	r.forget(s)
	r.await(s, end, done)
	return nil
}

// removeOffsets appends tombstones for keys of offsets.
func (r *registry) removeOffsets(s *slot, keys [][]byte) error {
	for len(keys) > 0 {
		var batch []coordinator.Record
		for size := 0; len(keys) > 0 && size < maxTombstoneBytes; keys = keys[1:] {
			batch = append(batch, coordinator.Record{Key: keys[0]})
			size += len(keys[0])
		}
		if err := r.writeOffsets(s, nil, batch, func(error) {}); err != nil {
			return err
		}
	}
	return nil
}

// forget takes the group from its place. The place stays until the view has forgotten the group, too.
func (r *registry) forget(s *slot) {
	s.group = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.armed = time.Time{}
}

// errFound ends a look at the view early.
var errFound = errors.New("found")

// hasPrefix tells whether the view has a record whose key begins with prefix.
func hasPrefix(shard *coordinator.Shard, prefix []byte) (bool, error) {
	err := shard.Scan(prefix, func([]byte, coordinator.Entry) error { return errFound })
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}
