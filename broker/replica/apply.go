package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// applyTopic brings the partitions of one topic that lie on this broker to what the image says.
func (m *Manager) applyTopic(img *image.Image, topic *image.Topic) {
	cfg := m.resolve(img, topic)
	for i := range topic.Partitions {
		m.applyPartition(topic, int32(i), cfg)
	}
}

func (m *Manager) resolve(img *image.Image, topic *image.Topic) *config.TopicConfig {
	broker := m.options.Layers(img).Lookup
	cfg, err := config.ResolveTopic(topic.Configs, broker)
	if err != nil {
		// The controller checked the settings before they were committed; a table that became stricter since then must
		// not take the topic away.
		m.options.Logger.Error("topic settings do not fit any more, the broker's defaults act",
			"topic", topic.Name, "err", err)
		cfg, _ = config.ResolveTopic(nil, broker)
	}
	return &cfg
}

// applyConfigs takes over changed settings: of one topic, or of the broker, which every topic may inherit.
func (m *Manager) applyConfigs(next *image.Image, resource image.ConfigResource) {
	if resource.Topic {
		if topic, ok := next.Topic(resource.Name); ok {
			m.applyTopic(next, topic)
		}
		return
	}
	for topic := range next.Topics() {
		m.applyTopic(next, topic)
	}
}

// applyChange takes over another leader, epoch, ISR or tier state of one partition, or opens it when it is new.
func (m *Manager) applyChange(next *image.Image, id kafka.TopicIDPartition) {
	topic, ok := next.TopicByID(id.ID)
	if !ok {
		return
	}
	m.mu.RLock()
	p := m.byID[id]
	m.mu.RUnlock()
	if p == nil {
		m.applyPartition(topic, id.Partition, m.resolve(next, topic))
		return
	}
	p.apply(&topic.Partitions[id.Partition], p.config.Load())
	m.waiters.Check(p)
}

func (m *Manager) applyPartition(topic *image.Topic, index int32, cfg *config.TopicConfig) {
	spec := &topic.Partitions[index]
	if !slices.Contains(spec.Replicas, m.options.BrokerID) {
		return
	}
	id := kafka.TopicIDPartition{ID: topic.ID, Partition: index}
	m.mu.RLock()
	p, exists := m.byID[id]
	m.mu.RUnlock()
	if exists {
		p.apply(spec, cfg)
		m.waiters.Check(p)
		return
	}
	p = &Partition{
		topicPartition: kafka.TopicPartition{Topic: topic.Name, Partition: index}, id: id, manager: m,
		counts: m.topicCounts(topic.ID),
	}
	p.open(LogConfig(cfg), spec.Directory(m.options.BrokerID))
	p.apply(spec, cfg)
	m.mu.Lock()
	m.byName[p.topicPartition], m.byID[id] = p, p
	m.mu.Unlock()
}

// open finds or creates the log. A log that cannot be had makes the partition answer a storage error; it is never
// created anew elsewhere, as that would silently begin an empty history.
func (p *Partition) open(cfg storage.Config, directory kafka.UUID) {
	log, err := p.manager.options.Logs.Create(p.topicPartition, p.id.ID, cfg, directory)
	if err != nil {
		p.fault = fmt.Errorf("%s is not served: %w", p.topicPartition, err)
		p.manager.options.Logger.Error("partition is not served", "partition", p.topicPartition.String(), "err", err)
		return
	}
	p.log = log
	log.OnFlush(func(int64) { p.advance() })
}

// apply takes over leadership, settings and tier state from the image.
func (p *Partition) apply(spec *image.Partition, cfg *config.TopicConfig) {
	previous := p.state.Load()
	next := &leadership{
		leader: spec.Leader, epoch: spec.Epoch, replicas: len(spec.Replicas), isr: len(spec.ISR), tier: spec.Tier,
	}
	p.config.Store(cfg)
	if p.log == nil {
		p.state.Store(next)
		return
	}
	p.log.SetConfig(LogConfig(cfg))
	if next.leader == p.manager.options.BrokerID && (previous == nil || previous.epoch != next.epoch) {
		p.log.AssignEpoch(next.epoch)
	}
	p.state.Store(next)
	if next.tier != nil && next.tier.Start > p.log.LogStartOffset() {
		// The metastore owns the start of a tiered log; local files below it go by the next retention run.
		if err := p.log.MoveLogStart(next.tier.Start); err != nil {
			p.manager.options.Logger.Error("log start offset does not follow the metastore",
				"partition", p.topicPartition.String(), "start", next.tier.Start, "err", err)
		}
	}
	if previous == nil {
		p.advance() // what was on disk at the start is as safe as it can be with an ISR of one
	}
}

// topicCounts finds or makes the counters of a topic. Only Apply uses the map.
func (m *Manager) topicCounts(id kafka.TopicID) *topicCounts {
	counts, ok := m.counts[id]
	if !ok {
		counts = &topicCounts{}
		m.counts[id] = counts
	}
	return counts
}

// removeTopic forgets the partitions of a deleted topic and gives their logs to deletion.
func (m *Manager) removeTopic(id kafka.TopicID) {
	delete(m.counts, id)
	for _, p := range m.Partitions() {
		if p.id.ID != id {
			continue
		}
		m.mu.Lock()
		delete(m.byID, p.id)
		if m.byName[p.topicPartition] == p {
			delete(m.byName, p.topicPartition)
		}
		m.mu.Unlock()
		gone := *p.state.Load()
		gone.deleted = true
		p.state.Store(&gone)
		m.waiters.Check(p)
		if p.log == nil {
			continue
		}
		if err := m.options.Logs.Delete(p.topicPartition); err != nil {
			m.options.Logger.Error("deleted partition leaves its folder behind",
				"partition", p.topicPartition.String(), "err", err)
		}
	}
}

// LogConfig is what the local log needs of a topic's settings.
func LogConfig(cfg *config.TopicConfig) storage.Config {
	return storage.Config{
		SegmentBytes:       cfg.SegmentBytes,
		SegmentMs:          cfg.SegmentMs,
		SegmentJitterMs:    cfg.SegmentJitterMs,
		SegmentIndexBytes:  cfg.SegmentIndexBytes,
		IndexIntervalBytes: cfg.IndexIntervalBytes,
		FlushMessages:      cfg.FlushMessages,
		FlushMs:            cfg.FlushMs,
		FileDeleteDelay:    time.Duration(cfg.FileDeleteDelayMs) * time.Millisecond,
	}
}
