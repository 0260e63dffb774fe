package assignor

import (
	"cmp"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
)

// Uniform balances the number of partitions of the members, and moves no more of them than that needs. If all members
// subscribe to the same topics, any two of them differ by one partition at most, and no member loses a partition that
// it could have kept. If not, no partition could go from its member to another subscriber of its topic that has at
// least two fewer, unless that would take more than maxRounds rounds.
func Uniform(group Group) map[string]Assignment {
	b := newBalance(group)
	alike := b.alike()
	if alike {
		b.shrinkToQuota()
	}
	b.handOut()
	if !alike {
		b.even()
	}
	return b.result()
}

// maxRounds bounds the rounds over all topics in which partitions are moved. Where the subscribers of each topic
// subscribe to the same topics one round is enough; overlapping subscriptions get closer to balance with each.
const maxRounds = 16

// balance is an assignment in the making. Members are known by their place, in the order of their ids.
type balance struct {
	members     []Member
	loads       []int // partitions of each member
	topics      []kafka.TopicID
	owners      map[kafka.TopicID][]int // by partition; -1: nobody yet
	subscribers map[kafka.TopicID][]int
}

// newBalance gives the members what they have and may keep.
func newBalance(group Group) *balance {
	b := &balance{
		members: slices.SortedFunc(slices.Values(group.Members), compareMembers),
		owners:  make(map[kafka.TopicID][]int, len(group.Topics)),
	}
	b.loads = make([]int, len(b.members))
	b.subscribers = subscribers(b.members, group.Topics)
	for topic := range b.subscribers {
		b.topics = append(b.topics, topic)
		b.owners[topic] = slices.Repeat([]int{-1}, int(group.Topics[topic]))
	}
	slices.SortFunc(b.topics, b.compareTopics)
	for topic, subscribed := range b.subscribers {
		for _, place := range subscribed {
			for _, partition := range b.members[place].Current[topic] {
				if owners := b.owners[topic]; int(partition) < len(owners) && owners[partition] < 0 {
					b.give(topic, int(partition), place)
				}
			}
		}
	}
	return b
}

// compareTopics puts those first that leave the least choice: most partitions for a subscriber, fewest subscribers.
func (b *balance) compareTopics(x, y kafka.TopicID) int {
	xs, ys := len(b.subscribers[x]), len(b.subscribers[y])
	return cmp.Or(
		cmp.Compare(len(b.owners[y])*xs, len(b.owners[x])*ys),
		cmp.Compare(xs, ys),
		compareTopics(x, y),
	)
}

func (b *balance) give(topic kafka.TopicID, partition, to int) {
	if from := b.owners[topic][partition]; from >= 0 {
		b.loads[from]--
	}
	b.owners[topic][partition] = to
	b.loads[to]++
}

// alike tells whether all members subscribe to all topics.
func (b *balance) alike() bool {
	for _, subscribed := range b.subscribers {
		if len(subscribed) != len(b.members) {
			return false
		}
	}
	return true
}

// shrinkToQuota takes from the members what is more than their share. What does not divide evenly stays with the first
// members that have that much, so that nobody loses a partition while another one, who has fewer, gains one for it.
func (b *balance) shrinkToQuota() {
	total := 0
	for _, owners := range b.owners {
		total += len(owners)
	}
	excess := make([]int, len(b.members))
	quota, extra := total/max(len(b.members), 1), total%max(len(b.members), 1)
	for place, load := range b.loads {
		if load > quota && extra > 0 {
			load, extra = load-1, extra-1
		}
		excess[place] = max(load-quota, 0)
	}
	// From the last partitions of the last topics, whose places in the order are as good as any others.
	for _, topic := range slices.Backward(b.topics) {
		for partition, owner := range slices.Backward(b.owners[topic]) {
			if owner >= 0 && excess[owner] > 0 {
				excess[owner]--
				b.loads[owner]--
				b.owners[topic][partition] = -1
			}
		}
	}
}

// handOut gives each partition that nobody has to the subscriber that has the fewest.
func (b *balance) handOut() {
	for _, topic := range b.topics {
		waiting := byLoad{loads: b.loads, places: slices.Clone(b.subscribers[topic])}
		waiting.init()
		for partition, owner := range b.owners[topic] {
			if owner < 0 {
				b.give(topic, partition, waiting.first())
				waiting.fix()
			}
		}
	}
}

// even moves partitions from members with many to subscribers of the same topic with at least two fewer.
func (b *balance) even() {
	for range maxRounds {
		moved := false
		for _, topic := range b.topics {
			moved = b.evenTopic(topic) || moved
		}
		if !moved {
			return
		}
	}
}

func (b *balance) evenTopic(topic kafka.TopicID) bool {
	least := byLoad{loads: b.loads, places: slices.Clone(b.subscribers[topic])}
	moved := false
	for {
		least.init()
		to, partition := least.first(), b.heaviest(topic)
		if partition < 0 || b.loads[b.owners[topic][partition]] < b.loads[to]+2 {
			return moved
		}
		b.give(topic, partition, to)
		moved = true
	}
}

// heaviest is the last partition of the member with the most partitions among those that own one of the topic; -1 if
// there is none.
func (b *balance) heaviest(topic kafka.TopicID) int {
	owners, found := b.owners[topic], -1
	for partition, owner := range owners {
		if found < 0 || b.loads[owner] >= b.loads[owners[found]] {
			found = partition
		}
	}
	return found
}

func (b *balance) result() map[string]Assignment {
	result := make(map[string]Assignment, len(b.members))
	for _, member := range b.members {
		result[member.ID] = Assignment{}
	}
	for topic, owners := range b.owners {
		for partition, owner := range owners {
			of := result[b.members[owner].ID]
			of[topic] = append(of[topic], int32(partition))
		}
	}
	return result
}

// byLoad is a binary heap of members, the one with the fewest partitions first, of equal ones the first in the order.
type byLoad struct {
	loads  []int
	places []int
}

func (h byLoad) first() int { return h.places[0] }

func (h byLoad) init() {
	for i := len(h.places)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// fix puts the first into its place after its load has grown.
func (h byLoad) fix() { h.down(0) }

func (h byLoad) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.places) {
			return
		}
		if child+1 < len(h.places) && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return
		}
		h.places[i], h.places[child] = h.places[child], h.places[i]
		i = child
	}
}

func (h byLoad) less(i, j int) bool {
	a, b := h.places[i], h.places[j]
	return h.loads[a] < h.loads[b] || h.loads[a] == h.loads[b] && a < b
}
