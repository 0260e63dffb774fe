package image

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
)

func topic(name string, partitions int) *Topic {
	t := &Topic{Name: name, Partitions: make([]Partition, partitions)}
	copy(t.ID[:], name)
	return t
}

func TestTopicNames(t *testing.T) {
	for name, legal := range map[string]bool{
		"flights":                               true,
		"a":                                     true,
		"a.b_c-D9":                              true,
		"...":                                   true,
		"__consumer_offsets":                    true,
		strings.Repeat("x", MaxTopicNameLength): true,

		"":       false,
		".":      false,
		"..":     false,
		"a b":    false,
		"a/b":    false,
		"\u00e4": false,
		"a\x00":  false,
		"a:b":    false,
		strings.Repeat("x", MaxTopicNameLength+1): false,
	} {
		err := CheckTopicName(name)
		if (err == nil) != legal {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && kafka.CodeOf(err) != kafka.InvalidTopic {
			t.Errorf("%q is refused with code %d", name, kafka.CodeOf(err))
		}
	}
}

func TestALookUpOfANameThatNoTopicCanHaveFindsNothing(t *testing.T) {
	img := Empty().WithTopic(topic("flights", 1))
	for _, name := range []string{"", strings.Repeat("x", 10_000), "flight", "flightss", "\xff"} {
		if found, ok := img.Topic(name); ok {
			t.Errorf("%q finds %q", name, found.Name)
		}
	}
}

func TestME01NamesThatDifferOnlyByDotAndUnderscoreCollide(t *testing.T) {
	img := Empty().WithTopic(topic("a.b_c", 1))
	for _, name := range []string{"a_b_c", "a.b.c", "a_b.c"} {
		err := img.CheckNewTopicName(name)
		if !errors.Is(err, kafka.InvalidTopic) || !strings.Contains(err.Error(), `"a.b_c"`) {
			t.Errorf("%q: %v", name, err)
		}
		if _, found := img.Topic(name); found {
			t.Errorf("%q is found under another topic's name", name)
		}
	}
	if err := img.CheckNewTopicName("a.b_c"); !errors.Is(err, kafka.TopicAlreadyExists) {
		t.Errorf("the same name: %v", err)
	}
	existing, _ := img.Topic("a.b_c")
	if err := img.WithoutTopic(existing).CheckNewTopicName("a_b_c"); err != nil {
		t.Errorf("after the other one is deleted: %v", err)
	}
}

func TestAnImageDoesNotChangeWhenTheNextIsMade(t *testing.T) {
	first := Empty().WithTopic(topic("a", 2)).WithTopic(topic("b", 1)).WithBroker(&Broker{ID: 2})
	a, _ := first.Topic("a")
	b, _ := first.Topic("b")
	next := first.
		WithTier(kafka.TopicIDPartition{ID: a.ID, Partition: 1}, &TierState{Start: 5, End: 5, Version: 1}).
		WithBroker(&Broker{ID: 1}).
		WithBroker(&Broker{ID: 2, Epoch: 9}).
		WithBrokerConfig("", map[string]string{"x": "y"}).
		WithGroupConfig("", map[string]string{"u": "v"}).
		WithTopic(topic("c", 1)).
		WithoutTopic(b)

	if a.Partitions[1].Tier != nil || first.TopicCount() != 2 || len(first.Brokers) != 1 || first.Brokers[0].Epoch != 0 ||
		first.BrokerConfig("") != nil || first.GroupConfig("") != nil {
		t.Errorf("the first image has changed: %+v", first)
	}
	nextA, _ := next.Topic("a")
	if nextA == a || nextA.Partitions[1].Tier.Start != 5 {
		t.Errorf("the changed topic is %+v", nextA)
	}
	if byID, _ := next.TopicByID(a.ID); byID != nextA {
		t.Error("name and id find different topics")
	}
	if _, found := next.TopicByID(b.ID); found {
		t.Error("the removed topic is still found by its id")
	}
	var ids []kafka.BrokerID
	for _, broker := range next.Brokers {
		ids = append(ids, broker.ID)
	}
	if diff := cmp.Diff([]kafka.BrokerID{1, 2}, ids); diff != "" {
		t.Errorf("brokers are not in order: %s", diff)
	}
	if broker, found := next.Broker(2); !found || broker.Epoch != 9 {
		t.Errorf("broker 2 is %+v", broker)
	}
	if _, found := next.Broker(3); found {
		t.Error("a broker is found that nobody registered")
	}
	if next.BrokerConfig("")["x"] != "y" || next.GroupConfig("")["u"] != "v" {
		t.Errorf("settings of a broker and of a group: %v and %v", next.BrokerConfig(""), next.GroupConfig(""))
	}
	none := next.WithBrokerConfig("", nil).WithGroupConfig("", nil)
	if none.BrokerConfig("") != nil || len(none.BrokerConfigNames())+len(none.GroupConfigNames()) != 0 {
		t.Error("settings cannot be removed")
	}
}

func TestAnUntouchedTopicKeepsItsPointer(t *testing.T) {
	img := Empty().WithTopic(topic("a", 1)).WithTopic(topic("b", 1))
	before, _ := img.Topic("a")
	b, _ := img.Topic("b")
	after, _ := img.WithTopic(b.WithConfigs(map[string]string{"k": "v"})).Topic("a")
	if before != after {
		t.Error("topic a was copied although only b changed")
	}
}

func TestPartitionsAreFoundByNameAndId(t *testing.T) {
	a := topic("a", 2)
	a.Partitions[1] = Partition{
		Replicas: []kafka.BrokerID{4, 5}, Directories: []kafka.UUID{{1}, {2}}, Leader: 5,
	}
	img := Empty().WithTopic(a)
	byName, _ := img.Partition(kafka.TopicPartition{Topic: "a", Partition: 1})
	byID, _ := img.PartitionByID(kafka.TopicIDPartition{ID: a.ID, Partition: 1})
	if byName == nil || byName != byID || byName.Leader != 5 {
		t.Errorf("by name %+v, by id %+v", byName, byID)
	}
	for _, partition := range []int32{-1, 2} {
		if _, found := img.Partition(kafka.TopicPartition{Topic: "a", Partition: partition}); found {
			t.Errorf("partition %d of two is found", partition)
		}
	}
	if byName.Directory(5) != (kafka.UUID{2}) || !byName.Directory(6).IsZero() {
		t.Error("the directory of a replica is wrong")
	}
}

func TestTheOriginOfAnObjectIsTheClusterThatWroteIt(t *testing.T) {
	own, first := kafka.UUID{9}, kafka.UUID{1}
	plain, restored := topic("a", 1), topic("b", 1)
	restored.Origins = []kafka.UUID{first, own}
	if plain.Origin() != 0 || plain.OriginID(own, 0) != own {
		t.Errorf("a topic of this cluster alone writes as origin %d, of %s", plain.Origin(), plain.OriginID(own, 0))
	}
	if restored.Origin() != 1 || restored.OriginID(own, 0) != first || restored.OriginID(own, 1) != own {
		t.Errorf("a restored topic writes as origin %d of %v", restored.Origin(), restored.Origins)
	}
}

func TestLookUpsDoNotAllocate(t *testing.T) {
	img := Empty()
	for i := range 1000 {
		img = img.WithTopic(topic(fmt.Sprintf("topic.%d_x", i), 1))
	}
	id := topic("topic.500_x", 1).ID
	allocated := testing.AllocsPerRun(100, func() {
		_, byName := img.Partition(kafka.TopicPartition{Topic: "topic.500_x"})
		_, byID := img.PartitionByID(kafka.TopicIDPartition{ID: id})
		if !byName || !byID {
			t.Fatal("not found")
		}
	})
	if allocated != 0 {
		t.Errorf("%v allocations for two look-ups", allocated)
	}
}

// BenchmarkCreateTopic shows that one more topic costs the same whether there are few or many.
func BenchmarkCreateTopic(b *testing.B) {
	for _, existing := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("beside %d", existing), func(b *testing.B) {
			img := Empty()
			for i := range existing {
				img = img.WithTopic(topic(fmt.Sprintf("topic-%d", i), 1))
			}
			added := topic("added", 1)
			b.ReportAllocs()
			for b.Loop() {
				_ = img.WithTopic(added)
			}
		})
	}
}
