//go:build integration

package differential

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// offsetCases are about offsets of groups, and about groups that have nothing else.
func offsetCases() []testCase {
	return []testCase{
		{key: wire.KeyOffsetCommit, name: "from outside of a group", run: askCommit},
		{key: wire.KeyOffsetCommit, name: "of nobody", run: askCommitOfNobody},
		{key: wire.KeyOffsetFetch, name: "committed and not", run: askCommitted},
		{key: wire.KeyOffsetFetch, name: "many groups", from: 8, run: askFetchGroups},
		{key: wire.KeyOffsetDelete, name: "good and bad", run: askDeleteOffsets},
		{key: wire.KeyDeleteGroups, name: "good and bad", run: askDeleteGroups},
		{key: wire.KeyDescribeGroups, name: "without members", run: askDescribeGroups},
		{key: wire.KeyListGroups, name: "filtered", from: 4, run: askListGroups},
	}
}

// coordinate waits until groups are served.
func (s *script) coordinate() {
	s.poll("groups are not served", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = "any"
		if quiet[*kmsg.FindCoordinatorResponse](s, find, 1).ErrorCode != 0 {
			return false
		}
		list := kmsg.NewPtrListGroupsRequest() // all partitions have to be loaded for this
		return quiet[*kmsg.ListGroupsResponse](s, list, 4).ErrorCode == 0
	})
}

// commitOf is a commit to partitions of a topic, of offsets 100 + the partition.
func (s *script) commitOf(group, topic string, partitions ...int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	s.addCommit(req, topic, partitions...)
	return req
}

func (s *script) addCommit(req *kmsg.OffsetCommitRequest, topic string, partitions ...int32) {
	of := kmsg.NewOffsetCommitRequestTopic()
	of.Topic, of.TopicID = topic, s.peer.topics[topic]
	if of.TopicID == [16]byte{} {
		of.TopicID = kafka.TopicID{0xee}
	}
	for _, partition := range partitions {
		one := kmsg.NewOffsetCommitRequestTopicPartition()
		one.Partition, one.Offset, one.LeaderEpoch = partition, 100+int64(partition), 0
		of.Partitions = append(of.Partitions, one)
	}
	req.Topics = append(req.Topics, of)
}

func askCommit(s *script) {
	s.coordinate()
	topic, group := s.createWith("t", 2), s.topic("g")
	s.ask("first", s.commitOf(group, topic, 0, 1))
	s.ask("what does not exist", s.commitOf(group, topic, 1, 2, -1))
	req := s.commitOf(group, topic, 0)
	s.addCommit(req, "missing", 0)
	s.ask("a topic that does not exist", req)
	s.ask("nothing that exists", s.commitOf(group, "missing", 0))
	s.ask("nothing", s.commitOf(group, topic))
	req = s.commitOf(group, topic)
	req.Topics = nil
	s.ask("no topics", req)
	req = s.commitOf(group, topic, 0, 1)
	large, allowed := strings.Repeat("m", 4097), strings.Repeat("m", 4096)
	req.Topics[0].Partitions[0].Metadata, req.Topics[0].Partitions[1].Metadata = &large, &allowed
	s.ask("metadata that is too large", req)
	req = s.commitOf(group, topic, 0)
	req.Topics[0].Partitions[0].Offset, req.Topics[0].Partitions[0].LeaderEpoch = -5, -9
	s.ask("negative numbers", req)
	s.ask("a group without a name", s.commitOf("", topic, 0))
	req = s.commitOf(group, topic, 0)
	req.RetentionTimeMillis = 1000
	s.ask("with a retention", req)
	s.askStored(group)
}

// askStored compares what is stored in a version that tells all.
func (s *script) askStored(group string) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1}}
	req.SetVersion(9)
	s.askAsIs("what is stored", req)
}

func askCommitOfNobody(s *script) {
	s.coordinate()
	topic, group := s.create("t"), s.topic("g")
	for _, generation := range []int32{0, 3} {
		req := s.commitOf(group, topic, 0)
		req.MemberID, req.Generation = "m", generation
		s.ask("a member of no group", req)
	}
	s.ask("which then is one that stores offsets", s.commitOf(group, topic, 0))
	instance := "i"
	for _, memberID := range []string{"", "m"} {
		for _, generation := range []int32{-1, 0, 3} {
			req := s.commitOf(group, topic, 0)
			req.MemberID, req.Generation = memberID, generation
			s.ask("by a member that it does not have", req)
			req.InstanceID = &instance
			s.ask("by a static member that it does not have", req)
		}
	}
	s.askStored(group)
}

// fetchOf asks for partitions of a topic, or for all offsets if there is no topic.
func (s *script) fetchOf(group, topic string, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = group
	if topic != "" {
		id := s.peer.topics[topic]
		if id == [16]byte{} {
			id = kafka.TopicID{0xee}
		}
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: partitions}}
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: id, Partitions: partitions}}
	}
	req.Groups = []kmsg.OffsetFetchRequestGroup{one}
	return req
}

func askCommitted(s *script) {
	s.coordinate()
	topic, group := s.createWith("t", 3), s.topic("g")
	quiet[*kmsg.OffsetCommitResponse](s, s.commitOf(group, topic, 0, 1), 9)
	for _, stable := range []bool{false, true} {
		for _, asked := range []struct {
			step string
			req  *kmsg.OffsetFetchRequest
		}{
			{"some", s.fetchOf(group, topic, 0, 1, 2, 7)},
			{"a topic that does not exist", s.fetchOf(group, "missing", 0, 1)},
			{"no partitions", s.fetchOf(group, topic)},
			{"of nobody", s.fetchOf(s.topic("nobody"), topic, 0)},
			{"of a group without a name", s.fetchOf("", topic, 0)},
		} {
			asked.req.RequireStable = stable
			s.ask(asked.step, asked.req)
		}
	}
	if s.version >= 2 {
		s.ask("all", s.fetchOf(group, ""))
		s.ask("all of nobody", s.fetchOf(s.topic("nobody"), ""))
	}
	none := s.fetchOf(group, "")
	none.Topics, none.Groups[0].Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
	s.ask("no topics", none)
	if s.version >= 9 {
		member := "m"
		req := s.fetchOf(group, topic, 0)
		req.Groups[0].MemberID, req.Groups[0].MemberEpoch = &member, 5
		s.ask("as a member", req)
	}
}

func askFetchGroups(s *script) {
	s.coordinate()
	topic, group := s.createWith("t", 3), s.topic("g")
	quiet[*kmsg.OffsetCommitResponse](s, s.commitOf(group, topic, 0), 9)
	req := s.fetchOf(group, topic, 0, 1)
	req.Groups = append(req.Groups, s.fetchOf(s.topic("nobody"), topic, 0).Groups...)
	req.Groups = append(req.Groups, s.fetchOf(group, "").Groups...)
	s.ask("three", req)
	req.Groups = nil
	s.ask("none", req)
}

func askDeleteOffsets(s *script) {
	s.coordinate()
	topic, group := s.createWith("t", 2), s.topic("g")
	quiet[*kmsg.OffsetCommitResponse](s, s.commitOf(group, topic, 0, 1), 9)
	req := kmsg.NewPtrOffsetDeleteRequest()
	of := func(topic string, partitions ...int32) {
		one := kmsg.OffsetDeleteRequestTopic{Topic: topic}
		for _, partition := range partitions {
			one.Partitions = append(one.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: partition})
		}
		req.Topics = append(req.Topics, one)
	}
	req.Group = group
	s.ask("nothing", req)
	of(topic, 0, 5)
	of("missing", 0)
	s.ask("some", req)
	s.ask("once more", req)
	s.askStored(group)
	req.Group = s.topic("nobody")
	s.ask("of nobody", req)
	req.Group = ""
	s.ask("of a group without a name", req)
}

func askDeleteGroups(s *script) {
	s.coordinate()
	topic := s.create("t")
	for _, name := range []string{"a", "b", "c"} {
		quiet[*kmsg.OffsetCommitResponse](s, s.commitOf(s.topic(name), topic, 0), 9)
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	s.ask("none", req)
	req.Groups = []string{s.topic("a"), s.topic("nobody"), s.topic("b")}
	s.ask("some", req)
	s.ask("once more", req)
	req.Groups = []string{""}
	s.ask("one without a name", req)
	s.askStored(s.topic("a"))
	s.askStored(s.topic("c"))
}

func askDescribeGroups(s *script) {
	s.coordinate()
	topic := s.create("t")
	quiet[*kmsg.OffsetCommitResponse](s, s.commitOf(s.topic("g"), topic, 0), 9)
	req := kmsg.NewPtrDescribeGroupsRequest()
	s.ask("none", req)
	req.Groups = []string{s.topic("g"), s.topic("nobody")}
	s.ask("some", req)
	req.IncludeAuthorizedOperations = true
	s.ask("with what may be done", req)
	req.Groups = []string{""}
	s.ask("one without a name", req)
}

func askListGroups(s *script) {
	s.coordinate()
	req := kmsg.NewPtrListGroupsRequest()
	for _, states := range [][]string{{"Dead"}, {"bogus"}, {"Assigning", "Reconciling"}} {
		req.StatesFilter = states
		s.ask("in states that no group is in", req)
	}
	req.StatesFilter, req.TypesFilter = nil, []string{"streams"}
	if s.version >= 5 {
		s.ask("of types that no group has", req)
	}
}
