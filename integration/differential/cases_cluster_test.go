//go:build integration

package differential

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// clusterCases ask about the cluster: versions, brokers, topics.
func clusterCases() []testCase {
	return []testCase{
		{key: wire.KeyDescribeLogDirs, name: "before there are topics", run: askNoLogs},
		{key: wire.KeyApiVersions, name: "versions", run: askVersions},
		{key: wire.KeyApiVersions, name: "a version above all", from: 4, run: askVersionAboveAll},
		{key: wire.KeySASLHandshake, name: "a listener without SASL", run: askSASL},
		{key: wire.KeyFindCoordinator, name: "a kind that does not exist", from: 1, run: askNoCoordinator},
		{key: wire.KeyMetadata, name: "no topics", run: askNoTopics},
		{key: wire.KeyMetadata, name: "topics by name", run: askTopicsByName},
		{key: wire.KeyMetadata, name: "topics by id", from: 10, run: askTopicsByID},
		{key: wire.KeyMetadata, name: "automatic creation", run: askAutoCreation},
		{key: wire.KeyMetadata, name: "authorized operations", from: 8, run: askOperations},
		{key: wire.KeyDescribeCluster, name: "brokers and controllers", run: askCluster},
		{key: wire.KeyUnregisterBroker, name: "a broker that does not exist", run: askUnregister},
		{key: wire.KeyDescribeQuorum, name: "the quorum", run: askQuorum},
		{key: wire.KeyDescribeTopicPartitions, name: "pages", run: askTopicPages},
	}
}

func askNoLogs(s *script) { s.ask("all", kmsg.NewPtrDescribeLogDirsRequest()) }

func askVersions(s *script) {
	ask := func(step, name, version string) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
		s.ask(step, req)
		s.peer.close()
	}
	ask("well named", "differential", "1.0")
	ask("without a name", "", "1.0")
	ask("without a version", "differential", "")
	ask("a name with a space", "two words", "1.0")
	ask("a name that ends in a dot", "differential.", "1.0")
	ask("a name that begins with a hyphen", "-differential", "1.0")
	ask("a name of one letter", "d", "1")
	ask("a name with dots and hyphens", "a.b-c..d", "1-SNAPSHOT")
	ask("a name beyond ASCII", "façade", "1")
}

func askVersionAboveAll(s *script) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "differential", "1.0"
	req.SetVersion(99)
	s.askAsIs("version 99", req)
	s.ask("afterwards on the same connection", req)
}

func askSASL(s *script) {
	for _, mechanism := range []string{"PLAIN", "", "SCRAM-SHA-256"} {
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Mechanism = mechanism
		s.ask("mechanism "+mechanism, req)
		s.peer.close()
	}
}

// askNoCoordinator asks for no group: Kafka would begin to make the topic of groups.
func askNoCoordinator(s *script) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = "a", 9, []string{"a"}
	s.ask("type 9", req)
}

func metadataOf(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return req
}

func askNoTopics(s *script) {
	s.create("a")
	s.createWith("b", 3)
	s.ask("an empty list", metadataOf())
	req := metadataOf()
	req.Topics = nil
	s.ask("null", req)
}

// illegalNames are names that no topic can have.
func illegalNames() map[string]string {
	return map[string]string{
		"empty": "", "a dot": ".", "two dots": "..", "a slash": "a/b", "a space": "a b", "a colon": "a:b",
		"beyond ASCII": "ä", "250 characters": strings.Repeat("x", 250),
	}
}

func askTopicsByName(s *script) {
	topic := s.createWith("a", 2)
	req := metadataOf(topic)
	req.AllowAutoTopicCreation = true
	s.ask("a topic", req)
	if s.version >= 4 {
		s.ask("twice the same", metadataOf(topic, topic))
		s.ask("twice the same that does not exist", metadataOf(s.topic("none"), s.topic("none")))
		s.ask("one that does not exist", metadataOf(s.topic("none")))
		s.ask("one that exists and one that does not", metadataOf(topic, s.topic("none")))
	}
	for _, what := range sortedKeys(illegalNames()) {
		s.ask("illegal name: "+what, metadataOf(illegalNames()[what]))
	}
	if s.version >= 4 {
		for _, internal := range []string{"__consumer_offsets", "__transaction_state", "__cluster_metadata"} {
			s.ask("internal topic "+internal, metadataOf(internal))
		}
	}
}

func askTopicsByID(s *script) {
	topic := s.create("a")
	by := func(id kafka.TopicID, name *string) kmsg.MetadataRequestTopic {
		return kmsg.MetadataRequestTopic{TopicID: id, Topic: name}
	}
	ask := func(step string, topics ...kmsg.MetadataRequestTopic) {
		req := metadataOf()
		req.Topics = topics
		s.ask(step, req)
	}
	ask("a topic", by(s.id(topic), nil))
	ask("an id that does not exist", by(strangerID, nil))
	ask("zero id", by(kafka.TopicID{}, nil))
	ask("id and name", by(s.id(topic), &topic))
	ask("one by name, one by id", by(kafka.TopicID{}, &topic), by(s.id(topic), nil))
}

func askAutoCreation(s *script) {
	name := s.topic("auto")
	if s.version >= 4 {
		s.ask("not allowed", metadataOf(name))
	}
	req := metadataOf(name)
	req.AllowAutoTopicCreation = true
	s.ask("allowed", req)
	s.await(name, 1)
	s.learn(name)
	s.ask("afterwards", req)
	illegal := metadataOf("a/b")
	illegal.AllowAutoTopicCreation = true
	s.ask("an illegal name", illegal)
	s.create("a.b_c")
	colliding := metadataOf(s.topic("a_b.c"))
	colliding.AllowAutoTopicCreation = true
	s.ask("a name that collides", colliding)
}

func askOperations(s *script) {
	topic := s.create("a")
	req := metadataOf(topic, s.topic("none"))
	req.IncludeTopicAuthorizedOperations = true
	req.IncludeClusterAuthorizedOperations = true
	s.ask("included", req)
}

func askCluster(s *script) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 1
	s.ask("brokers", req)
	req.IncludeClusterAuthorizedOperations = true
	s.ask("brokers with operations", req)
	req.EndpointType, req.IncludeClusterAuthorizedOperations = 2, false
	s.ask("controllers", req)
	req.EndpointType = 3
	s.ask("an endpoint type that does not exist", req)
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	s.ask("fenced brokers too", req)
}

func askUnregister(s *script) {
	for step, id := range map[string]int32{"unknown": 77} {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		s.ask(step, req)
	}
}

func askQuorum(s *script) {
	ask := func(step string, topics ...kmsg.DescribeQuorumRequestTopic) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Topics = topics
		s.ask(step, req)
	}
	of := func(topic string, partitions ...int32) kmsg.DescribeQuorumRequestTopic {
		asked := kmsg.DescribeQuorumRequestTopic{Topic: topic}
		for _, partition := range partitions {
			asked.Partitions = append(asked.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: partition})
		}
		return asked
	}
	ask("of the metadata", of("__cluster_metadata", 0))
	ask("of another partition", of("__cluster_metadata", 1))
	ask("of another topic", of("stranger", 0))
	ask("of none")
}

func askTopicPages(s *script) {
	a, b := s.createWith("a", 3), s.createWith("b", 2)
	ask := func(step string, limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, cursor
		for _, name := range names {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		s.ask(step, req)
	}
	from := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
	}
	ask("two topics", 2000, nil, a, b)
	ask("in another order", 2000, nil, b, a)
	ask("twice the same", 2000, nil, a, a)
	ask("one that does not exist", 2000, nil, a, s.topic("none"))
	ask("illegal name", 2000, nil, "a/b")
	ask("empty name", 2000, nil, "")
	ask("a limit within a topic", 2, nil, a, b)
	ask("a limit at the end of a topic", 3, nil, a, b)
	ask("a limit at the end of all", 5, nil, a, b)
	ask("a limit of one", 1, nil, a, b)
	ask("a limit of zero", 0, nil, a, b)
	ask("a negative limit", -1, nil, a, b)
	ask("from a cursor", 2, from(a, 2), a, b)
	ask("from a cursor at the second topic", 2000, from(b, 0), a, b)
	ask("from a cursor between two topics", 2000, from(a+"a", 1), a, b)
	ask("from a cursor past the end of a topic", 2000, from(a, 3), a, b)
	ask("from a cursor with a negative partition", 2000, from(a, -1), a, b)
	ask("from a cursor behind all", 2000, from(b+"z", 0), a, b)
	ask("from a cursor at a topic that does not exist", 2000, from(s.topic("none"), 0), a, s.topic("none"))
	ask("an unknown topic behind the limit", 3, nil, a, s.topic("none"))
	ask("all topics from here on", 4, from(a, 0))
}
