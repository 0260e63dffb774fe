package replica

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/broker/purgatory"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// Options are what a Manager is made of.
type Options struct {
	BrokerID kafka.BrokerID
	Logs     *storage.Manager
	Remote   RemoteLog
	Logger   *slog.Logger
	// FlushPolicy is group where acks=all waits for the disk and consumers see only what is on it.
	FlushPolicy storage.FlushPolicy
	// HeaderOnlyValidation skips the inner records of batches (firn.record.validation=header).
	HeaderOnlyValidation bool
	// RemoteFetchMaxWait is how long a fetch waits for the object store although its own wait is shorter
	// (remote.fetch.max.wait.ms, KIP-1018).
	RemoteFetchMaxWait func() time.Duration
	// Registerer takes the metrics; nil registers nothing. Series per partition are left out while there are more
	// than MaxPartitionSeries partitions (firn.metrics.partitions.max).
	Registerer         prometheus.Registerer
	MaxPartitionSeries int
	// Committed is called when a partition's high watermark has moved; it must return at once. May be nil.
	Committed func(tp kafka.TopicPartition)
	// Layers are the broker's settings that topics inherit, those altered at run time from the image included.
	Layers func(*image.Image) config.BrokerLayers
}

// Manager holds the partitions of this broker and follows the cluster metadata: it is told of each change in order.
type Manager struct {
	options   Options
	validator *record.Validator
	waiters   *purgatory.Purgatory[*Partition]
	settled   chan struct{}                  // closed: waiting for what is committed already is over at once
	sessions  *purgatory.Purgatory[*Session] // fetches of sessions, which are many partitions each
	cold      *coldLane
	draining  atomic.Bool
	counts    map[kafka.TopicID]*topicCounts // used by Apply only
	totals    topicCounts                    // of all topics, those that are gone included

	mu     sync.RWMutex // guards the fields below
	byName map[kafka.TopicPartition]*Partition
	byID   map[kafka.TopicIDPartition]*Partition
	image  *image.Image // the newest that was applied: it also answers for partitions that are not here
}

// NewManager makes a Manager that knows no partitions yet.
func NewManager(options Options) *Manager {
	m := &Manager{
		options:   options,
		counts:    map[kafka.TopicID]*topicCounts{},
		validator: record.NewValidator(),
		waiters:   purgatory.New[*Partition](),
		settled:   make(chan struct{}),
		sessions:  purgatory.New[*Session](),
		cold:      newColdLane(options.Registerer),
		byName:    map[kafka.TopicPartition]*Partition{},
		byID:      map[kafka.TopicIDPartition]*Partition{},
		image:     image.Empty(),
	}
	close(m.settled)
	if options.Registerer != nil {
		options.Registerer.MustRegister(newCollector(m, options.MaxPartitionSeries))
	}
	return m
}

// Partition finds a partition by its topic's name. A partition that exists elsewhere is NOT_LEADER_OR_FOLLOWER.
func (m *Manager) Partition(tp kafka.TopicPartition) (*Partition, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p, ok := m.byName[tp]; ok {
		return p, nil
	}
	if topic, ok := m.image.Topic(tp.Topic); ok && tp.Partition >= 0 && int(tp.Partition) < len(topic.Partitions) {
		return nil, kafka.NotLeaderOrFollower
	}
	return nil, kafka.UnknownTopicOrPartition
}

// PartitionOf is Partition for a topic name that lies in a request's frame; it does not allocate.
func (m *Manager) PartitionOf(topic []byte, partition int32) (*Partition, error) {
	m.mu.RLock()
	p, ok := m.byName[kafka.TopicPartition{Topic: string(topic), Partition: partition}]
	m.mu.RUnlock()
	if ok {
		return p, nil
	}
	return m.Partition(kafka.TopicPartition{Topic: string(topic), Partition: partition})
}

// PartitionByID finds a partition by its topic's id: a stale id is UNKNOWN_TOPIC_ID.
func (m *Manager) PartitionByID(tp kafka.TopicIDPartition) (*Partition, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p, ok := m.byID[tp]; ok {
		return p, nil
	}
	topic, ok := m.image.TopicByID(tp.ID)
	switch {
	case !ok:
		return nil, kafka.UnknownTopicID
	case tp.Partition >= 0 && int(tp.Partition) < len(topic.Partitions):
		return nil, kafka.NotLeaderOrFollower
	}
	return nil, kafka.UnknownTopicOrPartition
}

// Partitions lists the partitions of this broker, in no order.
func (m *Manager) Partitions() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make([]*Partition, 0, len(m.byName))
	for _, p := range m.byName {
		all = append(all, p)
	}
	return all
}

// Drain answers every waiting fetch with what there is, now and from here on: a node that stops lets its clients go.
// Waits for the disk go on, since they end by themselves.
func (m *Manager) Drain() {
	m.draining.Store(true)
	m.WakeAll()
}

// WakeAll lets every waiting operation look again, after something that concerns all partitions, such as a
// failed log directory.
func (m *Manager) WakeAll() {
	waiting := map[*Session]bool{}
	for _, p := range m.Partitions() {
		m.waiters.Check(p)
		for _, session := range p.followers.mark(nil) {
			waiting[session] = true
		}
	}
	for session := range waiting { // once everything is marked: one look at thousands of partitions is enough
		m.sessions.Check(session)
	}
}

// Wake lets who waits for a partition look again, after something that its log alone knows.
func (m *Manager) Wake(tp kafka.TopicPartition) {
	if p, err := m.Partition(tp); err == nil {
		p.changed()
	}
}

// Apply follows the metadata from one image to the next. It is called in order, by one goroutine, and returns when
// this broker serves what the image says: a topic is answered as created only after its logs exist.
func (m *Manager) Apply(next *image.Image, delta image.Delta) {
	m.mu.Lock()
	m.image = next
	m.mu.Unlock()
	if delta.Reset {
		m.reset(next)
		return
	}
	for _, topic := range delta.TopicsDeleted {
		m.removeTopic(topic)
	}
	m.applyTopics(next, slices.Values(delta.TopicsCreated))
	for _, resource := range delta.ConfigsChanged {
		m.applyConfigs(next, resource)
	}
	for _, id := range delta.PartitionsChanged {
		m.applyChange(next, id)
	}
	for _, id := range delta.TierChanged {
		m.applyChange(next, id)
	}
}

// reset compares all there is with an image that did not come one change at a time.
func (m *Manager) reset(next *image.Image) {
	var gone []*Partition
	for _, p := range m.Partitions() {
		if _, ok := next.TopicByID(p.id.ID); !ok {
			gone = append(gone, p)
		}
	}
	m.remove(gone)
	m.applyTopics(next, next.Topics())
}
