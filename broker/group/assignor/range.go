package assignor

import (
	"cmp"
	"slices"
)

// Range gives the subscribers of each topic contiguous ranges of its partitions, as equal as can be, the first
// subscribers one more. Since the order of members is the same for every topic, topics with equally many partitions and
// the same subscribers are co-partitioned: a member has the same numbers of all of them, as joins need. Static members
// come first, by instance id, so that they keep their ranges when they come back under new member ids.
func Range(group Group) map[string]Assignment {
	members := slices.SortedFunc(slices.Values(group.Members), func(a, b Member) int {
		switch {
		case a.InstanceID != "" && b.InstanceID != "":
			return cmp.Compare(a.InstanceID, b.InstanceID)
		case a.InstanceID != "":
			return -1
		case b.InstanceID != "":
			return 1
		}
		return compareMembers(a, b)
	})
	result := make(map[string]Assignment, len(members))
	for _, member := range members {
		result[member.ID] = Assignment{}
	}
	for topic, subscribed := range subscribers(members, group.Topics) {
		partitions, next := group.Topics[topic], int32(0)
		quota, extra := partitions/int32(len(subscribed)), partitions%int32(len(subscribed))
		for i, place := range subscribed {
			end := next + quota
			if int32(i) < extra {
				end++
			}
			if end > next {
				result[members[place].ID][topic] = numbers(next, end)
			}
			next = end
		}
	}
	return result
}

// numbers lists [start, end).
func numbers(start, end int32) []int32 {
	list := make([]int32, 0, end-start)
	for n := start; n < end; n++ {
		list = append(list, n)
	}
	return list
}
