package image

import "github.com/firnlog/firn/internal/kafka"

// ConfigResource names what a setting belongs to: a topic by its name, or a broker ("" is the default of all).
type ConfigResource struct {
	Topic bool
	Name  string
}

// Delta says what one command changed. A watcher that was told of every image up to the previous one finds here all
// that is new; after a Reset it has to compare the whole image with what it has.
type Delta struct {
	Index uint64
	// Reset: the image was loaded, at the start or from a snapshot, and anything may differ. The lists are empty.
	Reset bool

	TopicsCreated     []*Topic
	TopicsDeleted     []*Topic                 // as they were before
	PartitionsChanged []kafka.TopicIDPartition // new (of new topics, too), or another leader, epoch, replicas or ISR
	ConfigsChanged    []ConfigResource
	// GroupConfigsChanged are the groups that got other settings: nobody but the group coordinator cares.
	GroupConfigsChanged []string
	TierChanged         []kafka.TopicIDPartition
	BrokersChanged      []kafka.BrokerID
	ControllerChanged   bool
}

// Empty tells whether nothing changed that a watcher could care about.
func (d *Delta) Empty() bool {
	return !d.Reset && !d.ControllerChanged &&
		len(d.TopicsCreated) == 0 && len(d.TopicsDeleted) == 0 && len(d.PartitionsChanged) == 0 &&
		len(d.ConfigsChanged) == 0 && len(d.GroupConfigsChanged) == 0 && len(d.TierChanged) == 0 &&
		len(d.BrokersChanged) == 0
}
