package assignor

import (
	"cmp"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
)

// The names of the assignors, as clients (group.remote.assignor) and settings (group.consumer.assignors) say them.
const (
	UniformName = "uniform"
	RangeName   = "range"
)

// Func computes an assignment: by member id, what each member is to read. Every partition of a topic that somebody
// subscribes to is given to exactly one of its subscribers; members that get nothing are present with nothing.
type Func func(Group) map[string]Assignment

// Named returns an assignor; false if there is none of that name.
func Named(name string) (Func, bool) {
	switch name {
	case UniformName:
		return Uniform, true
	case RangeName:
		return Range, true
	}
	return nil, false
}

// Assignment holds partitions by topic, ascending. A topic without partitions is not in it.
type Assignment map[kafka.TopicID][]int32

// Group is what is to be assigned, and to whom.
type Group struct {
	Members []Member // in any order
	// Topics has the number of partitions of each topic that a member subscribes to.
	Topics map[kafka.TopicID]int32
}

// Member is what an assignor knows of a member.
type Member struct {
	ID         string
	InstanceID string // of a static member; empty otherwise
	// Topics are the subscribed topics in any order, each once. Those that Group.Topics does not have do not exist.
	Topics []kafka.TopicID
	// Current is what the member was to read before: what a sticky assignor leaves it if it can.
	Current Assignment
}

// Equal tells whether two assignments hold the same partitions.
func (a Assignment) Equal(b Assignment) bool {
	if len(a) != len(b) {
		return false
	}
	for topic, partitions := range a {
		if !slices.Equal(partitions, b[topic]) {
			return false
		}
	}
	return true
}

// Size is the number of partitions.
func (a Assignment) Size() int {
	size := 0
	for _, partitions := range a {
		size += len(partitions)
	}
	return size
}

func compareTopics(a, b kafka.TopicID) int { return slices.Compare(a[:], b[:]) }

func compareMembers(a, b Member) int { return cmp.Compare(a.ID, b.ID) }

// subscribers lists the members of each existing topic by their place in members.
func subscribers(members []Member, topics map[kafka.TopicID]int32) map[kafka.TopicID][]int {
	byTopic := make(map[kafka.TopicID][]int, len(topics))
	for i := range members {
		for _, topic := range members[i].Topics {
			if _, exists := topics[topic]; exists {
				byTopic[topic] = append(byTopic[topic], i)
			}
		}
	}
	return byTopic
}
