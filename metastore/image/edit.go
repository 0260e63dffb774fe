package image

import (
	"maps"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
)

// With gives a copy with other values in its plain fields. Brokers must be replaced by WithBroker instead.
func (i *Image) With(change func(next *Image)) *Image {
	next := *i
	change(&next)
	return &next
}

// WithTopic adds a topic, or replaces the one of the same id, which must have the same name. The image keeps topic: it
// must not be changed afterwards.
func (i *Image) WithTopic(topic *Topic) *Image {
	next := *i
	next.byName, _, _ = i.byName.Insert(appendNormalised(nil, topic.Name), topic)
	next.byID, _, _ = i.byID.Insert(topic.ID[:], topic)
	return &next
}

// WithoutTopic removes a topic.
func (i *Image) WithoutTopic(topic *Topic) *Image {
	next := *i
	next.byName, _, _ = i.byName.Delete(appendNormalised(nil, topic.Name))
	next.byID, _, _ = i.byID.Delete(topic.ID[:])
	return &next
}

// WithBroker adds a broker, or replaces the one of the same id.
func (i *Image) WithBroker(broker *Broker) *Image {
	next := *i
	at, found := slices.BinarySearchFunc(i.Brokers, broker.ID, compareBroker)
	next.Brokers = slices.Clone(i.Brokers)
	if found {
		next.Brokers[at] = broker
	} else {
		next.Brokers = slices.Insert(next.Brokers, at, broker)
	}
	return &next
}

// WithBrokerConfig replaces the dynamic settings of one broker or, under "", of all. An empty map removes them.
func (i *Image) WithBrokerConfig(name string, configs map[string]string) *Image {
	next := *i
	next.brokerConfigs = withConfigs(i.brokerConfigs, name, configs)
	return &next
}

// WithGroupConfig replaces the settings of a group. An empty map removes them.
func (i *Image) WithGroupConfig(group string, configs map[string]string) *Image {
	next := *i
	next.groupConfigs = withConfigs(i.groupConfigs, group, configs)
	return &next
}

func withConfigs(all map[string]map[string]string, name string, configs map[string]string,
) map[string]map[string]string {
	next := maps.Clone(all)
	if next == nil {
		next = make(map[string]map[string]string)
	}
	next[name] = configs
	if len(configs) == 0 {
		delete(next, name)
	}
	return next
}

// WithPartitions gives a copy of the topic with its own slice of partitions, of which change may replace elements or
// append to. What an element points to is still shared and must be replaced, not changed.
func (t *Topic) WithPartitions(change func(partitions []Partition) []Partition) *Topic {
	next := *t
	next.Partitions = change(slices.Clone(t.Partitions))
	return &next
}

// WithConfigs gives a copy of the topic with other settings. The topic keeps configs.
func (t *Topic) WithConfigs(configs map[string]string) *Topic {
	next := *t
	next.Configs = configs
	return &next
}

// WithTier gives the image with another tier state for a partition that must exist.
func (i *Image) WithTier(tp kafka.TopicIDPartition, tier *TierState) *Image {
	topic, found := i.TopicByID(tp.ID)
	if !found {
		return i
	}
	return i.WithTopic(topic.WithPartitions(func(partitions []Partition) []Partition {
		partitions[tp.Partition].Tier = tier
		return partitions
	}))
}
