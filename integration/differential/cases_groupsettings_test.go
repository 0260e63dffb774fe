//go:build integration

package differential

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// groupSettingCases are about the settings that single groups have.
func groupSettingCases() []testCase {
	return []testCase{
		{key: wire.KeyDescribeConfigs, name: "a group", run: askGroupSettings},
		{key: wire.KeyIncrementalAlterConfigs, name: "a group", run: askAlterGroup},
		{key: wire.KeyAlterConfigs, name: "a group", run: askReplaceGroup},
		{key: wire.KeyListConfigResources, name: "groups", run: askGroupResources},
	}
}

// describeGroup is a request for all that there is to know of a group's settings.
func describeGroup(group string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.ConfigNames = groupResource, group, keys
	req.Resources, req.IncludeSynonyms = append(req.Resources, one), true
	return req
}

// setGroup changes settings of a group and waits until they show.
func (s *script) setGroup(group string, settings ...string) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = groupResource, group
	for i := 0; i < len(settings); i += 2 {
		one.Configs = append(one.Configs, change(settings[i], opSet, settings[i+1]))
	}
	req.Resources = append(req.Resources, one)
	quiet[*kmsg.IncrementalAlterConfigsResponse](s, req, 1)
	s.awaitGroup(group, settings[0], settings[1])
}

func (s *script) awaitGroup(group, key, value string) {
	s.poll("setting "+key+" of "+group+" does not become "+value, func() bool {
		configs := quiet[*kmsg.DescribeConfigsResponse](s, describeGroup(group, key), 4).Resources[0].Configs
		return len(configs) == 1 && configs[0].Value != nil && *configs[0].Value == value
	})
}

// groupNow compares the settings of a group once a change has arrived.
func (s *script) groupNow(step, group, key, value string) {
	s.awaitGroup(group, key, value)
	req := describeGroup(group)
	req.SetVersion(4)
	s.askAsIs(step, req)
}

func askGroupSettings(s *script) {
	group := s.group("plain")
	s.askDescribe("one that does not exist", groupResource, group, nil, nil)
	s.askDescribe("with synonyms", groupResource, group, nil, withSynonyms)
	s.askDescribe("with documentation", groupResource, group, nil, func(req *kmsg.DescribeConfigsRequest) {
		req.IncludeDocumentation = true
	})
	s.askDescribe("one setting", groupResource, group, []string{"consumer.session.timeout.ms"}, withSynonyms)
	s.askDescribe("what does not exist", groupResource, group, []string{"no.such.setting"}, nil)
	s.askDescribe("of a topic", groupResource, group, []string{"retention.ms"}, nil)
	s.askDescribe("internal ones", groupResource, group,
		[]string{"consumer.assignor.offload.enable", "streams.num.warmup.replicas"}, nil)
	s.askDescribe("without a name", groupResource, "", nil, nil)
	set := s.group("set")
	s.setGroup(set, "consumer.session.timeout.ms", "50000", "consumer.heartbeat.interval.ms", "6000",
		"consumer.assignor.offload.enable", "false", "share.auto.offset.reset", "earliest",
		"share.isolation.level", "read_committed", "errors.deadletterqueue.topic.name", "dead",
		"streams.rack.aware.assignment.tags", "a,b", "streams.assignor.name", "sticky")
	s.askDescribe("set", groupResource, set, nil, withSynonyms)
}

func askAlterGroup(s *script) {
	group := s.group("g")
	ask := func(step string, changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) {
		s.askAlter(step, groupResource, group, false, changes...)
	}
	s.askAlter("only validated", groupResource, group, true, change("consumer.session.timeout.ms", opSet, "50000"))
	s.askAlter("only validated and bad", groupResource, group, true, change("consumer.session.timeout.ms", opSet, "soon"))
	ask("set", change("consumer.session.timeout.ms", opSet, "50000"))
	s.groupNow("settings after set", group, "consumer.session.timeout.ms", "50000")
	s.askAlter("append", groupResource, group, true, change("streams.rack.aware.assignment.tags", opAppend, "x"))
	s.askAlter("subtract", groupResource, group, true, change("streams.rack.aware.assignment.tags", opSubtract, "x"))
	ask("delete", changeToNull("consumer.session.timeout.ms", opDelete))
	s.groupNow("settings after delete", group, "consumer.session.timeout.ms", "45000")
	ask("delete what is not set", changeToNull("consumer.session.timeout.ms", opDelete))
	ask("delete what does not exist", changeToNull("no.such.setting", opDelete))
	ask("set to null", changeToNull("consumer.session.timeout.ms", opSet))
	ask("append to what is no list", change("consumer.session.timeout.ms", opAppend, "5"))
	ask("append to what does not exist", change("no.such.setting", opAppend, "5"))
	ask("what does not exist", change("no.such.setting", opSet, "5"))
	ask("a setting of topics", change("retention.ms", opSet, "5"))
	ask("a setting of brokers", change("group.consumer.session.timeout.ms", opSet, "50000"))
	ask("the same twice", change("consumer.session.timeout.ms", opSet, "50000"),
		change("consumer.session.timeout.ms", opSet, "51000"))
	ask("none")
	s.askAlter("without a name", groupResource, "", true, change("consumer.session.timeout.ms", opSet, "50000"))
	if s.version < 1 { // the values are the same in each version
		return
	}
	for _, one := range groupValues() {
		s.askAlter(fmt.Sprintf("%s=%s", one[0], one[1]), groupResource, group, true, change(one[0], opSet, one[1]))
	}
	s.askAlter("a heartbeat as long as the session", groupResource, group, true,
		change("streams.session.timeout.ms", opSet, "45000"), change("streams.heartbeat.interval.ms", opSet, "15000"))
}

// groupValues are values at and beyond the borders of what a group may have.
func groupValues() [][2]string {
	var values [][2]string
	add := func(name string, list ...string) {
		for _, value := range list {
			values = append(values, [2]string{name, value})
		}
	}
	for _, kind := range []string{"consumer.", "share.", "streams."} {
		add(kind+"session.timeout.ms", "44999", "45000", "60000", "60001", "0", "-1", "", "soon")
		add(kind+"heartbeat.interval.ms", "4999", "5000", "15000", "15001")
		add(kind+"assignment.interval.ms", "-1", "0", "15000", "15001")
		add(kind+"assignor.offload.enable", "false", "perhaps")
	}
	add("share.record.lock.duration.ms", "999", "14999", "15000", "60000", "60001")
	add("share.delivery.count.limit", "1", "2", "10", "11")
	add("share.partition.max.record.locks", "99", "100", "4000", "4001")
	add("share.auto.offset.reset", "earliest", "latest", "none", "by_duration:PT1H", "by_duration:-PT1H", "by_duration:",
		"by_duration:1h", "EARLIEST", "")
	add("share.isolation.level", "read_committed", "READ_COMMITTED", "none")
	add("share.renew.acknowledge.enable", "false", "0")
	add("errors.deadletterqueue.topic.name", "dead", "__dead", "")
	add("errors.deadletterqueue.copy.record.enable", "true", "1")
	add("streams.num.standby.replicas", "-1", "0", "2", "3")
	add("streams.num.warmup.replicas", "-1", "20", "21")
	add("streams.task.offset.interval.ms", "14999", "15000")
	add("streams.initial.rebalance.delay.ms", "-1", "0", "999999")
	add("streams.acceptable.recovery.lag", "-1", "0")
	add("streams.rack.aware.assignment.tags", "a,b", "a,a", "a,,b", "")
	add("streams.assignor.name", "sticky", "range", "")
	return values
}

func askReplaceGroup(s *script) {
	group := s.group("g")
	ask := func(step string, settings ...kmsg.AlterConfigsRequestResourceConfig) {
		s.askReplace(step, groupResource, group, false, settings...)
	}
	s.askReplace("only validated", groupResource, group, true, replacement("consumer.session.timeout.ms", "50000"))
	ask("replaced", replacement("consumer.session.timeout.ms", "50000"))
	s.groupNow("settings after it", group, "consumer.session.timeout.ms", "50000")
	ask("replaced by another", replacement("consumer.heartbeat.interval.ms", "6000"))
	s.groupNow("settings after another", group, "consumer.heartbeat.interval.ms", "6000")
	ask("a bad value", replacement("consumer.session.timeout.ms", "5"))
	ask("what does not exist", replacement("no.such.setting", "1"))
	ask("null", kmsg.AlterConfigsRequestResourceConfig{Name: "consumer.session.timeout.ms"})
	ask("none")
	s.groupNow("settings after none", group, "consumer.heartbeat.interval.ms", "5000")
	s.askReplace("without a name", groupResource, "", true, replacement("consumer.session.timeout.ms", "50000"))
}

func askGroupResources(s *script) {
	group := s.group("g")
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{groupResource}
	s.setGroup(group, "consumer.session.timeout.ms", "50000")
	s.ask("one with settings", req)
	back := kmsg.NewPtrIncrementalAlterConfigsRequest()
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = groupResource, group
	one.Configs = append(one.Configs, changeToNull("consumer.session.timeout.ms", opDelete))
	back.Resources = append(back.Resources, one)
	quiet[*kmsg.IncrementalAlterConfigsResponse](s, back, 1)
	s.awaitGroup(group, "consumer.session.timeout.ms", "45000")
	s.ask("one that had some", req)
}
