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

// settingCases read and change settings, and ask what only tools want to know.
func settingCases() []testCase {
	return []testCase{
		{key: wire.KeyDescribeConfigs, name: "a topic", run: askTopicSettings},
		{key: wire.KeyDescribeConfigs, name: "the broker", run: askBrokerSettings},
		{key: wire.KeyDescribeConfigs, name: "other resources", run: askOtherResources},
		{key: wire.KeyIncrementalAlterConfigs, name: "a topic", run: askAlterTopic},
		{key: wire.KeyIncrementalAlterConfigs, name: "the broker", run: askAlterBroker},
		{key: wire.KeyAlterConfigs, name: "a topic", run: askReplaceTopic},
		{key: wire.KeyAlterConfigs, name: "the broker", run: askReplaceBroker},
		{key: wire.KeyDescribeLogDirs, name: "sizes", run: askLogDirs},
		{key: wire.KeyAlterReplicaLogDirs, name: "moves", run: askMoves},
		{key: wire.KeyElectLeaders, name: "elections", run: askElections},
		{key: wire.KeyAlterPartitionAssignments, name: "reassignments", run: askReassign},
		{key: wire.KeyListPartitionReassignments, name: "none under way", run: askReassignments},
		{key: wire.KeyListConfigResources, name: "resources", run: askResources},
	}
}

const (
	topicResource  = 2
	brokerResource = 4

	loggerResource  = 8
	metricsResource = 16
	groupResource   = 32
)

func (s *script) askDescribe(step string, kind kmsg.ConfigResourceType, name string, keys []string,
	change func(*kmsg.DescribeConfigsRequest),
) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, one)
	if change != nil {
		change(req)
	}
	s.ask(step, req)
}

func withSynonyms(req *kmsg.DescribeConfigsRequest) { req.IncludeSynonyms = true }

func askTopicSettings(s *script) {
	plain := s.create("plain")
	set := s.create("set", "retention.ms", "1000", "cleanup.policy", "compact", "segment.bytes", "2000000")
	s.askDescribe("every default", topicResource, plain, nil, withSynonyms)
	s.askDescribe("some set", topicResource, set, nil, withSynonyms)
	s.askDescribe("without synonyms", topicResource, set, nil, nil)
	s.askDescribe("with documentation", topicResource, set, nil, func(req *kmsg.DescribeConfigsRequest) {
		req.IncludeDocumentation = true
	})
	s.askDescribe("two of them", topicResource, set, []string{"retention.ms", "retention.bytes"}, withSynonyms)
	s.askDescribe("one that does not exist", topicResource, set, []string{"retention.ms", "no.such.setting"}, nil)
	s.askDescribe("an empty list", topicResource, set, []string{}, nil)
	s.askDescribe("a topic that does not exist", topicResource, s.topic("none"), nil, nil)
	s.askDescribe("an illegal name", topicResource, "a/b", nil, nil)
	s.askDescribe("an empty name", topicResource, "", nil, nil)
	s.askDescribe("the same topic twice", topicResource, plain, []string{"retention.ms"}, func(req *kmsg.DescribeConfigsRequest) {
		req.Resources = append(req.Resources, req.Resources[0])
	})
}

func askBrokerSettings(s *script) {
	s.askDescribe("all", brokerResource, "1", nil, withSynonyms)
	s.askDescribe("two of them", brokerResource, "1", []string{"log.retention.ms", "num.partitions"}, withSynonyms)
	s.askDescribe("those of all brokers", brokerResource, "", nil, withSynonyms)
	s.askDescribe("another broker", brokerResource, "2", nil, nil)
	s.askDescribe("no number", brokerResource, "one", nil, nil)
}

func askOtherResources(s *script) {
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 8, 16, 32, 99, -1} {
		s.askDescribe(fmt.Sprintf("type %d", kind), kind, "x", nil, nil)
	}
	s.ask("none", kmsg.NewPtrDescribeConfigsRequest())
}

func change(name string, op kmsg.IncrementalAlterConfigOp, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: op, Value: &value}
}

func changeToNull(name string, op kmsg.IncrementalAlterConfigOp) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: op}
}

func (s *script) askAlter(step string, kind kmsg.ConfigResourceType, name string, validateOnly bool,
	changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig,
) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.Configs = kind, name, changes
	req.Resources, req.ValidateOnly = append(req.Resources, one), validateOnly
	s.ask(step, req)
}

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract
)

// askNow compares the settings of a topic once a change has arrived at the broker that is asked.
func (s *script) askNow(step, topic, key, value string) {
	s.poll("setting "+key+" of "+topic+" does not become "+value, func() bool {
		req := kmsg.NewPtrDescribeConfigsRequest()
		one := kmsg.NewDescribeConfigsRequestResource()
		one.ResourceType, one.ResourceName, one.ConfigNames = topicResource, topic, []string{key}
		req.Resources = append(req.Resources, one)
		configs := quiet[*kmsg.DescribeConfigsResponse](s, req, 4).Resources[0].Configs
		return len(configs) == 1 && configs[0].Value != nil && *configs[0].Value == value
	})
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.SetVersion(4)
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = topicResource, topic
	req.Resources, req.IncludeSynonyms = append(req.Resources, one), true
	s.askAsIs(step, req)
}

func askAlterTopic(s *script) {
	topic := s.create("a", "cleanup.policy", "compact")
	ask := func(step string, changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) {
		s.askAlter(step, topicResource, topic, false, changes...)
	}
	s.askAlter("only validated", topicResource, topic, true, change("retention.ms", opSet, "1"))
	s.askAlter("only validated and bad", topicResource, topic, true, change("retention.ms", opSet, "soon"))
	ask("set", change("retention.ms", opSet, "5000"))
	s.askNow("settings after set", topic, "retention.ms", "5000")
	ask("append", change("cleanup.policy", opAppend, "delete"))
	s.askNow("settings after append", topic, "cleanup.policy", "compact,delete")
	ask("append what is there", change("cleanup.policy", opAppend, "delete"))
	ask("subtract", change("cleanup.policy", opSubtract, "compact"))
	s.askNow("settings after subtract", topic, "cleanup.policy", "delete")
	ask("subtract what is not there", change("cleanup.policy", opSubtract, "compact"))
	ask("delete", changeToNull("retention.ms", opDelete))
	s.askNow("settings after delete", topic, "retention.ms", "604800000")
	ask("delete what is not set", changeToNull("retention.ms", opDelete))
	ask("delete with a value", change("segment.ms", opDelete, "7"))
	ask("delete what does not exist", changeToNull("no.such.setting", opDelete))
	ask("set to null", changeToNull("retention.ms", opSet))
	ask("append null", changeToNull("cleanup.policy", opAppend))
	ask("append to what is no list", change("retention.ms", opAppend, "5"))
	ask("subtract from what is no list", change("retention.ms", opSubtract, "5"))
	ask("append to what does not exist", change("no.such.setting", opAppend, "5"))
	ask("an operation that does not exist", change("retention.ms", 9, "5"))
	ask("the same twice", change("retention.ms", opSet, "5"), change("retention.ms", opSet, "6"))
	ask("set and delete", change("retention.ms", opSet, "5"), changeToNull("retention.ms", opDelete))
	ask("none")
	for _, bad := range badSettings() {
		s.askAlter(fmt.Sprintf("%s=%s", bad.Name, *bad.Value), topicResource, topic, true, change(bad.Name, opSet, *bad.Value))
	}
	s.askAlter("a topic that does not exist", topicResource, s.topic("none"), false, change("retention.ms", opSet, "5"))
	s.askAlter("an illegal name", topicResource, "a/b", false, change("retention.ms", opSet, "5"))
	s.askAlter("an empty name", topicResource, "", false, change("retention.ms", opSet, "5"))
	s.askAlter("a logger", loggerResource, "1", true, change("kafka.server", opSet, "DEBUG"))
	s.askAlter("client metrics", metricsResource, "x", true, change("interval.ms", opSet, "1000"))
	s.askAlter("a group", groupResource, "x", true, change("consumer.session.timeout.ms", opSet, "50000"))
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 99} {
		s.askAlter(fmt.Sprintf("type %d", kind), kind, "x", true, change("retention.ms", opSet, "5"))
	}
	twice := kmsg.NewPtrIncrementalAlterConfigsRequest()
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = topicResource, topic
	one.Configs = append(one.Configs, change("retention.ms", opSet, "5"))
	other := one
	other.ResourceName = s.topic("none")
	twice.Resources = append(twice.Resources, one, one, other)
	s.ask("the same topic twice", twice)
	s.ask("no resources", kmsg.NewPtrIncrementalAlterConfigsRequest())
}

func askAlterBroker(s *script) {
	for _, name := range []string{"1", ""} {
		ask := func(step string, changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) {
			s.askAlter(fmt.Sprintf("broker %q: %s", name, step), brokerResource, name, false, changes...)
		}
		ask("set", change("log.retention.ms", opSet, "600000000"))
		ask("delete", changeToNull("log.retention.ms", opDelete))
		ask("a bad value", change("log.retention.ms", opSet, "soon"))
		ask("null", changeToNull("log.retention.ms", opSet))
		ask("what does not exist", change("no.such.setting", opSet, "1"))
		ask("what is read at start", change("log.dirs", opSet, "elsewhere"))
		ask("delete what is read at start", changeToNull("log.dirs", opDelete))
		ask("the same twice", change("log.retention.ms", opSet, "1"), change("log.retention.ms", opSet, "2"))
		ask("append to what is no list", change("log.retention.ms", opAppend, "5"))
		ask("append", change("log.cleanup.policy", opAppend, "compact"))
		ask("delete what was appended", changeToNull("log.cleanup.policy", opDelete))
		ask("when logins are renewed", change("sasl.kerberos.min.time.before.relogin", opSet, "58000"))
		ask("delete when logins are renewed", changeToNull("sasl.kerberos.min.time.before.relogin", opDelete))
	}
	for _, name := range []string{"", "1"} {
		s.askDynamic(name)
	}
	s.askAlter("another broker", brokerResource, "2", true, change("log.retention.ms", opSet, "5"))
	s.askAlter("no number", brokerResource, "one", true, change("log.retention.ms", opSet, "5"))
}

// askDynamic alters settings of a broker that no topic inherits, and takes them back.
func (s *script) askDynamic(broker string) {
	altered := map[string]string{
		"max.connections": "100000", "max.connections.per.ip.overrides": "192.0.2.1:7", "remote.fetch.max.wait.ms": "600",
		"num.io.threads": "9", "log.cleaner.backoff.ms": "16000", "producer.id.expiration.ms": "86300000",
	}
	keys := slices.Sorted(maps.Keys(altered))
	for _, key := range keys {
		s.askAlter(fmt.Sprintf("broker %q: %s", broker, key), brokerResource, broker, false, change(key, opSet, altered[key]))
		s.askAlter(fmt.Sprintf("broker %q: %s is nonsense", broker, key), brokerResource, broker, false, change(key, opSet, "soon"))
	}
	s.askAlter(fmt.Sprintf("broker %q: local retention beyond the whole", broker), brokerResource, broker, false,
		change("log.local.retention.ms", opSet, "999999999999"))
	describe := func() *kmsg.DescribeConfigsRequest {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.SetVersion(4)
		one := kmsg.NewDescribeConfigsRequestResource()
		one.ResourceType, one.ResourceName, one.ConfigNames = brokerResource, "1", keys
		req.Resources, req.IncludeSynonyms = append(req.Resources, one), true
		return req
	}
	s.poll("the settings of broker "+broker+" do not arrive", func() bool {
		return !slices.ContainsFunc(quiet[*kmsg.DescribeConfigsResponse](s, describe(), 4).Resources[0].Configs,
			func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
				return c.Value == nil || *c.Value != altered[c.Name]
			})
	})
	s.askAsIs(fmt.Sprintf("broker %q: described", broker), describe())
	for _, key := range keys {
		s.askAlter(fmt.Sprintf("broker %q: %s taken back", broker, key), brokerResource, broker, false, changeToNull(key, opDelete))
	}
}

func (s *script) askReplace(step string, kind kmsg.ConfigResourceType, name string, validateOnly bool,
	settings ...kmsg.AlterConfigsRequestResourceConfig,
) {
	req := kmsg.NewPtrAlterConfigsRequest()
	one := kmsg.NewAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.Configs = kind, name, settings
	req.Resources, req.ValidateOnly = append(req.Resources, one), validateOnly
	s.ask(step, req)
}

func replacement(name, value string) kmsg.AlterConfigsRequestResourceConfig {
	return kmsg.AlterConfigsRequestResourceConfig{Name: name, Value: &value}
}

func askReplaceTopic(s *script) {
	topic := s.create("a", "cleanup.policy", "compact", "segment.ms", "100000")
	ask := func(step string, settings ...kmsg.AlterConfigsRequestResourceConfig) {
		s.askReplace(step, topicResource, topic, false, settings...)
	}
	s.askReplace("only validated", topicResource, topic, true, replacement("retention.ms", "1"))
	ask("replaced", replacement("retention.ms", "5000"))
	s.askNow("settings after it", topic, "retention.ms", "5000")
	ask("a bad value", replacement("retention.ms", "soon"))
	ask("what does not exist", replacement("no.such.setting", "1"))
	ask("null", kmsg.AlterConfigsRequestResourceConfig{Name: "retention.ms"})
	ask("the same twice", replacement("retention.ms", "1"), replacement("retention.ms", "2"))
	ask("none")
	s.askNow("settings after none", topic, "retention.ms", "604800000")
	s.askReplace("a topic that does not exist", topicResource, s.topic("none"), false, replacement("retention.ms", "1"))
	s.askReplace("an illegal name", topicResource, "a/b", false, replacement("retention.ms", "1"))
	s.askReplace("an empty name", topicResource, "", false, replacement("retention.ms", "1"))
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 99} {
		s.askReplace(fmt.Sprintf("type %d", kind), kind, "x", true, replacement("retention.ms", "1"))
	}
	twice := kmsg.NewPtrAlterConfigsRequest()
	one := kmsg.NewAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = topicResource, topic
	one.Configs = append(one.Configs, replacement("retention.ms", "5"))
	twice.Resources = append(twice.Resources, one, one)
	if s.version == 2 { // it takes time, as Kafka does not answer
		s.askBriefly("the same topic twice", twice)
	}
	s.ask("no resources", kmsg.NewPtrAlterConfigsRequest())
}

func askReplaceBroker(s *script) {
	for _, name := range []string{"1", ""} {
		ask := func(step string, settings ...kmsg.AlterConfigsRequestResourceConfig) {
			s.askReplace(fmt.Sprintf("broker %q: %s", name, step), brokerResource, name, true, settings...)
		}
		ask("set", replacement("log.retention.ms", "600000000"))
		ask("a bad value", replacement("log.retention.ms", "soon"))
		ask("null", kmsg.AlterConfigsRequestResourceConfig{Name: "log.retention.ms"})
		ask("what does not exist", replacement("no.such.setting", "1"))
		ask("what is read at start", replacement("log.dirs", "elsewhere"))
	}
	s.askReplace("another broker", brokerResource, "2", true, replacement("log.retention.ms", "5"))
	s.askReplace("no number", brokerResource, "one", true, replacement("log.retention.ms", "5"))
}

func askLogDirs(s *script) {
	topic := s.createWith("a", 2)
	s.produce(topic, plain(s.start, 3), plain(s.start, 3))
	ask := func(step, topic string, partitions ...int32) {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = append(req.Topics, kmsg.DescribeLogDirsRequestTopic{Topic: topic, Partitions: partitions})
		s.ask(step, req)
	}
	ask("one of two partitions", topic, 0)
	ask("both partitions", topic, 0, 1)
	ask("an unknown partition", topic, 9)
	ask("an unknown topic", s.topic("none"), 0)
	ask("no partitions", topic)
	none := kmsg.NewPtrDescribeLogDirsRequest()
	none.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	s.ask("an empty list", none)
}

func askMoves(s *script) {
	topic := s.createWith("a", 2)
	s.produce(topic, plain(s.start, 3))
	home := quiet[*kmsg.DescribeLogDirsResponse](s, kmsg.NewPtrDescribeLogDirsRequest(), 4).Dirs[0].Dir
	to := func(dir, topic string, partitions ...int32) kmsg.AlterReplicaLogDirsRequestDir {
		return kmsg.AlterReplicaLogDirsRequestDir{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{
			{Topic: topic, Partitions: partitions},
		}}
	}
	ask := func(step string, dirs ...kmsg.AlterReplicaLogDirsRequestDir) {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Dirs = dirs
		s.ask(step, req)
	}
	ask("where it lies", to(home, topic, 0))
	ask("both partitions", to(home, topic, 0, 1))
	ask("an unknown directory", to("/elsewhere", topic, 0))
	ask("a directory without a name", to("", topic, 0))
	ask("a relative directory", to("log", topic, 0))
	ask("an unknown partition", to(home, topic, 0, 9, -1))
	ask("an unknown topic", to(home, s.topic("none"), 0))
	ask("an unknown topic and directory", to("/elsewhere", s.topic("none"), 0))
	ask("an illegal name", to(home, "a/b", 0))
	ask("a long name", to(home, strings.Repeat("x", 213), 0), to(home, strings.Repeat("y", 214), 0, 10))
	ask("a long name and an unknown directory", to("/elsewhere", strings.Repeat("y", 240), 0))
	ask("two directories", to("/elsewhere", topic, 0), to(home, topic, 1))
	ask("the same partition twice", to("/elsewhere", topic, 0), to(home, topic, 0))
	ask("no partitions", to(home, topic))
	ask("no topics", kmsg.AlterReplicaLogDirsRequestDir{Dir: home})
	ask("no directories")
}

func askElections(s *script) {
	topic := s.createWith("a", 2)
	ask := func(step string, kind int8, topic string, partitions ...int32) {
		req := kmsg.NewPtrElectLeadersRequest()
		req.ElectionType, req.TimeoutMillis = kind, 10_000
		req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: topic, Partitions: partitions})
		s.ask(step, req)
	}
	for _, kind := range []int8{0, 1} {
		ask(fmt.Sprintf("type %d", kind), kind, topic, 0, 1)
		ask(fmt.Sprintf("type %d, an unknown partition", kind), kind, topic, 9, 0)
		ask(fmt.Sprintf("type %d, an unknown topic", kind), kind, s.topic("none"), 0)
		ask(fmt.Sprintf("type %d, an illegal name", kind), kind, "a/b", 0)
		ask(fmt.Sprintf("type %d, no partitions", kind), kind, topic)
		all := kmsg.NewPtrElectLeadersRequest()
		all.ElectionType, all.TimeoutMillis = kind, 10_000
		s.ask(fmt.Sprintf("type %d, all", kind), all)
		all.Topics = []kmsg.ElectLeadersRequestTopic{}
		s.ask(fmt.Sprintf("type %d, none", kind), all)
	}
	if s.version >= 1 {
		ask("a type that does not exist", 7, topic, 0)
	}
}

func askReassign(s *script) {
	topic := s.createWith("a", 2)
	ask := func(step, topic string, partition int32, replicas []int32) {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis, req.AllowReplicationFactorChange = 10_000, true
		one := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		one.Topic = topic
		asked := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		asked.Partition, asked.Replicas = partition, replicas
		one.Partitions = append(one.Partitions, asked)
		req.Topics = append(req.Topics, one)
		s.ask(step, req)
	}
	ask("to where it is", topic, 0, []int32{1})
	ask("to a broker that does not exist", topic, 0, []int32{9})
	ask("to more brokers", topic, 0, []int32{1, 9})
	ask("to one broker twice", topic, 0, []int32{1, 1})
	ask("to nobody", topic, 0, []int32{})
	ask("to a negative broker", topic, 0, []int32{-1})
	ask("cancelled", topic, 0, nil)
	ask("an unknown partition", topic, 9, []int32{1})
	ask("an unknown partition cancelled", topic, 9, nil)
	ask("an unknown topic", s.topic("none"), 0, []int32{1})
	ask("an unknown topic cancelled", s.topic("none"), 0, nil)
	ask("an illegal name", "a/b", 0, []int32{1})
	none := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	none.TimeoutMillis = 10_000
	s.ask("none", none)
	none.AllowReplicationFactorChange = false
	s.ask("none, and the number of replicas stays", none)
}

func askReassignments(s *script) {
	topic := s.createWith("a", 2)
	ask := func(step, topic string, partitions ...int32) {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.TimeoutMillis = 10_000
		req.Topics = append(req.Topics, kmsg.ListPartitionReassignmentsRequestTopic{Topic: topic, Partitions: partitions})
		s.ask(step, req)
	}
	ask("of a topic", topic, 0, 1)
	ask("of an unknown partition", topic, 9)
	ask("of an unknown topic", s.topic("none"), 0)
	s.ask("of all", kmsg.NewPtrListPartitionReassignmentsRequest())
}

func askResources(s *script) {
	ask := func(step string, kinds ...int8) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = kinds
		s.ask(step, req)
	}
	ask("all")
	for _, kind := range []int8{2, 4, 8, 16, 32, 0, 1, 99, -1} {
		ask(fmt.Sprintf("type %d", kind), kind)
	}
	ask("two types", 2, 4)
	ask("a type twice", 4, 4)
}
