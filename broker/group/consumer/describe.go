package consumer

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/assignor"
)

// The types of members in ConsumerGroupDescribe.
const (
	classicMember  int8 = 0
	consumerMember int8 = 1
)

// Describe is what ConsumerGroupDescribe answers. Partitions of topics that are deleted are left out: they have no
// name.
func (g *Group) Describe() kmsg.ConsumerGroupDescribeResponseGroup {
	topics := g.topics()
	description := kmsg.NewConsumerGroupDescribeResponseGroup()
	description.Group, description.State, description.AssignorName = g.id, g.state(), g.assignorName()
	description.Epoch, description.AssignmentEpoch = g.epoch, g.targetEpoch
	for _, id := range sortedKeys(g.members) {
		m := g.members[id]
		described := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		described.MemberID, described.MemberEpoch = m.id, m.epoch
		described.InstanceID, described.RackID = m.subscription.InstanceID, m.subscription.RackID
		described.ClientID, described.ClientHost = m.subscription.ClientID, m.subscription.ClientHost
		described.SubscribedTopics, described.SubscribedTopicRegex = m.subscription.Topics, m.subscription.Regex
		described.Assignment = named(topics, m.assigned.assignment())
		described.TargetAssignment = named(topics, g.target[id])
		described.MemberType = consumerMember
		if m.classic() {
			described.MemberType = classicMember
		}
		description.Members = append(description.Members, described)
	}
	return description
}

func named(topics Topics, a assignor.Assignment) kmsg.Assignment {
	var described kmsg.Assignment
	for _, id := range sortedTopics(a) {
		if topic, ok := topics.WithID(id); ok {
			described.TopicPartitions = append(described.TopicPartitions, kmsg.AssignmentTopicPartition{
				TopicID: id, Topic: topic.Name, Partitions: a[id],
			})
		}
	}
	return described
}

// assignment is the partitions without their epochs.
func (p partitions) assignment() assignor.Assignment {
	a := assignor.Assignment{}
	for _, one := range p.list() {
		a[one.TopicID] = one.Partitions
	}
	return a
}
