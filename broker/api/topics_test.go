package api

import (
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

func TestRoutesAreExactlyTheAdvertisedAPIs(t *testing.T) {
	h := &Handlers{}
	routes := h.table()
	for _, served := range wire.APIs() {
		if routes[served.Key] == nil {
			t.Errorf("%s is advertised and has no handler", served.Name)
		}
		delete(routes, served.Key)
	}
	for key := range routes {
		t.Errorf("key %d has a handler and is not advertised", key)
	}
}

func TestApiVersions(t *testing.T) {
	n := newTestNode(t, nil)
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "apache-kafka-java", "4.4.0"
	for version := int16(0); version <= 4; version++ {
		resp := ask[*kmsg.ApiVersionsResponse](n, req, version)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(wire.APIs()) {
			t.Errorf("v%d: error %d, %d keys", version, resp.ErrorCode, len(resp.ApiKeys))
		}
		for _, key := range resp.ApiKeys {
			if key.ApiKey == wire.KeyProduce && key.MinVersion != 0 {
				t.Error("librdkafka looks at the low end of Produce, which must be advertised from 0")
			}
		}
	}
	if software := n.conn.Software(); software.Name != "apache-kafka-java" {
		t.Errorf("software %+v is remembered", software)
	}
	for _, name := range []string{"", "-x", "x.", "a b", "ü"} {
		req.ClientSoftwareName = name
		if resp := ask[*kmsg.ApiVersionsResponse](n, req, 3); resp.ErrorCode != int16(kafka.InvalidRequest) {
			t.Errorf("software name %q is answered with %d", name, resp.ErrorCode)
		}
	}
}

func TestApiVersionsAboveOursIsAnsweredInVersion0WithOneEntry(t *testing.T) {
	n := newTestNode(t, nil)
	reply := n.handlers.Dispatch(n.conn.Context, &wire.Request{
		Key: wire.KeyApiVersions, Version: 99, CorrelationID: 42, UnsupportedVersion: true, Conn: n.conn,
	})
	flat := flatten(t, reply.Response)
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(flat[8:]); err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 {
		t.Errorf("answer: %+v", resp)
	}
}

func metadataFor(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for i := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &topics[i]
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func TestMetadata(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 3)
	n.createTopic("b", 1)

	all := kmsg.NewPtrMetadataRequest()
	for version := int16(0); version <= 13; version++ {
		resp := ask[*kmsg.MetadataResponse](n, all, version)
		if len(resp.Topics) != 2 {
			t.Errorf("v%d with null topics: %d topics, want all 2", version, len(resp.Topics))
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].Host != "127.0.0.1" || resp.Brokers[0].Port != 9092 {
			t.Errorf("v%d: brokers %+v, want the address that the client has reached", version, resp.Brokers)
		}
		none := ask[*kmsg.MetadataResponse](n, metadataFor(), version)
		if want := map[bool]int{true: 2, false: 0}[version == 0]; len(none.Topics) != want {
			t.Errorf("v%d with an empty list: %d topics, want %d", version, len(none.Topics), want)
		}
	}
	resp := ask[*kmsg.MetadataResponse](n, metadataFor("a", "nope", "bad name"), 12)
	a := resp.Topics[0]
	if a.ErrorCode != 0 || a.TopicID != id || len(a.Partitions) != 3 || a.AuthorizedOperations != -2147483648 {
		t.Errorf("topic a: %+v", a)
	}
	for _, p := range a.Partitions {
		if p.Leader != int32(testBroker) || p.LeaderEpoch != 0 || len(p.ISR) != 1 || p.ErrorCode != 0 {
			t.Errorf("partition: %+v", p)
		}
	}
	if code := kafka.Errno(resp.Topics[1].ErrorCode); code != kafka.UnknownTopicOrPartition {
		t.Errorf("unknown topic: %v", code)
	}
	if code := kafka.Errno(resp.Topics[2].ErrorCode); code != kafka.InvalidTopic {
		t.Errorf("illegal topic name: %v", code)
	}
	if resp.ClusterID == nil || resp.ControllerID != int32(testBroker) {
		t.Errorf("cluster id %v, controller %d", resp.ClusterID, resp.ControllerID)
	}

	byID := kmsg.NewPtrMetadataRequest()
	known, unknown := kmsg.NewMetadataRequestTopic(), kmsg.NewMetadataRequestTopic()
	known.TopicID, unknown.TopicID = id, kafka.TopicID{9}
	byID.Topics = append(byID.Topics, known, unknown)
	resp = ask[*kmsg.MetadataResponse](n, byID, 12)
	if deref(resp.Topics[0].Topic) != "a" || resp.Topics[1].ErrorCode != int16(kafka.UnknownTopicID) {
		t.Errorf("by id: %+v", resp.Topics)
	}
}

func createRequest(names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func codes(resp *kmsg.CreateTopicsResponse) map[string]kafka.Errno {
	answers := map[string]kafka.Errno{}
	for _, topic := range resp.Topics {
		answers[topic.Topic] = kafka.Errno(topic.ErrorCode)
	}
	return answers
}

func TestCreateTopics(t *testing.T) {
	n := newTestNode(t, map[string]string{"log.retention.ms": "777"})
	value := func(text string) *string { return &text }
	tests := []struct {
		name    string
		change  func(*kmsg.CreateTopicsRequestTopic)
		want    kafka.Errno
		message string
	}{
		{name: "plain", change: func(*kmsg.CreateTopicsRequestTopic) {}},
		{name: "-1 partitions and replicas mean the broker's defaults", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.NumPartitions, c.ReplicationFactor = -1, -1
		}},
		{name: "ME-05: replication factor 0", change: func(c *kmsg.CreateTopicsRequestTopic) { c.ReplicationFactor = 0 },
			want: kafka.InvalidReplicationFactor},
		{name: "ME-05: more replicas than brokers", change: func(c *kmsg.CreateTopicsRequestTopic) { c.ReplicationFactor = 2 },
			want: kafka.InvalidReplicationFactor},
		{name: "0 partitions", change: func(c *kmsg.CreateTopicsRequestTopic) { c.NumPartitions = 0 },
			want: kafka.InvalidPartitions},
		{name: "illegal name", change: func(c *kmsg.CreateTopicsRequestTopic) { c.Topic = "a b" }, want: kafka.InvalidTopic},
		{name: "unknown setting", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.mss", Value: value("1")}}
		}, want: kafka.InvalidConfig, message: "retention.ms"},
		{name: "bad value", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: value("soon")}}
		}, want: kafka.InvalidConfig, message: "soon"},
		{name: "null value", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
		}, want: kafka.InvalidConfig},
		{name: "assignment by hand", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.NumPartitions, c.ReplicationFactor = -1, -1
			c.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{7}}}
		}},
		{name: "assignment to an unknown broker", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.NumPartitions, c.ReplicationFactor = -1, -1
			c.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{8}}}
		}, want: kafka.InvalidReplicaAssignment},
		{name: "assignment with a gap", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.NumPartitions, c.ReplicationFactor = -1, -1
			c.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{7}}}
		}, want: kafka.InvalidReplicaAssignment},
		{name: "assignment and counts", change: func(c *kmsg.CreateTopicsRequestTopic) {
			c.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{7}}}
		}, want: kafka.InvalidRequest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req := createRequest("topic-" + strings.NewReplacer(" ", "-", ":", "-", "'", "").Replace(test.name))
			test.change(&req.Topics[0])
			req.ValidateOnly = true
			checked := ask[*kmsg.CreateTopicsResponse](n, req, 7).Topics[0]
			if _, exists := n.meta.Image().Topic(req.Topics[0].Topic); exists {
				t.Error("validate-only has created the topic")
			}
			req.ValidateOnly = false
			answer := ask[*kmsg.CreateTopicsResponse](n, req, 7).Topics[0]
			if kafka.Errno(answer.ErrorCode) != test.want || checked.ErrorCode != answer.ErrorCode {
				t.Errorf("got %v, when validated %v, want %v", kafka.Errno(answer.ErrorCode),
					kafka.Errno(checked.ErrorCode), test.want)
			}
			if !strings.Contains(deref(answer.ErrorMessage), test.message) {
				t.Errorf("message %q does not say %q", deref(answer.ErrorMessage), test.message)
			}
			if test.want != 0 {
				return
			}
			if _, exists := n.meta.Image().Topic(req.Topics[0].Topic); !exists || answer.TopicID == [16]byte{} {
				t.Errorf("not visible when answered: %+v", answer)
			}
			for _, setting := range answer.Configs {
				if setting.Name == "retention.ms" && (deref(setting.Value) != "777" || setting.Source != 4) {
					t.Errorf("retention.ms=%s from %d, want the broker's 777 as a static setting",
						deref(setting.Value), setting.Source)
				}
			}
			if len(answer.Configs) < 20 {
				t.Errorf("only %d settings are answered", len(answer.Configs))
			}
		})
	}
}

func TestME04ValidateOnlyOfAnExistingTopic(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	req := createRequest("a")
	req.ValidateOnly = true
	if got := codes(ask[*kmsg.CreateTopicsResponse](n, req, 7))["a"]; got != kafka.TopicAlreadyExists {
		t.Errorf("got %v", got)
	}
}

func TestME01CollidingNames(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a.b_c", 1)
	for _, name := range []string{"a_b_c", "a.b.c", "a_b.c"} {
		answer := ask[*kmsg.CreateTopicsResponse](n, createRequest(name), 7).Topics[0]
		if kafka.Errno(answer.ErrorCode) != kafka.InvalidTopic || !strings.Contains(deref(answer.ErrorMessage), "a.b_c") {
			t.Errorf("%s: %v %q", name, kafka.Errno(answer.ErrorCode), deref(answer.ErrorMessage))
		}
	}
	both := codes(ask[*kmsg.CreateTopicsResponse](n, createRequest("x.y", "x_y"), 7))
	if (both["x.y"] == 0) == (both["x_y"] == 0) {
		t.Errorf("two colliding names in one request: %v, want exactly one of them", both)
	}
	n.deleteTopic("a.b_c", 0)
	n.createTopic("a_b_c", 1)
}

func TestME02ConcurrentCreationOfOneName(t *testing.T) {
	n := newTestNode(t, nil)
	var mu sync.Mutex
	got := map[kafka.Errno]int{}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			answers := codes(ask[*kmsg.CreateTopicsResponse](n, createRequest("x.y"), 7))
			mu.Lock()
			got[answers["x.y"]]++
			mu.Unlock()
		})
	}
	group.Wait()
	if got[kafka.None] != 1 || got[kafka.TopicAlreadyExists] != 19 {
		t.Errorf("answers: %v", got)
	}
}

func TestME13DuplicateTopicsInOneRequest(t *testing.T) {
	n := newTestNode(t, nil)
	resp := ask[*kmsg.CreateTopicsResponse](n, createRequest("twice", "once", "twice"), 7)
	if got := codes(resp); len(resp.Topics) != 2 || got["twice"] != kafka.InvalidRequest || got["once"] != 0 {
		t.Errorf("create: %v", got)
	}
	n.createTopic("twice", 1)

	partitions := kmsg.NewPtrCreatePartitionsRequest()
	for _, name := range []string{"twice", "once", "twice", "gone"} {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, 2
		partitions.Topics = append(partitions.Topics, topic)
	}
	want := map[string]kafka.Errno{
		"twice": kafka.InvalidRequest, "once": 0, "gone": kafka.UnknownTopicOrPartition,
	}
	more := ask[*kmsg.CreatePartitionsResponse](n, partitions, 3)
	if len(more.Topics) != 3 {
		t.Errorf("%d answers for 3 different topics", len(more.Topics))
	}
	for _, topic := range more.Topics {
		if kafka.Errno(topic.ErrorCode) != want[topic.Topic] {
			t.Errorf("add partitions to %s: %v", topic.Topic, kafka.Errno(topic.ErrorCode))
		}
	}

	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, name := range []string{"twice", "once", "twice"} {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	for _, topic := range ask[*kmsg.DeleteTopicsResponse](n, req, 6).Topics {
		want := map[string]kafka.Errno{"twice": kafka.InvalidRequest}[deref(topic.Topic)]
		if kafka.Errno(topic.ErrorCode) != want {
			t.Errorf("delete %s: %v", deref(topic.Topic), kafka.Errno(topic.ErrorCode))
		}
	}
}

func (n *testNode) deleteTopic(name string, want kafka.Errno) {
	n.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{name}
	if code := ask[*kmsg.DeleteTopicsResponse](n, req, 5).Topics[0].ErrorCode; kafka.Errno(code) != want {
		n.t.Errorf("delete %s: %v, want %v", name, kafka.Errno(code), want)
	}
}

func TestDeleteTopics(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 2)
	n.produce("a", 0, "x")
	n.deleteTopic("a", 0)
	n.deleteTopic("a", kafka.UnknownTopicOrPartition)
	if got := ask[*kmsg.MetadataResponse](n, metadataFor("a"), 12).Topics[0].ErrorCode; got != 3 {
		t.Errorf("metadata of a deleted topic: %d", got)
	}
	again := n.createTopic("a", 2)
	if again == id {
		t.Error("a topic created again has the same id")
	}
	if offset := n.produce("a", 0, "y"); offset != 0 {
		t.Errorf("the new topic begins at %d", offset)
	}

	byID := kmsg.NewPtrDeleteTopicsRequest()
	for _, one := range []kafka.TopicID{again, id} {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.TopicID = one
		byID.Topics = append(byID.Topics, topic)
	}
	answers := ask[*kmsg.DeleteTopicsResponse](n, byID, 6).Topics
	if answers[0].ErrorCode != 0 || deref(answers[0].Topic) != "a" {
		t.Errorf("by id: %+v", answers[0])
	}
	if kafka.Errno(answers[1].ErrorCode) != kafka.UnknownTopicID {
		t.Errorf("by a stale id: %v", kafka.Errno(answers[1].ErrorCode))
	}
}

func TestCreatePartitions(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 2)
	grow := func(count int32, validateOnly bool) (kafka.Errno, string) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.ValidateOnly = validateOnly
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "a", count
		req.Topics = append(req.Topics, topic)
		answer := ask[*kmsg.CreatePartitionsResponse](n, req, 3).Topics[0]
		return kafka.Errno(answer.ErrorCode), deref(answer.ErrorMessage)
	}
	for _, count := range []int32{2, 1, 0, -1} {
		if code, message := grow(count, false); code != kafka.InvalidPartitions || message == "" {
			t.Errorf("%d partitions: %v %q", count, code, message)
		}
	}
	if code, _ := grow(5, true); code != 0 || len(n.topic("a").Partitions) != 2 {
		t.Errorf("validate-only: %v, %d partitions", code, len(n.topic("a").Partitions))
	}
	if code, _ := grow(5, false); code != 0 || len(n.topic("a").Partitions) != 5 {
		t.Errorf("%v, %d partitions, want 5", code, len(n.topic("a").Partitions))
	}
	n.produce("a", 4, "x")
}

func TestATopicMayBeDeletedWithoutItsObjects(t *testing.T) {
	n := newTestNode(t, nil)
	for _, topic := range []string{"gone", "kept"} {
		id := n.createTopic(topic, 1, "remote.storage.enable", "true")
		must(n.meta.Propose(n.conn.Context, command.OpenTier{Partition: kafka.TopicIDPartition{ID: id}}))
	}
	if code, message := n.alterOne(ofTopic, "kept", set, "firn.remote.delete", "false"); code != 0 {
		t.Fatal(code, message)
	}
	_, settings := n.describe(ofTopic, "kept", nil)
	if got := settings["firn.remote.delete"]; deref(got.Value) != "false" {
		t.Errorf("described as %+v", got)
	}
	if _, settings := n.describe(ofTopic, "gone", nil); settings["firn.remote.delete"].Value != nil {
		t.Error("a setting that Kafka does not have is shown although nobody has set it")
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"gone", "kept"}
	for _, answer := range ask[*kmsg.DeleteTopicsResponse](n, req, 5).Topics {
		if answer.ErrorCode != 0 {
			t.Errorf("%s: %v", deref(answer.Topic), kafka.Errno(answer.ErrorCode))
		}
	}
	kept := map[string]bool{}
	for _, topic := range must(n.meta.DeletedTopics()) {
		kept[topic.Name] = topic.Kept
	}
	if len(kept) != 2 || kept["gone"] || !kept["kept"] {
		t.Errorf("kept: %v", kept)
	}
}

// TestTI25WhatIsTieredByDefault: with a real store every new topic is tiered unless it says otherwise, or cannot be;
// internal topics are not.
func TestTI25WhatIsTieredByDefault(t *testing.T) {
	const setting = "remote.storage.enable"
	n := newTestNode(t, map[string]string{"log.retention.ms": "100000"})
	n.createTopic("before", 1)
	n.handlers.options.RemoteStorageDefault = true
	n.handlers.options.AutoCreateTopics = true
	n.createTopic("plain", 1)
	n.createTopic("no", 1, setting, "false")
	n.createTopic("unfit", 1, "local.retention.ms", "100001") // Kafka allows that of a topic that is local
	req := metadataFor("automatic")
	req.AllowAutoTopicCreation = true
	ask[*kmsg.MetadataResponse](n, req, 9)
	for _, internal := range []string{"__consumer_offsets", "__transaction_state"} {
		n.handlers.options.InternalTopics[internal] = InternalTopic{
			Partitions: 1, ReplicationFactor: 1, Configs: map[string]string{"cleanup.policy": "delete"},
		}
		must(n.handlers.ensureInternalTopic(t.Context(), internal))
	}
	for topic, want := range map[string]string{
		"before": "", "plain": "true", "no": "false", "unfit": "", "automatic": "true",
		"__consumer_offsets": "", "__transaction_state": "",
	} {
		if got := n.topic(topic).Configs[setting]; got != want {
			t.Errorf("%s of %s is %q, want %q", setting, topic, got, want)
		}
	}
	_, settings := n.describe(ofTopic, "plain", []string{setting})
	if got := settings[setting]; deref(got.Value) != "true" || got.Source != 1 {
		t.Errorf("a topic that is tiered by default shows %+v", got)
	}
}

func TestME07TopicsAreCreatedByMetadataWhereBothSidesAllowIt(t *testing.T) {
	n := newTestNode(t, nil)
	n.handlers.options.AutoCreateTopics = true
	ask1 := func(allow bool, version int16, name string) kafka.Errno {
		req := metadataFor(name)
		req.AllowAutoTopicCreation = allow
		return kafka.Errno(ask[*kmsg.MetadataResponse](n, req, version).Topics[0].ErrorCode)
	}
	if code := ask1(false, 9, "a"); code != kafka.UnknownTopicOrPartition {
		t.Errorf("not allowed by the client: %v", code)
	}
	if code := ask1(true, 9, "a"); code != 0 || len(n.topic("a").Partitions) != 2 {
		t.Errorf("allowed: %v, %d partitions, want the broker's default of 2", code, len(n.topic("a").Partitions))
	}
	n.produce("a", 1, "at once")
	if code := ask1(false, 3, "old"); code != 0 {
		t.Errorf("before v4 a client cannot say no: %v", code)
	}
	if code := ask1(true, 9, "bad name"); code != kafka.InvalidTopic {
		t.Errorf("an illegal name: %v", code)
	}
	n.createTopic("x.y", 1)
	if code := ask1(true, 9, "x_y"); code != kafka.InvalidTopic {
		t.Errorf("a name that collides with another: %v", code)
	}
	// ME-08: Kafka's own topics need settings of their own.
	for _, internal := range []string{"__consumer_offsets", "__transaction_state"} {
		if code := ask1(true, 9, internal); code != kafka.UnknownTopicOrPartition {
			t.Errorf("%s: %v", internal, code)
		}
	}
	n.handlers.options.AutoCreateTopics = false
	if code := ask1(true, 9, "b"); code != kafka.UnknownTopicOrPartition {
		t.Errorf("switched off at the broker: %v", code)
	}
	if got := n.meta.Image().TopicCount(); got != 3 {
		t.Errorf("%d topics, want a, old and x.y", got)
	}
}
