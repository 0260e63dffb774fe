package assignor

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/internal/kafka"
)

func topicID(n int) kafka.TopicID { return kafka.TopicID{byte(n)} }

// drawGroup draws a group. If alike is set all members subscribe to all topics.
func drawGroup(t *rapid.T, alike bool) Group {
	group := Group{Topics: map[kafka.TopicID]int32{}}
	topics := rapid.IntRange(1, 5).Draw(t, "topics")
	for n := range topics {
		group.Topics[topicID(n)] = rapid.Int32Range(1, 9).Draw(t, "partitions")
	}
	for n := range rapid.IntRange(1, 7).Draw(t, "members") {
		member := Member{ID: fmt.Sprintf("m%d", n)}
		if rapid.Bool().Draw(t, "static") {
			member.InstanceID = fmt.Sprintf("i%d", 100-n)
		}
		for topic := range topics + 1 { // the last one does not exist
			if alike || rapid.Bool().Draw(t, "subscribes") {
				member.Topics = append(member.Topics, topicID(topic))
			}
		}
		group.Members = append(group.Members, member)
	}
	return group
}

// drawCurrent gives the members what they may have had: any partitions, each to one at most.
func drawCurrent(t *rapid.T, group *Group) {
	for i := range group.Members {
		group.Members[i].Current = Assignment{}
	}
	for _, topic := range slices.SortedFunc(maps.Keys(group.Topics), compareTopics) {
		for partition := range group.Topics[topic] + 1 { // the last one does not exist any more
			if i := rapid.IntRange(-1, len(group.Members)-1).Draw(t, "owner"); i >= 0 {
				current := group.Members[i].Current
				current[topic] = append(current[topic], partition)
			}
		}
	}
}

// checkComplete makes sure that each partition with subscribers is given to just one of them.
func checkComplete(t *rapid.T, group Group, result map[string]Assignment) {
	owners := map[kafka.TopicIDPartition]string{}
	for _, member := range group.Members {
		assigned, ok := result[member.ID]
		if !ok {
			t.Fatalf("member %s is missing", member.ID)
		}
		for topic, partitions := range assigned {
			if !slices.Contains(member.Topics, topic) {
				t.Fatalf("member %s does not subscribe to %v", member.ID, topic)
			}
			if len(partitions) == 0 || !slices.IsSorted(partitions) {
				t.Fatalf("partitions %v of member %s", partitions, member.ID)
			}
			for _, partition := range partitions {
				tp := kafka.TopicIDPartition{ID: topic, Partition: partition}
				if owner, taken := owners[tp]; taken || partition < 0 || partition >= group.Topics[topic] {
					t.Fatalf("%v is given to %s, and to %q", tp, member.ID, owner)
				}
				owners[tp] = member.ID
			}
		}
	}
	want := 0
	for topic := range subscribers(group.Members, group.Topics) {
		want += int(group.Topics[topic])
	}
	if len(owners) != want {
		t.Fatalf("%d of %d partitions are given to somebody", len(owners), want)
	}
}

// checkOrder makes sure that the order of the members does not matter.
func checkOrder(t *rapid.T, assign Func, group Group, result map[string]Assignment) {
	group.Members = rapid.Permutation(group.Members).Draw(t, "order")
	for id, assigned := range assign(group) {
		if !assigned.Equal(result[id]) {
			t.Fatalf("member %s has %v in another order, not %v", id, assigned, result[id])
		}
	}
}

// kept counts the partitions that are where they were.
func kept(group Group, result map[string]Assignment) int {
	count := 0
	for _, member := range group.Members {
		for topic, partitions := range member.Current {
			for _, partition := range partitions {
				if slices.Contains(result[member.ID][topic], partition) {
					count++
				}
			}
		}
	}
	return count
}

func TestUniformBalancesAndMovesNoMoreThanItHasTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := drawGroup(t, true)
		drawCurrent(t, &group)
		result := Uniform(group)
		checkComplete(t, group, result)
		checkOrder(t, Uniform, group, result)

		total := 0
		for _, partitions := range group.Topics {
			total += int(partitions)
		}
		quota, extra, want := total/len(group.Members), total%len(group.Members), 0
		for _, member := range group.Members {
			if size := result[member.ID].Size(); size < quota || size > quota+1 {
				t.Fatalf("member %s has %d partitions, not %d or one more", member.ID, size, quota)
			}
			had := 0
			for topic, partitions := range member.Current {
				for _, partition := range partitions {
					if partition < group.Topics[topic] {
						had++
					}
				}
			}
			if had > quota && extra > 0 {
				had, extra = had-1, extra-1
				want++
			}
			want += min(had, quota)
		}
		if got := kept(group, result); got != want {
			t.Fatalf("%d partitions are where they were, %d could be", got, want)
		}
	})
}

func TestUniformWithUnlikeSubscriptionsLeavesNothingToEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := drawGroup(t, false)
		drawCurrent(t, &group)
		result := Uniform(group)
		checkComplete(t, group, result)
		checkOrder(t, Uniform, group, result)
		for _, from := range group.Members {
			for _, to := range group.Members {
				for topic := range result[from.ID] {
					if slices.Contains(to.Topics, topic) && result[from.ID].Size() > result[to.ID].Size()+1 {
						t.Fatalf("a partition of %v should go from %s with %v to %s with %v", topic,
							from.ID, result[from.ID], to.ID, result[to.ID])
					}
				}
			}
		}
		// What was assigned is good: assigned again nothing moves.
		for i, member := range group.Members {
			group.Members[i].Current = result[member.ID]
		}
		if again := Uniform(group); kept(group, again) != kept(group, result) {
			t.Fatalf("%v becomes %v with no reason", result, again)
		}
	})
}

func TestRangeGivesContiguousRangesInOneOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := drawGroup(t, rapid.Bool().Draw(t, "alike"))
		result := Range(group)
		checkComplete(t, group, result)
		checkOrder(t, Range, group, result)
		for topic, subscribed := range subscribers(group.Members, group.Topics) {
			quota := group.Topics[topic] / int32(len(subscribed))
			for _, place := range subscribed {
				partitions := result[group.Members[place].ID][topic]
				if size := int32(len(partitions)); size < quota || size > quota+1 {
					t.Fatalf("%v for each of %d, but %v", group.Topics[topic], len(subscribed), partitions)
				}
				if n := len(partitions); n > 0 && partitions[n-1]-partitions[0] != int32(n-1) {
					t.Fatalf("%v is no range", partitions)
				}
			}
		}
	})
}
