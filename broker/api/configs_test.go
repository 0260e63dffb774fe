package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// describe answers the settings of one resource by name.
func (n *testNode) describe(kind kmsg.ConfigResourceType, name string, keys []string) (
	kmsg.DescribeConfigsResponseResource, map[string]kmsg.DescribeConfigsResponseResourceConfig,
) {
	n.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, resource)
	answer := ask[*kmsg.DescribeConfigsResponse](n, req, 4).Resources[0]
	settings := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, setting := range answer.Configs {
		settings[setting.Name] = setting
	}
	return answer, settings
}

// alterOne changes one setting of a resource.
func (n *testNode) alterOne(kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key, value string) (
	kafka.Errno, string,
) {
	n.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	setting.Name, setting.Op, setting.Value = key, op, &value
	resource.Configs = append(resource.Configs, setting)
	req.Resources = append(req.Resources, resource)
	answer := ask[*kmsg.IncrementalAlterConfigsResponse](n, req, 1).Resources[0]
	return kafka.Errno(answer.ErrorCode), deref(answer.ErrorMessage)
}

const (
	ofTopic  = kmsg.ConfigResourceTypeTopic
	ofBroker = kmsg.ConfigResourceTypeBroker
	set      = kmsg.IncrementalAlterConfigOpSet
	remove   = kmsg.IncrementalAlterConfigOpDelete
	add      = kmsg.IncrementalAlterConfigOpAppend
	subtract = kmsg.IncrementalAlterConfigOpSubtract
)

func TestDescribeConfigsAnswersOnlyTheKeysAskedFor(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1, "retention.ms", "5")
	if _, all := n.describe(ofTopic, "a", nil); len(all) < 20 {
		t.Errorf("null asks for all settings: %d answered", len(all))
	}
	_, some := n.describe(ofTopic, "a", []string{"retention.ms", "nope"})
	if len(some) != 1 {
		t.Errorf("%d settings for one known key", len(some))
	}
	retention := some["retention.ms"]
	if deref(retention.Value) != "5" || retention.Source != 1 || retention.ConfigType != kmsg.ConfigTypeLong ||
		len(retention.ConfigSynonyms) == 0 || deref(retention.Documentation) == "" {
		t.Errorf("retention.ms: %+v", retention)
	}
	for name, want := range map[string]kafka.Errno{"nope": kafka.UnknownTopicOrPartition, "bad name": kafka.InvalidTopic} {
		if answer, _ := n.describe(ofTopic, name, nil); kafka.Errno(answer.ErrorCode) != want {
			t.Errorf("topic %q: %v", name, kafka.Errno(answer.ErrorCode))
		}
	}
}

func TestDescribeConfigsOfBrokers(t *testing.T) {
	n := newTestNode(t, map[string]string{"log.retention.hours": "3"})
	_, own := n.describe(ofBroker, "7", nil)
	if setting := own["log.retention.hours"]; deref(setting.Value) != "3" || setting.Source != 4 {
		t.Errorf("a static setting: %+v", setting)
	}
	if answer, _ := n.describe(ofBroker, "8", nil); kafka.Errno(answer.ErrorCode) != kafka.InvalidRequest ||
		deref(answer.ErrorMessage) == "" {
		t.Errorf("another broker: %+v", answer)
	}
	if answer, settings := n.describe(ofBroker, "", nil); answer.ErrorCode != 0 || len(settings) != 0 {
		t.Errorf("the default of all brokers, where nothing is set: %+v", answer)
	}
	if answer, _ := n.describe(kmsg.ConfigResourceTypeBrokerLogger, "7", nil); answer.ErrorCode == 0 {
		t.Error("broker loggers have no settings here, and that must be said")
	}
}

func TestAlterConfigsOfATopic(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1, "retention.ms", "5")
	value := func(key string) (string, kmsg.ConfigSource) {
		_, settings := n.describe(ofTopic, "a", []string{key})
		return deref(settings[key].Value), settings[key].Source
	}
	if code, message := n.alterOne(ofTopic, "a", set, "segment.ms", "1000"); code != 0 {
		t.Fatal(code, message)
	}
	if got, _ := value("retention.ms"); got != "5" { // CL-03
		t.Errorf("setting one key has changed another to %s", got)
	}
	p := must(n.replicas.Partition(kafka.TopicPartition{Topic: "a"}))
	if p.Config().SegmentMs != 1000 {
		t.Errorf("the partition still has segment.ms=%d", p.Config().SegmentMs)
	}
	// AD-02: a value equal to the default is still set.
	if code, _ := n.alterOne(ofTopic, "a", set, "cleanup.policy", "delete"); code != 0 {
		t.Fatal(code)
	}
	if got, source := value("cleanup.policy"); got != "delete" || source != 1 {
		t.Errorf("cleanup.policy=%s from %d", got, source)
	}
	if code, _ := n.alterOne(ofTopic, "a", add, "cleanup.policy", "compact"); code != 0 {
		t.Fatal(code)
	}
	if got, _ := value("cleanup.policy"); got != "delete,compact" {
		t.Errorf("after appending: %s", got)
	}
	if code, _ := n.alterOne(ofTopic, "a", subtract, "cleanup.policy", "delete"); code != 0 {
		t.Fatal(code)
	}
	if got, _ := value("cleanup.policy"); got != "compact" {
		t.Errorf("after subtracting: %s", got)
	}
	if code, _ := n.alterOne(ofTopic, "a", remove, "cleanup.policy", ""); code != 0 {
		t.Fatal(code)
	}
	if got, source := value("cleanup.policy"); got != "delete" || source != 5 {
		t.Errorf("after deleting: %s from %d", got, source)
	}
}

func TestAlterConfigsErrors(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("a", 1)
	tests := []struct {
		name       string
		kind       kmsg.ConfigResourceType
		resource   string
		op         kmsg.IncrementalAlterConfigOp
		key, value string
		want       kafka.Errno
		message    string
	}{
		{name: "unknown topic", kind: ofTopic, resource: "b", op: set, key: "retention.ms", value: "1",
			want: kafka.UnknownTopicOrPartition},
		{name: "unknown setting", kind: ofTopic, resource: "a", op: set, key: "retention", value: "1",
			want: kafka.InvalidConfig, message: "retention"},
		{name: "bad value", kind: ofTopic, resource: "a", op: set, key: "retention.ms", value: "x",
			want: kafka.InvalidConfig, message: "retention.ms"},
		{name: "append to what is no list", kind: ofTopic, resource: "a", op: add, key: "retention.ms", value: "1",
			want: kafka.InvalidConfig},
		{name: "segments below 1 MiB", kind: ofTopic, resource: "a", op: set, key: "segment.bytes", value: "1000",
			want: kafka.InvalidConfig},
		{name: "a broker setting that is read at start", kind: ofBroker, resource: "7", op: set, key: "node.id",
			value: "9", want: kafka.InvalidRequest},
		{name: "another broker", kind: ofBroker, resource: "8", op: set, key: "log.retention.ms", value: "9",
			want: kafka.InvalidRequest},
		{name: "a resource without settings", kind: kmsg.ConfigResourceTypeBrokerLogger, resource: "7", op: set,
			key: "x", value: "9", want: kafka.InvalidRequest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, message := n.alterOne(test.kind, test.resource, test.op, test.key, test.value)
			if code != test.want || !strings.Contains(message, test.message) {
				t.Errorf("got %v %q, want %v", code, message, test.want)
			}
		})
	}
}

func TestBrokerDefaultsReachTopics(t *testing.T) {
	n := newTestNode(t, nil)
	n.createTopic("inherits", 1)
	n.createTopic("sets", 1, "retention.ms", "5")
	if code, message := n.alterOne(ofBroker, "", set, "log.retention.ms", "777"); code != 0 {
		t.Fatal(code, message)
	}
	for topic, want := range map[string]int64{"inherits": 777, "sets": 5} {
		p := must(n.replicas.Partition(kafka.TopicPartition{Topic: topic}))
		if got := p.Config().RetentionMs; got != want {
			t.Errorf("%s has retention.ms=%d, want %d", topic, got, want)
		}
	}
	_, settings := n.describe(ofTopic, "inherits", []string{"retention.ms"})
	if setting := settings["retention.ms"]; deref(setting.Value) != "777" || setting.Source != 3 {
		t.Errorf("described as %+v", setting)
	}
}

func TestDescribeCluster(t *testing.T) {
	n := newTestNode(t, nil)
	for version := int16(0); version <= 2; version++ {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 1
		resp := ask[*kmsg.DescribeClusterResponse](n, req, version)
		if resp.ErrorCode != 0 || len(resp.Brokers) != 1 || resp.Brokers[0].Host != "127.0.0.1" ||
			resp.ControllerID != int32(testBroker) || resp.ClusterID == "" {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2
	if resp := ask[*kmsg.DescribeClusterResponse](n, req, 1); kafka.Errno(resp.ErrorCode) != kafka.MismatchedEndpointType {
		t.Errorf("controllers are asked for: %v", kafka.Errno(resp.ErrorCode))
	}
}

func TestAdvertisedAddressOfTheListener(t *testing.T) {
	n := newTestNode(t, nil)
	must(n.meta.Propose(n.conn.Context, command.RegisterBroker{
		ID: testBroker, Directories: []kafka.UUID{n.logs.Directories()[0].ID},
		Listeners: []command.Endpoint{{Name: "PLAINTEXT", Host: "kafka.example", Port: 1234, Protocol: "PLAINTEXT"}},
	}))
	broker := ask[*kmsg.MetadataResponse](n, kmsg.NewPtrMetadataRequest(), 9).Brokers[0]
	if broker.Host != "kafka.example" || broker.Port != 1234 {
		t.Errorf("clients are told %s:%d", broker.Host, broker.Port)
	}
}

// ofGroup is the type of the settings of a group (KIP-848).
const ofGroup = kmsg.ConfigResourceType(command.ResourceGroup)

func TestSettingsOfGroups(t *testing.T) {
	n := newTestNode(t, map[string]string{"group.consumer.max.session.timeout.ms": "70000"})
	const session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
	listed := func() (groups []string) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = []int8{int8(ofGroup)}
		for _, resource := range ask[*kmsg.ListConfigResourcesResponse](n, req, 1).ConfigResources {
			groups = append(groups, resource.Name)
		}
		return groups
	}
	if _, settings := n.describe(ofGroup, "nobody", nil); deref(settings[session].Value) != "45000" ||
		settings[session].Source != 5 || settings[session].ReadOnly {
		t.Errorf("a group that does not exist: %+v", settings[session])
	}
	if groups := listed(); len(groups) > 0 {
		t.Errorf("groups that have no settings are listed: %v", groups)
	}
	for _, group := range []string{"g", "h"} {
		if code, message := n.alterOne(ofGroup, group, set, session, "65000"); code != 0 {
			t.Fatal(code, message)
		}
	}
	if _, settings := n.describe(ofGroup, "g", []string{session}); deref(settings[session].Value) != "65000" ||
		settings[session].Source != 8 || len(settings[session].ConfigSynonyms) != 2 {
		t.Errorf("set: %+v", settings[session])
	}
	if groups := listed(); !slices.Equal(groups, []string{"g", "h"}) {
		t.Errorf("listed: %v", groups)
	}
	for name, wrong := range map[string]struct {
		group, key, value string
		op                kmsg.IncrementalAlterConfigOp
		code              kafka.Errno
	}{
		"beyond the bound": {"g", session, "70001", set, kafka.InvalidConfig},
		"no name":          {"", session, "65000", set, kafka.InvalidRequest},
		"a broker's name":  {"g", "group." + session, "65000", set, kafka.InvalidConfig},
		"no list":          {"g", session, "1", add, kafka.InvalidConfig},
	} {
		if code, message := n.alterOne(ofGroup, wrong.group, wrong.op, wrong.key, wrong.value); code != wrong.code || message == "" {
			t.Errorf("%s: %v %s", name, code, message)
		}
	}
	// AlterConfigs replaces them all.
	req := kmsg.NewPtrAlterConfigsRequest()
	resource := kmsg.NewAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = ofGroup, "g"
	value := "6000"
	resource.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: heartbeat, Value: &value}}
	req.Resources = append(req.Resources, resource)
	if answer := ask[*kmsg.AlterConfigsResponse](n, req, 2).Resources[0]; answer.ErrorCode != 0 {
		t.Fatal(kafka.Errno(answer.ErrorCode), deref(answer.ErrorMessage))
	}
	_, settings := n.describe(ofGroup, "g", nil)
	if deref(settings[session].Value) != "45000" || deref(settings[heartbeat].Value) != "6000" {
		t.Errorf("replaced: %+v, %+v", settings[session], settings[heartbeat])
	}
	if code, message := n.alterOne(ofGroup, "g", remove, heartbeat, ""); code != 0 {
		t.Fatal(code, message)
	}
	if groups := listed(); !slices.Equal(groups, []string{"h"}) {
		t.Errorf("listed once one has none any more: %v", groups)
	}
	if answer, _ := n.describe(ofGroup, "", nil); kafka.Errno(answer.ErrorCode) != kafka.InvalidRequest {
		t.Errorf("a group without a name: %+v", answer)
	}
}

func TestBoundsOfGroupsHoldForTheBrokerToo(t *testing.T) {
	n := newTestNode(t, nil)
	const interval = "group.consumer.assignment.interval.ms"
	if code, message := n.alterOne(ofBroker, "", set, interval, "15001"); code != kafka.InvalidRequest {
		t.Errorf("beyond its bound: %v %s", code, message)
	}
	if code, message := n.alterOne(ofBroker, "", set, interval, "15000"); code != 0 {
		t.Errorf("the bound: %v %s", code, message)
	}
}
