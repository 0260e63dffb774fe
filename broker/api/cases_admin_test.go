package api

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// registerBrokers makes the cluster's metadata one of several brokers, of which only the node's own runs.
func (n *testNode) registerBrokers(ids ...kafka.BrokerID) {
	n.t.Helper()
	for _, id := range ids {
		must(n.meta.Propose(n.conn.Context, command.RegisterBroker{
			ID: id, Directories: []kafka.UUID{{byte(id)}},
			Listeners: []command.Endpoint{{Name: "PLAINTEXT", Host: "other", Port: int32(id), Protocol: "PLAINTEXT"}},
		}))
	}
}

func TestME05ReplicationFactorsOfThreeBrokers(t *testing.T) {
	n := newTestNode(t, nil)
	n.registerBrokers(8, 9)
	for factor, want := range map[int16]kafka.Errno{
		4: kafka.InvalidReplicationFactor, 0: kafka.InvalidReplicationFactor, -2: kafka.InvalidReplicationFactor,
		2: 0, 3: 0, -1: 0,
	} {
		req := createRequest(fmt.Sprintf("factor%d", factor))
		req.Topics[0].ReplicationFactor, req.ValidateOnly = factor, true
		answer := ask[*kmsg.CreateTopicsResponse](n, req, 7).Topics[0]
		if kafka.Errno(answer.ErrorCode) != want {
			t.Errorf("%d replicas: %v, want %v", factor, kafka.Errno(answer.ErrorCode), want)
		}
		if factor == -1 {
			factor = 1 // default.replication.factor
		}
		if want == 0 && answer.ReplicationFactor != factor {
			t.Errorf("%d replicas: answered with %d", factor, answer.ReplicationFactor)
		}
	}
}

func TestME07ManyTopicsAreCreatedOnTheWayAndProducedToAtOnce(t *testing.T) {
	n := newTestNode(t, nil)
	n.handlers.options.AutoCreateTopics = true
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("fresh-%d", i)
	}
	req := metadataFor(names...)
	for _, topic := range ask[*kmsg.MetadataResponse](n, req, 9).Topics {
		if kafka.Errno(topic.ErrorCode) != kafka.UnknownTopicOrPartition {
			t.Errorf("%s without leave: %v", deref(topic.Topic), kafka.Errno(topic.ErrorCode))
		}
	}
	if count := n.meta.Image().TopicCount(); count != 0 {
		t.Fatalf("%d topics were created without leave", count)
	}
	req.AllowAutoTopicCreation = true
	for _, topic := range ask[*kmsg.MetadataResponse](n, req, 9).Topics {
		if topic.ErrorCode != 0 || len(topic.Partitions) != 2 {
			t.Errorf("%s: %v, %d partitions", deref(topic.Topic), kafka.Errno(topic.ErrorCode), len(topic.Partitions))
		}
	}
	for _, name := range names {
		n.produce(name, 1, "at once")
	}
}

func TestME08InternalTopicsAreNotCreatedByAskingForThem(t *testing.T) {
	n := newTestNode(t, nil)
	n.handlers.options.AutoCreateTopics = true
	req := metadataFor("__consumer_offsets", "__transaction_state", "__share_group_state", metadataTopicName)
	req.AllowAutoTopicCreation = true
	for _, topic := range ask[*kmsg.MetadataResponse](n, req, 9).Topics {
		internal := *topic.Topic != metadataTopicName // which is no topic at all
		if kafka.Errno(topic.ErrorCode) != kafka.UnknownTopicOrPartition || topic.IsInternal != internal {
			t.Errorf("%s: %v, internal %v", deref(topic.Topic), kafka.Errno(topic.ErrorCode), topic.IsInternal)
		}
	}
	if count := n.meta.Image().TopicCount(); count != 0 {
		t.Errorf("%d topics were created", count)
	}
	ask[*kmsg.FindCoordinatorResponse](n, coordinatorOf(0, "a"), 6)
	if topic := ask[*kmsg.MetadataResponse](n, metadataFor("__consumer_offsets"), 9).Topics[0]; !topic.IsInternal {
		t.Error("Kafka's own topic is not told apart once it exists")
	}
}

// TestME10ATopicIsListedWithAllItsPartitions, also those that nobody here serves.
func TestME10ATopicIsListedWithAllItsPartitions(t *testing.T) {
	n := newTestNode(t, nil)
	n.registerBrokers(8)
	created := must(n.meta.Propose(n.conn.Context, command.CreateTopics{Topics: []command.NewTopic{{
		ID: kafka.TopicID{5}, Name: "a", Partitions: []command.NewPartition{
			{Replicas: []kafka.BrokerID{8}, Directories: []kafka.UUID{{8}}},
			{Replicas: []kafka.BrokerID{testBroker}, Directories: n.meta.Image().Brokers[0].Directories},
			{Replicas: []kafka.BrokerID{8, testBroker},
				Directories: append([]kafka.UUID{{8}}, n.meta.Image().Brokers[0].Directories...)},
		},
	}}}))
	check(t, created.([]command.TopicResult)[0].Err)
	for version := int16(0); version <= 13; version++ {
		topic := ask[*kmsg.MetadataResponse](n, metadataFor("a"), version).Topics[0]
		if topic.ErrorCode != 0 || len(topic.Partitions) != 3 {
			t.Fatalf("v%d: %+v", version, topic)
		}
		for i, want := range [][]int32{{8}, {7}, {8, 7}} {
			if p := topic.Partitions[i]; p.Partition != int32(i) || p.Leader != want[0] || !slices.Equal(p.Replicas, want) {
				t.Errorf("v%d: %+v", version, p)
			}
		}
	}
}

func TestME13TopicsThatAreBeingDeletedAreUnknown(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("gone", 1)
	n.createTopic("stays", 1)
	n.deleteTopic("gone", 0)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"gone", "stays", "gone"}
	got := map[string]kafka.Errno{}
	for _, topic := range ask[*kmsg.DeleteTopicsResponse](n, req, 5).Topics {
		got[deref(topic.Topic)] = kafka.Errno(topic.ErrorCode)
	}
	if want := map[string]kafka.Errno{"gone": kafka.InvalidRequest, "stays": 0}; !maps.Equal(got, want) {
		t.Errorf("deleted: %v, want %v", got, want)
	}
	n.deleteTopic("gone", kafka.UnknownTopicOrPartition)
}

// TestAD01: on a topic with remote storage what would lose data is not taken back by leaving it out.
func TestAD01RemoteStorageIsNotTakenBackByLeavingItOut(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1, "remote.storage.enable", "true", "retention.ms", "5000")
	before := maps.Clone(n.topic("a").Configs)
	req := kmsg.NewPtrAlterConfigsRequest()
	resource := kmsg.NewAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = ofTopic, "a"
	resource.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "cleanup.policy", Value: kmsg.StringPtr("delete")}}
	req.Resources = append(req.Resources, resource)
	if answer := ask[*kmsg.AlterConfigsResponse](n, req, 2).Resources[0]; kafka.Errno(answer.ErrorCode) != kafka.InvalidConfig {
		t.Errorf("got %v %q", kafka.Errno(answer.ErrorCode), deref(answer.ErrorMessage))
	}
	if !maps.Equal(n.topic("a").Configs, before) {
		t.Errorf("a change that was refused has changed %v to %v", before, n.topic("a").Configs)
	}
}

func TestAD02AValueEqualToTheDefaultIsPinned(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	expect := func(when, value string, source kmsg.ConfigSource) {
		t.Helper()
		_, settings := n.describe(ofTopic, "a", []string{"cleanup.policy"})
		if got := settings["cleanup.policy"]; deref(got.Value) != value || got.Source != source {
			t.Errorf("%s: %s from %d, want %s from %d", when, deref(got.Value), got.Source, value, source)
		}
	}
	alter := func(kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key, value string) {
		t.Helper()
		if code, message := n.alterOne(kind, name, op, key, value); code != 0 {
			t.Fatal(code, message)
		}
	}
	alter(ofTopic, "a", set, "cleanup.policy", "delete")
	expect("set to the default", "delete", 1)
	alter(ofBroker, "", set, "log.cleanup.policy", "compact")
	expect("after the cluster's default has changed", "delete", 1)
	alter(ofTopic, "a", remove, "cleanup.policy", "")
	expect("taken back", "compact", 3)
}

// TestAD05 creates 500 topics with one request and 500 with a request each.
func TestAD05ManyTopicsAtOnce(t *testing.T) {
	n := newTestNode(t, nil)
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("together-%d", i)
	}
	all := createRequest(names...)
	all.TimeoutMillis = 30_000
	for name, code := range codes(ask[*kmsg.CreateTopicsResponse](n, all, 7)) {
		if code != 0 {
			t.Errorf("%s: %v", name, code)
		}
	}
	var group sync.WaitGroup
	for i := range 500 {
		group.Go(func() {
			req := createRequest(fmt.Sprintf("alone-%d", i))
			req.TimeoutMillis = 30_000
			for name, code := range codes(ask[*kmsg.CreateTopicsResponse](n, req, 7)) {
				if code != 0 {
					t.Errorf("%s: %v", name, code)
				}
			}
		})
	}
	group.Wait()
	if count := n.meta.Image().TopicCount(); count != 1000 {
		t.Errorf("%d topics", count)
	}
}

func TestAD07UntouchedSettingsOfATopicAreDefaults(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	_, settings := n.describe(ofTopic, "a", nil)
	for name, setting := range settings {
		if setting.Source != kmsg.ConfigSourceDefaultConfig || setting.ReadOnly || setting.IsSensitive {
			t.Errorf("%s: %+v", name, setting)
		}
		for _, synonym := range setting.ConfigSynonyms {
			if synonym.Source != kmsg.ConfigSourceDefaultConfig {
				t.Errorf("%s: synonym %+v", name, synonym)
			}
		}
	}
	_, broker := n.describe(ofBroker, "7", nil)
	if !broker["node.id"].ReadOnly || broker["log.retention.ms"].ReadOnly || broker["max.connections"].ReadOnly {
		t.Error("what is read-only is not told apart")
	}
	if secret := broker["ssl.keystore.password"]; !secret.IsSensitive || secret.Value != nil {
		t.Errorf("a password is answered as %+v", secret)
	}
}

// TestValidateOnlyChangesNothing asks for good and bad changes of everything that can be only validated.
func TestValidateOnlyChangesNothing(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	index := n.meta.Image().Index
	for value, want := range map[string]kafka.Errno{"5000": 0, "soon": kafka.InvalidConfig} {
		create := createRequest("b")
		create.ValidateOnly = true
		create.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: &value}}
		if got := codes(ask[*kmsg.CreateTopicsResponse](n, create, 7))["b"]; got != want {
			t.Errorf("CreateTopics %s: %v", value, got)
		}
		incremental := kmsg.NewPtrIncrementalAlterConfigsRequest()
		incremental.ValidateOnly = true
		replacing := kmsg.NewPtrAlterConfigsRequest()
		replacing.ValidateOnly = true
		for _, one := range []struct {
			kind      kmsg.ConfigResourceType
			name, key string
		}{{ofTopic, "a", "retention.ms"}, {ofBroker, "", "log.retention.ms"}, {ofBroker, "7", "remote.fetch.max.wait.ms"}} {
			incremental.Resources = append(incremental.Resources, kmsg.IncrementalAlterConfigsRequestResource{
				ResourceType: one.kind, ResourceName: one.name,
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: one.key, Op: set, Value: &value}},
			})
			replacing.Resources = append(replacing.Resources, kmsg.AlterConfigsRequestResource{
				ResourceType: one.kind, ResourceName: one.name,
				Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: one.key, Value: &value}},
			})
		}
		for _, answer := range ask[*kmsg.IncrementalAlterConfigsResponse](n, incremental, 1).Resources {
			if (answer.ErrorCode == 0) != (want == 0) {
				t.Errorf("IncrementalAlterConfigs %q %s: %v", answer.ResourceName, value, kafka.Errno(answer.ErrorCode))
			}
		}
		for _, answer := range ask[*kmsg.AlterConfigsResponse](n, replacing, 2).Resources {
			if (answer.ErrorCode == 0) != (want == 0) {
				t.Errorf("AlterConfigs %q %s: %v", answer.ResourceName, value, kafka.Errno(answer.ErrorCode))
			}
		}
	}
	for count, want := range map[int32]kafka.Errno{3: 0, 1: kafka.InvalidPartitions} {
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.ValidateOnly = true
		grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: count}}
		if got := ask[*kmsg.CreatePartitionsResponse](n, grow, 3).Topics[0]; kafka.Errno(got.ErrorCode) != want {
			t.Errorf("CreatePartitions to %d: %v", count, kafka.Errno(got.ErrorCode))
		}
	}
	if n.meta.Image().Index != index {
		t.Error("something was committed")
	}
}

// TestDefaultsOfTopicsMustFitEachOther as Kafka checks them when they are altered.
func TestDefaultsOfTopicsMustFitEachOther(t *testing.T) {
	n := newTestNode(t, map[string]string{"log.retention.ms": "10000"})
	for _, test := range []struct {
		broker, key, value string
		want               kafka.Errno
	}{
		{"", "log.local.retention.ms", "20000", kafka.InvalidRequest},
		{"7", "log.local.retention.ms", "-1", kafka.InvalidRequest},
		{"", "log.local.retention.ms", "5000", 0},
		{"7", "log.retention.ms", "4000", kafka.InvalidRequest},
		{"7", "log.retention.ms", "6000", 0},
		{"", "log.local.retention.bytes", "5", 0},
		{"", "log.retention.bytes", "4", kafka.InvalidRequest},
	} {
		if code, message := n.alterOne(ofBroker, test.broker, set, test.key, test.value); code != test.want {
			t.Errorf("%q %s=%s: %v %s, want %v", test.broker, test.key, test.value, code, message, test.want)
		}
	}
}
