package assignor

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
)

// Ranges of topics with equally many partitions are the same, and those of static members outlive their member ids.
func TestRangeCoPartitionsAndKeepsStaticMembersInTheirPlaces(t *testing.T) {
	topics := []kafka.TopicID{topicID(1), topicID(2)}
	group := Group{
		Topics: map[kafka.TopicID]int32{topics[0]: 3, topics[1]: 3},
		Members: []Member{
			{ID: "a", Topics: topics}, {ID: "z", InstanceID: "i1", Topics: topics},
		},
	}
	want := map[string]Assignment{
		"z": {topics[0]: {0, 1}, topics[1]: {0, 1}},
		"a": {topics[0]: {2}, topics[1]: {2}},
	}
	if diff := cmp.Diff(want, Range(group)); diff != "" {
		t.Error(diff)
	}
	group.Members[1].ID, want["k"] = "k", want["z"]
	delete(want, "z")
	if diff := cmp.Diff(want, Range(group)); diff != "" {
		t.Error(diff)
	}
}

func TestAssignorsHaveNames(t *testing.T) {
	for _, name := range []string{UniformName, RangeName} {
		if _, ok := Named(name); !ok {
			t.Errorf("there is no assignor %q", name)
		}
	}
	if _, ok := Named("sticky"); ok {
		t.Error("there is an assignor nobody has heard of")
	}
}

func BenchmarkUniform(b *testing.B) {
	for _, alike := range []bool{true, false} {
		b.Run(fmt.Sprintf("alike=%v", alike), func(b *testing.B) {
			group := Group{Topics: map[kafka.TopicID]int32{}}
			for n := range 100 {
				group.Topics[topicID(n)] = 100
			}
			for n := range 1000 {
				member := Member{ID: fmt.Sprintf("m%04d", n)}
				for topic := range 100 {
					if alike || (topic+n)%3 > 0 {
						member.Topics = append(member.Topics, topicID(topic))
					}
				}
				group.Members = append(group.Members, member)
			}
			b.ReportAllocs()
			for b.Loop() {
				Uniform(group)
			}
		})
	}
}
