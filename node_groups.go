package firn

import (
	"iter"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// newGroups makes the coordinator of the groups whose journals this broker leads.
func (n *Node) newGroups() *group.Coordinator {
	n.topics.Store(&topics{n.meta.Image()})
	return group.New(group.Options{
		Store:  coordinatorStore{n.state.Space(state.SpaceCoordinator)},
		Topics: func() consumer.Topics { return n.topics.Load() },
		Logger: n.logger, Registerer: n.deps.Registry, Config: n.config.Groups,
	})
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
