//go:build integration

package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// topicCases make, change and delete topics.
func topicCases() []testCase {
	return []testCase{
		{key: wire.KeyCreateTopics, name: "good ones", run: askCreate},
		{key: wire.KeyCreateTopics, name: "bad ones", run: askCreateBad},
		{key: wire.KeyCreateTopics, name: "settings", run: askCreateSettings},
		{key: wire.KeyCreateTopics, name: "assignments", run: askCreateAssignments},
		{key: wire.KeyCreateTopics, name: "several at once", run: askCreateSeveral},
		{key: wire.KeyDeleteTopics, name: "by name", to: 5, run: askDeleteByName},
		{key: wire.KeyDeleteTopics, name: "by name and id", from: 6, run: askDeleteByID},
		{key: wire.KeyCreatePartitions, name: "good and bad", run: askCreatePartitions},
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (s *script) askCreate(step string, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly, req.TimeoutMillis = topics, validateOnly, 10_000
	resp, _ := s.ask(step, req).(*kmsg.CreateTopicsResponse)
	if resp == nil {
		return
	}
	for i := range resp.Topics {
		if !validateOnly && resp.Topics[i].ErrorCode == 0 && s.version >= 7 {
			s.peer.topics[resp.Topics[i].Topic] = resp.Topics[i].TopicID
		}
	}
}

func askCreate(s *script) {
	s.askCreate("only validated", true, newTopic(s.topic("a"), 2, 1))
	s.askCreate("created", false, newTopic(s.topic("a"), 2, 1))
	s.askCreate("once more", false, newTopic(s.topic("a"), 2, 1))
	s.askCreate("once more, only validated", true, newTopic(s.topic("a"), 2, 1))
	s.askCreate("default partitions and replicas", false, newTopic(s.topic("b"), -1, -1))
	s.await(s.topic("a"), 2)
	s.await(s.topic("b"), 1)
	s.askCreate("the longest name", false, newTopic(s.topic(strings.Repeat("x", 249-len(s.topic("")))), 1, 1))
	s.askCreate("none", false)
}

func askCreateBad(s *script) {
	for _, what := range sortedKeys(illegalNames()) {
		s.askCreate("illegal name: "+what, false, newTopic(illegalNames()[what], 1, 1))
	}
	s.askCreate("dots", false, newTopic(s.topic("a.b_c"), 1, 1))
	s.askCreate("a name that collides", false, newTopic(s.topic("a_b.c"), 1, 1))
	for _, replicas := range []int16{0, 2, -2} {
		s.askCreate(fmt.Sprintf("%d replicas", replicas), false, newTopic(s.topic("r"), 1, replicas))
	}
	for _, partitions := range []int32{0, -2} {
		s.askCreate(fmt.Sprintf("%d partitions", partitions), false, newTopic(s.topic("p"), partitions, 1))
	}
	s.askCreate("as many partitions as one request may add", true, newTopic(s.topic("p"), 10_000, 1))
	s.askCreate("too many partitions", true, newTopic(s.topic("p"), 10_001, 1))
	s.askCreate("an internal topic", true, newTopic("__consumer_offsets", 1, 1))
	s.askCreate("the metadata topic", true, newTopic("__cluster_metadata", 1, 1))
}

func withSettings(name string, settings ...kmsg.CreateTopicsRequestTopicConfig) kmsg.CreateTopicsRequestTopic {
	topic := newTopic(name, 1, 1)
	topic.Configs = settings
	return topic
}

// badSettings are settings that no topic takes.
func badSettings() []kmsg.CreateTopicsRequestTopicConfig {
	return []kmsg.CreateTopicsRequestTopicConfig{
		setting("no.such.setting", "1"), setting("", "1"), setting("retention.ms", "soon"), setting("retention.ms", ""),
		setting("retention.ms", "-2"), setting("cleanup.policy", "burn"), setting("cleanup.policy", ""),
		setting("cleanup.policy", "delete,delete"), setting("cleanup.policy", "compact, delete"),
		setting("segment.bytes", "13"), setting("segment.bytes", "1048575"), setting("segment.bytes", "9999999999"),
		setting("max.message.bytes", "-1"), setting("min.insync.replicas", "0"), setting("compression.type", "zip"),
		setting("message.timestamp.type", "never"), setting("unclean.leader.election.enable", "maybe"),
		setting("min.cleanable.dirty.ratio", "2"), setting("local.retention.ms", "-3"),
		setting("message.format.version", "2.0"), setting("message.timestamp.difference.max.ms", "1"),
		setting("compression.gzip.level", "0"), setting("compression.zstd.level", "23"),
		setting("leader.replication.throttled.replicas", "x"), setting("retention.ms", " 5 "),
		setting("message.downconversion.enable", "true"), setting("flush.messages", "0"), setting("index.interval.bytes", "-1"),
		setting("log.retention.ms", "1"), setting("remote.storage.enable", "perhaps"), setting("segment.ms", "0"),
		setting("message.timestamp.before.max.ms", "-1"), setting("max.compaction.lag.ms", "0"),
		setting("preallocate", "TRUE"), setting("retention.bytes", "1e3"), setting("file.delete.delay.ms", "-1"),
		setting("internal.segment.bytes", "100"), setting("errors.deadletterqueue.group.enable", "true"),
		setting("follower.replication.throttled.replicas", "0:1"), setting("segment.jitter.ms", "-1"),
	}
}

func askCreateSettings(s *script) {
	s.askCreate("good ones", false, withSettings(s.topic("a"), setting("retention.ms", "1000"),
		setting("cleanup.policy", "compact,delete"), setting("compression.type", "zstd"), setting("segment.bytes", "2000000")))
	s.await(s.topic("a"), 1)
	for i, bad := range badSettings() {
		s.askCreate(fmt.Sprintf("%s=%s", bad.Name, *bad.Value), true, withSettings(s.topic(fmt.Sprintf("b%d", i)), bad))
	}
	s.askCreate("without a value", true, withSettings(s.topic("c"), kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms"}))
	s.askCreate("one setting twice", true, withSettings(s.topic("d"), setting("retention.ms", "1"), setting("retention.ms", "2")))
	s.askCreate("local above total retention", true,
		withSettings(s.topic("e"), setting("retention.ms", "1"), setting("local.retention.ms", "2")))
	s.askCreate("compaction lags that do not fit", true,
		withSettings(s.topic("f"), setting("min.compaction.lag.ms", "10"), setting("max.compaction.lag.ms", "5")))
}

func askCreateAssignments(s *script) {
	assigned := func(name string, partitions int32, replicas int16, brokers map[int32][]int32) kmsg.CreateTopicsRequestTopic {
		topic := newTopic(s.topic(name), partitions, replicas)
		for _, partition := range slices.Sorted(maps.Keys(brokers)) {
			topic.ReplicaAssignment = append(topic.ReplicaAssignment,
				kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: partition, Replicas: brokers[partition]})
		}
		return topic
	}
	for _, c := range []struct {
		step       string
		partitions int32
		replicas   int16
		brokers    map[int32][]int32
	}{
		{"good", -1, -1, map[int32][]int32{0: {1}, 1: {1}}},
		{"with a number of partitions", 2, -1, map[int32][]int32{0: {1}, 1: {1}}},
		{"with a number of replicas", -1, 1, map[int32][]int32{0: {1}}},
		{"with a gap", -1, -1, map[int32][]int32{0: {1}, 2: {1}}},
		{"not from zero", -1, -1, map[int32][]int32{1: {1}}},
		{"negative", -1, -1, map[int32][]int32{-1: {1}}},
		{"a broker that does not exist", -1, -1, map[int32][]int32{0: {9}}},
		{"a broker twice", -1, -1, map[int32][]int32{0: {1, 1}}},
		{"no broker", -1, -1, map[int32][]int32{0: {}}},
		{"different numbers of replicas", -1, -1, map[int32][]int32{0: {1}, 1: {1, 2}}},
	} {
		s.askCreate(c.step, true, assigned("a", c.partitions, c.replicas, c.brokers))
	}
	twice := assigned("a", -1, -1, map[int32][]int32{0: {1}})
	twice.ReplicaAssignment = append(twice.ReplicaAssignment, twice.ReplicaAssignment[0])
	s.askCreate("a partition twice", true, twice)
}

func askCreateSeveral(s *script) {
	s.askCreate("one good and one bad", false, newTopic(s.topic("a"), 1, 1), newTopic("a/b", 1, 1))
	s.askCreate("the same twice", false, newTopic(s.topic("b"), 1, 1), newTopic(s.topic("b"), 1, 1))
	s.askCreate("the same thrice and another", false, newTopic(s.topic("c"), 1, 1), newTopic(s.topic("d"), 1, 1),
		newTopic(s.topic("c"), 2, 1), newTopic(s.topic("c"), 3, 1))
	s.askCreate("two that collide", false, newTopic(s.topic("e.f"), 1, 1), newTopic(s.topic("e_f"), 1, 1))
	remove := kmsg.NewPtrDeleteTopicsRequest() // what only one of the brokers made
	remove.TopicNames, remove.TimeoutMillis = []string{s.topic("e_f")}, 10_000
	quiet[*kmsg.DeleteTopicsResponse](s, remove, 5)
}

func askDeleteByName(s *script) {
	a, b, c := s.create("a"), s.create("b"), s.create("c")
	ask := func(step string, names ...string) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames, req.TimeoutMillis = names, 10_000
		s.ask(step, req)
	}
	ask("one", a)
	ask("once more", a)
	ask("one that exists and one that does not", b, s.topic("none"))
	ask("twice the same", c, c)
	ask("twice the same that does not exist", s.topic("none"), s.topic("none"))
	ask("an illegal name", "a/b")
	ask("none")
}

func askDeleteByID(s *script) {
	a, b, c, d := s.create("a"), s.create("b"), s.create("c"), s.create("d")
	name := func(name string) kmsg.DeleteTopicsRequestTopic { return kmsg.DeleteTopicsRequestTopic{Topic: &name} }
	id := func(id [16]byte) kmsg.DeleteTopicsRequestTopic { return kmsg.DeleteTopicsRequestTopic{TopicID: id} }
	ask := func(step string, topics ...kmsg.DeleteTopicsRequestTopic) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Topics, req.TimeoutMillis = topics, 10_000
		s.ask(step, req)
	}
	ask("by name", name(a))
	ask("by name once more", name(a))
	ask("by id", id(s.id(b)))
	ask("by id once more", id(s.id(b)))
	ask("an id that does not exist", id(strangerID))
	ask("zero id", id([16]byte{}))
	ask("twice the same id", id(s.id(c)), id(s.id(c)))
	ask("twice the same name", name(c), name(c))
	ask("the same by name and by id", name(c), id(s.id(c)))
	ask("name and id in one", kmsg.DeleteTopicsRequestTopic{Topic: &c, TopicID: s.id(c)})
	ask("twice an id that does not exist", id(strangerID), id(strangerID))
	ask("twice a name that does not exist", name(s.topic("none")), name(s.topic("none")))
	ask("a good one among bad ones", id(strangerID), name(d), name(s.topic("none")))
	ask("none")
}

func askCreatePartitions(s *script) {
	a := s.createWith("a", 2)
	ask := func(step string, validateOnly bool, topics ...kmsg.CreatePartitionsRequestTopic) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Topics, req.ValidateOnly, req.TimeoutMillis = topics, validateOnly, 10_000
		s.ask(step, req)
	}
	more := func(topic string, count int32, assignments ...[]int32) kmsg.CreatePartitionsRequestTopic {
		asked := kmsg.CreatePartitionsRequestTopic{Topic: topic, Count: count}
		for _, replicas := range assignments {
			asked.Assignment = append(asked.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
		return asked
	}
	ask("only validated", true, more(a, 3))
	ask("one more", false, more(a, 3))
	ask("as many as there are", false, more(a, 3))
	ask("fewer", false, more(a, 2))
	ask("zero", false, more(a, 0))
	ask("negative", false, more(a, -1))
	ask("a topic that does not exist", false, more(s.topic("none"), 3))
	ask("an illegal name", false, more("a/b", 3))
	ask("an empty name", false, more("", 3))
	ask("twice the same", false, more(a, 4), more(a, 5))
	ask("thrice the same and one that does not exist", false, more(a, 4), more(s.topic("none"), 4), more(a, 5), more(a, 6))
	ask("assigned", false, more(a, 4, []int32{1}))
	ask("too few assigned", false, more(a, 6, []int32{1}))
	ask("too many assigned", false, more(a, 5, []int32{1}, []int32{1}))
	ask("assigned to a broker that does not exist", false, more(a, 5, []int32{9}))
	ask("assigned to one broker twice", false, more(a, 5, []int32{1, 1}))
	ask("assigned to nobody", false, more(a, 5, []int32{}))
	ask("assigned to two", false, more(a, 5, []int32{1, 2}))
	empty := more(a, 5)
	empty.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
	ask("an empty list of assignments", false, empty)
	ask("as many as one request may add", true, more(a, 10_004))
	ask("one too many", true, more(a, 10_005))
	ask("very many", true, more(a, 2_000_000_000))
	ask("none", false)
	s.await(a, 4)
}
