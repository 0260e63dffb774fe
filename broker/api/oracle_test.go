package api

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/internal/kafka"
)

// The tests of this file hold what integration/differential has learned from Apache Kafka 4.4, where no other test does.

func TestSpecialTimestampsHaveAMeaningFromAVersionOn(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	for timestamp, from := range map[int64]int16{
		replica.TimestampLatest: 1, replica.TimestampEarliest: 1, replica.TimestampMax: 7,
		replica.TimestampEarliestLocal: 8, replica.TimestampLatestTiered: 9, replica.TimestampEarliestPending: 11,
		-7: 12, // in none
	} {
		for version := int16(1); version <= 11; version++ {
			want := kafka.None
			if version < from {
				want = kafka.UnsupportedVersion
			}
			if got := kafka.Errno(n.listOffset("a", timestamp, version, 0).ErrorCode); got != want {
				t.Errorf("time %d in v%d: %v, want %v", timestamp, version, got, want)
			}
		}
	}
}

func TestListOffsetsOfOnePartitionTwiceIsRefusedOnce(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 2)
	req := kmsg.NewPtrListOffsetsRequest()
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "a"
	for _, partition := range []int32{0, 1, 0, 0} {
		asked := kmsg.NewListOffsetsRequestTopicPartition()
		asked.Partition, asked.Timestamp = partition, replica.TimestampLatest
		topic.Partitions = append(topic.Partitions, asked)
	}
	req.Topics = append(req.Topics, topic, kmsg.ListOffsetsRequestTopic{Topic: "a"})
	resp := ask[*kmsg.ListOffsetsResponse](n, req, 7)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
		t.Fatalf("answer: %+v", resp)
	}
	twice, once := resp.Topics[0].Partitions[0], resp.Topics[0].Partitions[1]
	if kafka.Errno(twice.ErrorCode) != kafka.InvalidRequest || twice.Offset != -1 || once.ErrorCode != 0 {
		t.Errorf("asked twice: %+v, asked once: %+v", twice, once)
	}
}

func TestMetadataByIDIsRefusedBeforeVersion12(t *testing.T) {
	n := newTestNode(t, nil)
	req := kmsg.NewPtrMetadataRequest()
	byID, byName := kmsg.NewMetadataRequestTopic(), kmsg.NewMetadataRequestTopic()
	byID.TopicID, byName.Topic = n.createTopic("a", 1), kmsg.StringPtr("a")
	req.Topics = append(req.Topics, byID, byName)
	for version := int16(10); version <= 11; version++ {
		resp := ask[*kmsg.MetadataResponse](n, req, version)
		if len(resp.Brokers) != 0 || resp.ClusterID != nil || resp.ControllerID != -1 || len(resp.Topics) != 2 {
			t.Errorf("v%d: %+v", version, resp)
		}
		for _, topic := range resp.Topics {
			if kafka.Errno(topic.ErrorCode) != kafka.InvalidRequest || topic.Topic == nil {
				t.Errorf("v%d: topic %+v", version, topic)
			}
		}
	}
	if resp := ask[*kmsg.MetadataResponse](n, req, 12); len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 {
		t.Errorf("v12, one topic by id and by name: %+v", resp.Topics)
	}
}

func TestMetadataAnswersATopicOnceWithWhatMayBeDone(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	req := metadataFor("a", "nope", "a", "nope", "__consumer_offsets")
	req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
	resp := ask[*kmsg.MetadataResponse](n, req, 9)
	if len(resp.Topics) != 3 || !resp.Topics[2].IsInternal || resp.Topics[1].IsInternal {
		t.Errorf("topics: %+v", resp.Topics)
	}
	if resp.AuthorizedOperations != 8096 || resp.Topics[0].AuthorizedOperations != 3576 ||
		resp.Topics[1].AuthorizedOperations != 3576 {
		t.Errorf("operations %d, %d, %d", resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations,
			resp.Topics[1].AuthorizedOperations)
	}
}

func TestDeleteTopicsThatStandTwiceInOneRequest(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1)
	name := func(name string) kmsg.DeleteTopicsRequestTopic { return kmsg.DeleteTopicsRequestTopic{Topic: &name} }
	byID := kmsg.DeleteTopicsRequestTopic{TopicID: id}
	for what, topics := range map[string][]kmsg.DeleteTopicsRequestTopic{
		"by name":               {name("a"), name("a")},
		"by id":                 {byID, byID, byID},
		"by name and id":        {name("a"), byID},
		"that does not exist":   {name("nope"), name("nope")},
		"with the zero id":      {{}},
		"with name and id":      {{Topic: kmsg.StringPtr("a"), TopicID: id}},
		"an id that is unknown": {{TopicID: kafka.TopicID{9}}, {TopicID: kafka.TopicID{9}}},
	} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Topics = topics
		resp := ask[*kmsg.DeleteTopicsResponse](n, req, 6)
		if len(resp.Topics) != 1 || kafka.Errno(resp.Topics[0].ErrorCode) != kafka.InvalidRequest {
			t.Errorf("%s: %+v", what, resp.Topics)
		}
	}
	n.topic("a") // is still there
}

func TestCursorsAndLimitsOfDescribeTopicPartitions(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 3)
	page := func(limit int32, cursor string, partition int32, names ...string) *kmsg.DescribeTopicPartitionsResponse {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		if cursor != "" {
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: cursor, Partition: partition}
		}
		for _, name := range names {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		return ask[*kmsg.DescribeTopicPartitionsResponse](n, req, 0)
	}
	for _, limit := range []int32{-1, 0, 1} {
		if resp := page(limit, "", 0, "a"); len(resp.Topics[0].Partitions) != 1 || resp.NextCursor == nil {
			t.Errorf("limit %d: %+v", limit, resp)
		}
	}
	if resp := page(3, "", 0, "a", "nope"); len(resp.Topics) != 1 || resp.NextCursor.Topic != "nope" {
		t.Errorf("an unknown topic behind the limit: %+v", resp)
	}
	for what, resp := range map[string]*kmsg.DescribeTopicPartitionsResponse{
		"a negative partition":          page(10, "a", -1, "a"),
		"a topic that was not asked of": page(10, "b", 0, "a"),
	} {
		if len(resp.Topics) != 1 || kafka.Errno(resp.Topics[0].ErrorCode) != kafka.InvalidRequest {
			t.Errorf("a cursor at %s: %+v", what, resp)
		}
	}
}

func TestProduceErrorsTellTheLogStartOffsetWhereTheLogIsAsked(t *testing.T) {
	n := newTestNode(t, map[string]string{"message.max.bytes": "1000"})
	id := n.createTopic("a", 1)
	for range 3 {
		n.produce("a", 0, "x")
	}
	n.deleteRecords("a", 2, 2, 0)
	based := batch("x")
	record.Batch(based).SetBaseOffset(5)
	damaged := batch("x")
	damaged[len(damaged)-1]++
	for what, test := range map[string]struct {
		data []byte
		want int64
	}{
		"a base offset":  {based, 2},
		"two batches":    {append(batch("x"), batch("y")...), -1},
		"a wrong digest": {damaged, -1},
		"a large batch":  {batch(string(make([]byte, 1000))), -1},
	} {
		answer := n.produceCode(produceRequest("a", id, 0, acksAll, test.data), 9)
		if answer.ErrorCode == 0 || answer.LogStartOffset != test.want {
			t.Errorf("%s: %+v, want log start %d", what, answer, test.want)
		}
	}
}

func TestADuplicateIsAnsweredWithTheTimeOfTheOriginal(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	options := record.PlainProducer()
	options.ProducerID, options.ProducerEpoch, options.BaseSequence = 5, 0, 0
	for _, want := range []int64{-1, 1234} {
		b := record.NewBuilder(options)
		b.Append(1234, nil, []byte("x"))
		answer := n.produceCode(produceRequest("a", kafka.TopicID{}, 0, acksAll, b.Build()), 9)
		if answer.ErrorCode != 0 || answer.LogAppendTime != want {
			t.Errorf("answer %+v, want the time %d", answer, want)
		}
	}
}

func TestAProducerIDComesWithItsEpochOrNotAtAll(t *testing.T) {
	n := newTestNode(t, nil)
	for _, test := range []struct {
		id    int64
		epoch int16
		want  kafka.Errno
	}{{-1, -1, 0}, {5, 3, 0}, {5, -1, kafka.InvalidRequest}, {-1, 3, kafka.InvalidRequest}} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = test.id, test.epoch
		if resp := ask[*kmsg.InitProducerIDResponse](n, req, 4); kafka.Errno(resp.ErrorCode) != test.want {
			t.Errorf("id %d, epoch %d: %+v", test.id, test.epoch, resp)
		}
	}
}

func TestFeatureLevelsThatAreTold(t *testing.T) {
	n := newTestNode(t, nil)
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	for version := int16(3); version <= 4; version++ {
		resp := ask[*kmsg.ApiVersionsResponse](n, req, version)
		for _, feature := range resp.SupportedFeatures {
			if version < 4 && feature.MinVersion < 1 {
				t.Errorf("v%d has %s from level %d on, which old clients take for malformed", version, feature.Name, feature.MinVersion)
			}
		}
		isMetadata := func(f kmsg.ApiVersionsResponseFinalizedFeature) bool { return f.Name == "metadata.version" }
		if !slices.ContainsFunc(resp.FinalizedFeatures, isMetadata) || resp.FinalizedFeaturesEpoch < 0 {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
}

func TestCreatedTopicsAsKafkaAnswersThem(t *testing.T) {
	n := newTestNode(t, nil)
	resp := ask[*kmsg.CreateTopicsResponse](n, createRequest("bad name", metadataTopicName), 7)
	if codes := codes(resp); codes["bad name"] != kafka.InvalidTopic || codes[metadataTopicName] != kafka.InvalidRequest {
		t.Errorf("codes: %v", codes)
	}
	for _, topic := range resp.Topics {
		if topic.Configs == nil || len(topic.Configs) != 0 {
			t.Errorf("settings of a topic that was not created: %v, want an empty list", topic.Configs)
		}
	}
	req := createRequest("large")
	req.ValidateOnly = true
	req.Topics[0].NumPartitions = 10_001
	if codes := codes(ask[*kmsg.CreateTopicsResponse](n, req, 7)); codes["large"] != kafka.PolicyViolation {
		t.Errorf("more partitions than one request may add: %v", codes)
	}
}

func TestEndpointTypesOfDescribeCluster(t *testing.T) {
	n := newTestNode(t, nil)
	for kind, want := range map[int8]kafka.Errno{
		1: 0, 2: kafka.MismatchedEndpointType, 3: kafka.UnsupportedEndpointType,
	} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType, req.IncludeClusterAuthorizedOperations = kind, true
		resp := ask[*kmsg.DescribeClusterResponse](n, req, 1)
		if kafka.Errno(resp.ErrorCode) != want || want == 0 && resp.ClusterAuthorizedOperations != 8096 {
			t.Errorf("type %d: %+v", kind, resp)
		}
	}
}

func TestWhatCannotBeSetCanBeTakenBack(t *testing.T) {
	n := newTestNode(t, nil)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	broker := kmsg.NewIncrementalAlterConfigsRequestResource()
	broker.ResourceType, broker.ResourceName = kmsg.ConfigResourceTypeBroker, "7"
	broker.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{
		{Name: "log.dirs", Op: kmsg.IncrementalAlterConfigOpDelete},
	}
	unnamed := kmsg.NewIncrementalAlterConfigsRequestResource()
	unnamed.ResourceType = kmsg.ConfigResourceTypeTopic
	illegal := unnamed
	illegal.ResourceName = "bad name"
	req.Resources = append(req.Resources, broker, unnamed, illegal)
	resp := ask[*kmsg.IncrementalAlterConfigsResponse](n, req, 1)
	for i, want := range []kafka.Errno{0, kafka.InvalidRequest, kafka.InvalidTopic} {
		if got := resp.Resources[i]; kafka.Errno(got.ErrorCode) != want {
			t.Errorf("resource %d: %+v, want %v", i, got, want)
		}
	}
}
