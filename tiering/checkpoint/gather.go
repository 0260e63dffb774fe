package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// nextID makes the id of a checkpoint: it begins with a number that is one above the last one's, so that ids sort as
// checkpoints of the same index were written.
func nextID(last, random kafka.UUID) kafka.UUID {
	binary.BigEndian.PutUint64(random[:], binary.BigEndian.Uint64(last[:])+1)
	return random
}

// singleBrokers are the settings of single brokers, by their ids.
func singleBrokers(img *image.Image) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, name := range img.BrokerConfigNames() {
		if name != "" { // which is all of them
			all[name] = img.BrokerConfig(name)
		}
	}
	return all
}

func sortRefs(refs []shardRef) {
	slices.SortFunc(refs, func(a, b shardRef) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.number, b.number))
	})
}

// gatherTopics collects what belongs into some shards, but not the manifests.
func (w *Writer) gatherTopics(img *image.Image, wanted map[shardID]struct{}) map[shardID]*shard {
	shards := map[shardID]*shard{}
	at := func(id shardID) *shard {
		if _, found := wanted[id]; !found {
			return nil
		}
		if shards[id] == nil {
			shards[id] = &shard{shardID: id}
		}
		return shards[id]
	}
	for topic := range img.Topics() {
		if w.options.Internal != nil && w.options.Internal(topic.Name) {
			continue
		}
		if s := at(shardOfTopic(topic.ID)); s != nil {
			s.topics = append(s.topics, topicRecord{
				topic:      Topic{ID: topic.ID, Name: topic.Name, Configs: topic.Configs, Origins: topic.Origins},
				partitions: len(topic.Partitions),
			})
		}
		for i := range topic.Partitions {
			tp := kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)}
			s := at(shardOfPartition(tp))
			if s == nil {
				continue
			}
			from := &topic.Partitions[i]
			s.partitions = append(s.partitions, partitionRecord{
				tp: tp, partition: Partition{LeaderEpoch: from.Epoch, Tiered: from.Tier != nil},
			})
		}
	}
	return shards
}

// fill adds the manifests, and puts everything in order.
func (w *Writer) fill(s *shard) error {
	for i := range s.partitions {
		record := &s.partitions[i]
		if !record.partition.Tiered {
			continue
		}
		// A topic that was deleted a moment ago is an error, too: the next attempt is without it.
		tier, items, err := w.options.Metadata.Items(record.tp)
		if err != nil {
			return fmt.Errorf("read the manifest of %s: %w", record.tp, err)
		}
		if tier == nil {
			continue
		}
		p := &record.partition
		p.Tiered, p.Start, p.End, p.Version = true, tier.Start, tier.End, tier.Version
		p.Segments, p.Bytes, p.Items = tier.Segments, tier.Bytes, items
	}
	slices.SortFunc(s.topics, func(a, b topicRecord) int { return bytes.Compare(a.topic.ID[:], b.topic.ID[:]) })
	slices.SortFunc(s.partitions, func(a, b partitionRecord) int {
		return cmp.Or(bytes.Compare(a.tp.ID[:], b.tp.ID[:]), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	return nil
}

// eachGroupShard visits the shards of groups. While not all groups are known, those of the last checkpoint stay.
func (w *Writer) eachGroupShard(visit func(*shard) error) error {
	if w.options.Groups == nil {
		return nil
	}
	groups, err := w.options.Groups()
	if errors.Is(err, ErrLoading) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the groups: %w", err)
	}
	shards := make([]shard, groupShards)
	for number := range shards {
		shards[number].shardID = shardID{shardOfGroups, uint32(number)}
	}
	for _, group := range groups {
		s := &shards[shardOfGroup(group.Name).number]
		s.groups = append(s.groups, group)
	}
	for number := range shards {
		sortGroups(shards[number].groups)
		if err := visit(&shards[number]); err != nil {
			return err
		}
	}
	return nil
}

func sortGroups(groups []Group) {
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	for _, group := range groups {
		slices.SortFunc(group.Offsets, func(a, b Offset) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
}
