package restore

import (
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/checkpoint"
)

// addGroups takes over the committed offsets of the topics that come back. One past the end of what comes back is moved
// back to it: a consumer would else wait for offsets that are given to other records. One below the start stays, as the
// consumer's own rule for lost offsets knows what to do. One whose time is over by now would be gone.
func (p *planner) addGroups(groups []checkpoint.Group, now int64) {
	topics := map[string]*Topic{}
	for i := range p.plan.Topics {
		topics[p.plan.Topics[i].Name] = &p.plan.Topics[i]
	}
	for _, group := range groups {
		restored := checkpoint.Group{Name: group.Name, Configs: group.Configs}
		for _, offset := range group.Offsets {
			topic := topics[offset.Topic]
			switch {
			case topic == nil || offset.Partition < 0 || int(offset.Partition) >= len(topic.Partitions):
				continue
			case offset.ExpiresAt != 0 && offset.ExpiresAt <= now:
				continue
			case !offset.TopicID.IsZero() && offset.TopicID != topic.ID: // of an earlier topic of that name
				continue
			}
			restored.Offsets = append(restored.Offsets, p.clamp(group.Name, topic, offset))
		}
		if len(restored.Offsets) > 0 || len(restored.Configs) > 0 {
			p.plan.Groups = append(p.plan.Groups, restored)
		}
	}
}

func (p *planner) clamp(group string, topic *Topic, offset checkpoint.Offset) checkpoint.Offset {
	partition := &topic.Partitions[offset.Partition]
	partition.LeaderEpoch = max(partition.LeaderEpoch, offset.LeaderEpoch)
	if !topic.Tiered {
		offset.LeaderEpoch = kafka.NoLeaderEpoch // its log begins anew
	}
	if offset.Offset <= partition.End {
		return offset
	}
	p.plan.Clamps = append(p.plan.Clamps, Clamp{
		Group: group, Topic: offset.Topic, Partition: offset.Partition, Committed: offset.Offset, Restored: partition.End,
	})
	offset.Offset, offset.LeaderEpoch = partition.End, kafka.NoLeaderEpoch
	if n := len(partition.Epochs); n > 0 {
		offset.LeaderEpoch = partition.Epochs[n-1].Epoch
	}
	return offset
}

// finish moves leader epochs and producer ids above everything that was found.
func (p *planner) finish() {
	next := p.plan.NextProducerID
	for i := range p.plan.Topics {
		topic := &p.plan.Topics[i]
		for j := range topic.Partitions {
			partition := &topic.Partitions[j]
			partition.LeaderEpoch += epochMargin
			producers, err := storage.ParseProducerSnapshot(partition.Producers)
			if err != nil {
				// The tail's checksum was right: whoever wrote it wrote this. The log can do without.
				partition.Producers = nil
				continue
			}
			for _, producer := range producers {
				next = max(next, producer.ProducerID+1)
			}
		}
	}
	p.plan.NextProducerID = next + producerMargin
}
