package replica

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// opening is a partition that is not known yet, on its way into service.
type opening struct {
	partition *Partition
	spec      *image.Partition
	config    *config.TopicConfig
	log       storage.NewLog
}

// applyTopics brings the partitions of topics that lie on this broker to what the image says. The logs of new ones are
// made side by side, as each waits for the disk.
func (m *Manager) applyTopics(img *image.Image, topics iter.Seq[*image.Topic]) {
	var fresh []opening
	for topic := range topics {
		cfg := m.resolve(img, topic)
		for i := range topic.Partitions {
			if next, isNew := m.applyPartition(topic, int32(i), cfg); isNew {
				fresh = append(fresh, next)
			}
		}
	}
	m.open(fresh)
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
			m.applyTopics(next, slices.Values([]*image.Topic{topic}))
		}
		return
	}
	m.applyTopics(next, next.Topics())
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
		if fresh, isNew := m.applyPartition(topic, id.Partition, m.resolve(next, topic)); isNew {
			m.open([]opening{fresh})
		}
		return
	}
	p.apply(&topic.Partitions[id.Partition], p.config.Load())
}

// applyPartition brings one partition to what the image says, or prepares a new one for open.
func (m *Manager) applyPartition(topic *image.Topic, index int32, cfg *config.TopicConfig) (fresh opening, isNew bool) {
	spec := &topic.Partitions[index]
	if !slices.Contains(spec.Replicas, m.options.BrokerID) {
		return opening{}, false
	}
	id := kafka.TopicIDPartition{ID: topic.ID, Partition: index}
	m.mu.RLock()
	p, exists := m.byID[id]
	m.mu.RUnlock()
	if exists {
		p.apply(spec, cfg)
		return opening{}, false
	}
	p = &Partition{
		topicPartition: kafka.TopicPartition{Topic: topic.Name, Partition: index}, id: id, manager: m,
		counts: m.topicCounts(topic.ID),
	}
	return opening{partition: p, spec: spec, config: cfg, log: storage.NewLog{
		TopicPartition: p.topicPartition, TopicID: topic.ID, Config: LogConfig(cfg),
		Directory: spec.Directory(m.options.BrokerID),
	}}, true
}

// open finds or creates the logs of new partitions and puts them into service. A log that cannot be had makes its
// partition answer a storage error; it is never created anew elsewhere, as that would silently begin an empty history.
func (m *Manager) open(fresh []opening) {
	logs := make([]storage.NewLog, len(fresh))
	for i := range fresh {
		logs[i] = fresh[i].log
	}
	for i, created := range m.options.Logs.CreateAll(logs) {
		one := &fresh[i] //nolint:gosec // one result for each log, in their order
		p := one.partition
		if created.Err != nil {
			p.fault = fmt.Errorf("%s is not served: %w", p.topicPartition, created.Err)
			m.options.Logger.Error("partition is not served", "partition", p.topicPartition.String(), "err", created.Err)
		} else {
			p.log = created.Log
			p.log.OnFlush(func(int64) { p.advance() })
		}
		p.apply(one.spec, one.config)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range fresh {
		p := fresh[i].partition
		m.byName[p.topicPartition], m.byID[p.id] = p, p
	}
}

// apply takes over leadership, settings and tier state from the image. Who waits for the partition looks again if it
// has changed; settings alone make no difference to those.
func (p *Partition) apply(spec *image.Partition, cfg *config.TopicConfig) {
	previous := p.state.Load()
	next := &leadership{
		leader: spec.Leader, epoch: spec.Epoch, replicas: len(spec.Replicas), isr: len(spec.ISR), tier: spec.Tier,
	}
	if previous != nil && *previous != *next {
		defer p.changed()
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
		counts = &topicCounts{all: &m.totals}
		m.counts[id] = counts
	}
	return counts
}

// removeTopic forgets the partitions of a deleted topic and gives their logs to deletion.
func (m *Manager) removeTopic(topic *image.Topic) {
	var gone []*Partition
	m.mu.RLock()
	for i := range topic.Partitions {
		if p := m.byID[kafka.TopicIDPartition{ID: topic.ID, Partition: int32(i)}]; p != nil {
			gone = append(gone, p)
		}
	}
	m.mu.RUnlock()
	m.remove(gone)
}

// remove forgets partitions and gives their logs to deletion.
func (m *Manager) remove(gone []*Partition) {
	var logs []kafka.TopicPartition
	m.mu.Lock()
	for _, p := range gone {
		delete(m.counts, p.id.ID)
		delete(m.byID, p.id)
		if m.byName[p.topicPartition] == p {
			delete(m.byName, p.topicPartition)
		}
		logs = append(logs, p.topicPartition)
	}
	m.mu.Unlock()
	for _, p := range gone {
		state := *p.state.Load()
		state.deleted = true
		p.state.Store(&state)
		p.changed()
	}
	for i, err := range m.options.Logs.DeleteAll(logs) {
		if err != nil && (gone[i].log != nil || !errors.Is(err, kafka.UnknownTopicOrPartition)) {
			m.options.Logger.Error("deleted partition leaves its folder behind", "partition", logs[i].String(), "err", err)
		}
	}
}

// LogConfig is what the local log needs of a topic's settings.
func LogConfig(cfg *config.TopicConfig) storage.Config {
	segmentMs := cfg.SegmentMs
	if cfg.CleanupCompact && cfg.MaxCompactionLagMs > 0 { // the active segment is never cleaned (KIP-354)
		segmentMs = min(segmentMs, cfg.MaxCompactionLagMs)
	}
	return storage.Config{
		SegmentBytes:       cfg.SegmentBytes,
		SegmentMs:          segmentMs,
		SegmentJitterMs:    cfg.SegmentJitterMs,
		SegmentIndexBytes:  cfg.SegmentIndexBytes,
		IndexIntervalBytes: cfg.IndexIntervalBytes,
		FlushMessages:      cfg.FlushMessages,
		FlushMs:            cfg.FlushMs,
		FileDeleteDelay:    time.Duration(cfg.FileDeleteDelayMs) * time.Millisecond,
	}
}
