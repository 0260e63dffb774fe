package firn

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// newGroups makes the coordinator of the groups whose journals this broker leads.
func (n *Node) newGroups() *group.Coordinator {
	n.topics.Store(&topics{n.meta.Image()})
	n.ofGroups.Store(n.groupIntervals(n.meta.Image()))
	return group.New(group.Options{
		Store: coordinatorStore{n.state.Space(state.SpaceCoordinator)},
		Cluster: consumer.Cluster{
			Topics:    func() consumer.Topics { return n.topics.Load() },
			Intervals: func(group string) consumer.Intervals { return n.ofGroups.Load().of(group) },
		},
		Logger: n.logger, Registerer: n.deps.Registry, Config: n.config.Groups,
	})
}

// groupIntervals are the intervals of all groups as of an image.
type groupIntervals struct {
	broker consumer.Intervals
	own    map[string]consumer.Intervals // of groups with settings of their own
}

func (g *groupIntervals) of(group string) consumer.Intervals {
	if own, ok := g.own[group]; ok {
		return own
	}
	return g.broker
}

func (n *Node) groupIntervals(img *image.Image) *groupIntervals {
	bounds := n.config.GroupIntervals
	all := &groupIntervals{broker: bounds.Default, own: map[string]consumer.Intervals{}}
	all.broker.Assignment = n.liveAt(img).assignmentInterval
	for _, name := range img.GroupConfigNames() {
		settings, own := img.GroupConfig(name), all.broker
		for _, one := range []struct {
			name          string
			interval      *time.Duration
			lowest, limit time.Duration
		}{
			{"consumer.session.timeout.ms", &own.Session, bounds.Min.Session, bounds.Max.Session},
			{"consumer.heartbeat.interval.ms", &own.Heartbeat, bounds.Min.Heartbeat, bounds.Max.Heartbeat},
			{"consumer.assignment.interval.ms", &own.Assignment, bounds.Min.Assignment, bounds.Max.Assignment},
		} {
			value, ok := settings[one.name]
			if !ok {
				continue
			}
			if err := takeMilliseconds(one.interval, value); err != nil { // as in liveAt
				n.logger.Error("a setting does not fit any more and is passed over", "group", name, "setting", one.name,
					"err", err)
				continue
			}
			// It was within the bounds when it was set; they may have changed since, and go before it, as in Kafka.
			*one.interval = min(max(*one.interval, one.lowest), one.limit)
		}
		all.own[name] = own
	}
	return all
}

// applyGroupSettings takes over the settings of groups, and says which of them do nothing.
func (n *Node) applyGroupSettings(img *image.Image, delta image.Delta) {
	ofBroker := func(changed image.ConfigResource) bool { return !changed.Topic }
	if !delta.Reset && len(delta.GroupConfigsChanged) == 0 && !slices.ContainsFunc(delta.ConfigsChanged, ofBroker) {
		return
	}
	n.ofGroups.Store(n.groupIntervals(img))
	for _, name := range delta.GroupConfigsChanged {
		var idle []string
		for _, setting := range slices.Sorted(maps.Keys(img.GroupConfig(name))) {
			if known, _ := config.LookupGroup(setting); known.Effect != config.Acts {
				idle = append(idle, setting)
			}
		}
		if len(idle) > 0 {
			n.logger.Info("a group has settings that do not act here", "group", name, "settings", idle)
		}
	}
}

// topics are the topics of an image as groups see them: another one each time that topics or partitions change.
type topics struct{ image *image.Image }

// Named implements consumer.Topics.
func (t *topics) Named(name string) (consumer.Topic, bool) { return topicOf(t.image.Topic(name)) }

// WithID implements consumer.Topics.
func (t *topics) WithID(id kafka.TopicID) (consumer.Topic, bool) {
	return topicOf(t.image.TopicByID(id))
}

// Names implements consumer.Topics.
func (t *topics) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for topic := range t.image.Topics() {
			if !yield(topic.Name) {
				return
			}
		}
	}
}

func topicOf(topic *image.Topic, exists bool) (consumer.Topic, bool) {
	if !exists {
		return consumer.Topic{}, false
	}
	return consumer.Topic{ID: topic.ID, Name: topic.Name, Partitions: int32(len(topic.Partitions))}, true
}
