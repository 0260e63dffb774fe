package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

func TestSASLHandshakeOnAListenerWithoutSASL(t *testing.T) {
	n := newTestNode(t, nil)
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = "PLAIN"
	for version := range int16(2) {
		if got := ask[*kmsg.SASLHandshakeResponse](n, req, version); got.ErrorCode != int16(kafka.IllegalSASLState) {
			t.Errorf("v%d: %v", version, kafka.Errno(got.ErrorCode))
		}
	}
}

func TestAD01AlterConfigsReplacesAllOverrides(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1, "retention.ms", "5", "segment.ms", "1000")
	alter := func(kind kmsg.ConfigResourceType, name, key string, value *string, validateOnly bool) kafka.Errno {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.ValidateOnly = validateOnly
		resource := kmsg.NewAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kind, name
		resource.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: key, Value: value}}
		req.Resources = append(req.Resources, resource)
		return kafka.Errno(ask[*kmsg.AlterConfigsResponse](n, req, 2).Resources[0].ErrorCode)
	}
	value := "compact"
	if code := alter(ofTopic, "a", "cleanup.policy", &value, true); code != 0 || len(n.topic("a").Configs) != 2 {
		t.Errorf("validate-only: %v, settings %v", code, n.topic("a").Configs)
	}
	if code := alter(ofTopic, "a", "cleanup.policy", &value, false); code != 0 {
		t.Fatal(code)
	}
	if got := n.topic("a").Configs; len(got) != 1 || got["cleanup.policy"] != "compact" {
		t.Errorf("settings after AlterConfigs: %v", got)
	}
	if code := alter(ofTopic, "a", "cleanup.policy", nil, false); code != kafka.InvalidRequest {
		t.Errorf("a setting without a value: %v", code)
	}
	if code := alter(ofTopic, "nope", "cleanup.policy", &value, false); code != kafka.UnknownTopicOrPartition {
		t.Errorf("an unknown topic: %v", code)
	}
	retention := "777"
	if code := alter(ofBroker, "", "log.retention.ms", &retention, false); code != 0 {
		t.Errorf("the defaults of all brokers: %v", code)
	}
}

func TestDescribeLogDirs(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("b", 1)
	n.createTopic("a", 2)
	n.produce("a", 1, "x")
	for version := int16(1); version <= 4; version++ {
		dirs := ask[*kmsg.DescribeLogDirsResponse](n, kmsg.NewPtrDescribeLogDirsRequest(), version).Dirs
		if len(dirs) != 1 || dirs[0].Dir != "log" || len(dirs[0].Topics) != 2 || dirs[0].Topics[0].Topic != "a" ||
			len(dirs[0].Topics[0].Partitions) != 2 {
			t.Fatalf("v%d: %+v", version, dirs)
		}
		if empty, full := dirs[0].Topics[0].Partitions[0], dirs[0].Topics[0].Partitions[1]; empty.Size != 0 || full.Size == 0 {
			t.Errorf("v%d: sizes %d and %d", version, empty.Size, full.Size)
		}
		if version >= 4 && dirs[0].UsableBytes != 123 {
			t.Errorf("v%d: %d bytes usable", version, dirs[0].UsableBytes)
		}
	}
	one := kmsg.NewPtrDescribeLogDirsRequest()
	one.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{1, 9}}, {Topic: "nope", Partitions: []int32{0}}}
	dirs := ask[*kmsg.DescribeLogDirsResponse](n, one, 4).Dirs
	if len(dirs[0].Topics) != 1 || len(dirs[0].Topics[0].Partitions) != 1 || dirs[0].Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("one partition is asked for: %+v", dirs[0].Topics)
	}
}

// TestAlterReplicaLogDirs: a log is where it was made, and nowhere else can it go.
func TestAlterReplicaLogDirs(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 2)
	home := n.handlers.options.LogDirectories()[0]
	n.handlers.options.LogDirectories = func() []LogDirectory {
		return []LogDirectory{home, {ID: kafka.UUID{7}, Path: "second"}, {ID: kafka.UUID{8}, Path: "broken", Err: errors.New("EIO")}}
	}
	const long = 214 // with "-0" it is one more than what Kafka can move
	for _, test := range []struct {
		directory, topic string
		partition        int32
		want             kafka.Errno
	}{
		{home.Path, "a", 0, kafka.None},
		{home.Path, "a", 1, kafka.None},
		{home.Path, "a", 2, kafka.UnknownTopicOrPartition},
		{home.Path, "nope", 0, kafka.UnknownTopicOrPartition},
		{"elsewhere", "a", 0, kafka.LogDirNotFound},
		{"elsewhere", "nope", 0, kafka.LogDirNotFound},
		{"second", "a", 0, kafka.KafkaStorageError},
		{"broken", "a", 0, kafka.KafkaStorageError},
		{"elsewhere", strings.Repeat("x", long-1), 0, kafka.LogDirNotFound},
		{"elsewhere", strings.Repeat("x", long), 0, kafka.InvalidTopic},
	} {
		for version := int16(1); version <= 2; version++ {
			req := kmsg.NewPtrAlterReplicaLogDirsRequest()
			req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{
				Dir: test.directory, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{
					{Topic: test.topic, Partitions: []int32{test.partition}},
				},
			}}
			topics := ask[*kmsg.AlterReplicaLogDirsResponse](n, req, version).Topics
			if len(topics) != 1 || topics[0].Topic != test.topic || len(topics[0].Partitions) != 1 ||
				topics[0].Partitions[0].Partition != test.partition || topics[0].Partitions[0].ErrorCode != int16(test.want) {
				t.Errorf("v%d: %+v: %+v", version, test, topics)
			}
		}
	}
	twice := kmsg.NewPtrAlterReplicaLogDirsRequest()
	for _, dir := range []string{"elsewhere", home.Path} {
		twice.Dirs = append(twice.Dirs, kmsg.AlterReplicaLogDirsRequestDir{
			Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "a", Partitions: []int32{1, 0}}},
		})
	}
	topics := ask[*kmsg.AlterReplicaLogDirsResponse](n, twice, 2).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 2 || topics[0].Partitions[0].ErrorCode != 0 ||
		topics[0].Partitions[0].Partition != 0 || topics[0].Partitions[1].ErrorCode != 0 {
		t.Errorf("two partitions to two directories each: %+v", topics)
	}
}

func TestDescribeTopicPartitionsInPages(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("c", 1)
	n.createTopic("a", 3)
	n.createTopic("b", 2)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	var seen []string
	for page := 0; ; page++ {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](n, req, 0)
		count := 0
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				count++
				seen = append(seen, fmt.Sprintf("%s-%d", deref(topic.Topic), p.Partition))
				if p.LeaderID != int32(testBroker) || len(p.ISR) != 1 || p.EligibleLeaderReplicas == nil {
					t.Errorf("partition: %+v", p)
				}
			}
		}
		if count > 2 || page > 5 {
			t.Fatalf("page %d has %d partitions", page, count)
		}
		if resp.NextCursor == nil {
			break
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{
			Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition,
		}
	}
	if want := []string{"a-0", "a-1", "a-2", "b-0", "b-1", "c-0"}; !slices.Equal(seen, want) {
		t.Errorf("all pages: %v", seen)
	}
	named := kmsg.NewPtrDescribeTopicPartitionsRequest()
	named.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "nope"}, {Topic: "b"}, {Topic: "bad name"}}
	got := map[string]kafka.Errno{}
	for _, topic := range ask[*kmsg.DescribeTopicPartitionsResponse](n, named, 0).Topics {
		got[deref(topic.Topic)] = kafka.Errno(topic.ErrorCode)
	}
	if got["nope"] != kafka.UnknownTopicOrPartition || got["b"] != 0 || got["bad name"] != kafka.InvalidTopic || len(got) != 3 {
		t.Errorf("by name: %v", got)
	}
}

func TestElectLeaders(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	for _, kind := range []int8{electPreferred, electUnclean} {
		req := kmsg.NewPtrElectLeadersRequest()
		req.ElectionType = kind
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "a", Partitions: []int32{0, 1}}}
		partitions := ask[*kmsg.ElectLeadersResponse](n, req, 2).Topics[0].Partitions
		if kafka.Errno(partitions[0].ErrorCode) != kafka.ElectionNotNeeded ||
			kafka.Errno(partitions[1].ErrorCode) != kafka.UnknownTopicOrPartition {
			t.Errorf("kind %d: %+v", kind, partitions)
		}
	}
	resp := ask[*kmsg.ElectLeadersResponse](n, kmsg.NewPtrElectLeadersRequest(), 2)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 0 {
		t.Errorf("all partitions, none of which needs an election: %+v", resp)
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType = 7
	req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "a", Partitions: []int32{0}}}
	resp = ask[*kmsg.ElectLeadersResponse](n, req, 2)
	if kafka.Errno(resp.ErrorCode) != kafka.InvalidRequest ||
		kafka.Errno(resp.Topics[0].Partitions[0].ErrorCode) != kafka.InvalidRequest {
		t.Errorf("an election of a kind that does not exist: %+v", resp)
	}
}

func TestAD04PartitionReassignments(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	tests := []struct {
		name      string
		topic     string
		partition int32
		replicas  []int32
		want      kafka.Errno
	}{
		{name: "unknown topic", topic: "b", replicas: []int32{7}, want: kafka.UnknownTopicOrPartition},
		{name: "unknown partition", topic: "a", partition: 1, replicas: []int32{7}, want: kafka.UnknownTopicOrPartition},
		{name: "no replicas", topic: "a", replicas: []int32{}, want: kafka.InvalidReplicaAssignment},
		{name: "a broker twice", topic: "a", replicas: []int32{7, 7}, want: kafka.InvalidReplicaAssignment},
		{name: "an unknown broker", topic: "a", replicas: []int32{8}, want: kafka.InvalidReplicaAssignment},
		{name: "cancel where nothing is under way", topic: "a", want: kafka.NoReassignmentInProgress},
		{name: "where it already is", topic: "a", replicas: []int32{7}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
				Topic: test.topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{
					Partition: test.partition, Replicas: test.replicas,
				}},
			}}
			got := ask[*kmsg.AlterPartitionAssignmentsResponse](n, req, 1).Topics[0].Partitions[0].ErrorCode
			if kafka.Errno(got) != test.want {
				t.Errorf("got %v, want %v", kafka.Errno(got), test.want)
			}
		})
	}
	if resp := ask[*kmsg.ListPartitionReassignmentsResponse](n, kmsg.NewPtrListPartitionReassignmentsRequest(), 0); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("under way: %+v", resp)
	}
}

func TestListConfigResources(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	list := func(version int16, kinds ...int8) (kafka.Errno, []string) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = kinds
		resp := ask[*kmsg.ListConfigResourcesResponse](n, req, version)
		var names []string
		for _, resource := range resp.ConfigResources {
			names = append(names, fmt.Sprintf("%d:%s", resource.Type, resource.Name))
		}
		return kafka.Errno(resp.ErrorCode), names
	}
	for _, test := range []struct {
		version int16
		kinds   []int8
		want    []string
		code    kafka.Errno
	}{
		{version: 0}, {version: 1, want: []string{"2:a", "4:7"}}, {version: 1, kinds: []int8{2}, want: []string{"2:a"}},
		{version: 1, kinds: []int8{16}}, {version: 1, kinds: []int8{99}, code: kafka.UnsupportedVersion},
	} {
		if code, names := list(test.version, test.kinds...); code != test.code || !slices.Equal(names, test.want) {
			t.Errorf("v%d %v: %v, %v", test.version, test.kinds, code, names)
		}
	}
}

func TestDescribeQuorum(t *testing.T) {
	n := newTestNode(t, nil)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{
		Topic: metadataTopicName, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}},
	}}
	for version := range int16(3) {
		resp := ask[*kmsg.DescribeQuorumResponse](n, req, version)
		p := resp.Topics[0].Partitions[0]
		if resp.ErrorCode != 0 || p.LeaderID != int32(testBroker) || p.LeaderEpoch < 1 || len(p.CurrentVoters) != 1 ||
			p.HighWatermark < 2 || p.CurrentVoters[0].LogEndOffset != p.HighWatermark {
			t.Errorf("v%d: %+v", version, resp)
		}
		if version >= 2 && (len(resp.Nodes) != 1 || resp.Nodes[0].Listeners[0].Port != 9092) {
			t.Errorf("v%d: nodes %+v", version, resp.Nodes)
		}
	}
	req.Topics[0].Topic = "a"
	resp := ask[*kmsg.DescribeQuorumResponse](n, req, 2)
	if p := resp.Topics[0].Partitions[0]; resp.ErrorCode != 0 || kafka.Errno(p.ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Errorf("a topic that has no quorum: %+v", resp)
	}
}

func TestDescribeProducers(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	options := record.PlainProducer()
	options.ProducerID, options.ProducerEpoch, options.BaseSequence = 5, 2, 0
	b := record.NewBuilder(options)
	b.Append(1000, nil, []byte("x"))
	b.Append(2000, nil, []byte("y"))
	if answer := n.produceCode(produceRequest("a", kafka.TopicID{}, 0, acksAll, b.Build()), 9); answer.ErrorCode != 0 {
		t.Fatal(kafka.Errno(answer.ErrorCode))
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "a", Partitions: []int32{0, 1}}}
	partitions := ask[*kmsg.DescribeProducersResponse](n, req, 0).Topics[0].Partitions
	if producers := partitions[0].ActiveProducers; len(producers) != 1 || producers[0].ProducerID != 5 ||
		producers[0].ProducerEpoch != 2 || producers[0].LastSequence != 1 || producers[0].LastTimestamp != 2000 ||
		producers[0].CurrentTxnStartOffset != -1 {
		t.Errorf("producers: %+v", producers)
	}
	if kafka.Errno(partitions[1].ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Errorf("unknown partition: %v", kafka.Errno(partitions[1].ErrorCode))
	}
}

func TestUnregisterBroker(t *testing.T) {
	n := newTestNode(t, nil)
	for id, want := range map[int32]kafka.Errno{7: kafka.InvalidRequest, 8: kafka.BrokerIDNotRegistered} {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		if resp := ask[*kmsg.UnregisterBrokerResponse](n, req, 0); kafka.Errno(resp.ErrorCode) != want || resp.ErrorMessage == nil {
			t.Errorf("broker %d: %v", id, kafka.Errno(resp.ErrorCode))
		}
	}
}
