package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
)

// brokerWith is a broker on which these settings are set.
func brokerWith(settings map[string]string) BrokerLookup {
	return BrokerLayers{Static: func(name string) (string, bool) {
		value, ok := settings[name]
		return value, ok
	}}.Lookup
}

func TestWhatAGroupMaySetIsBoundedByTheBroker(t *testing.T) {
	for _, test := range []struct {
		name         string
		group        map[string]string
		broker       map[string]string
		want, saying string
	}{
		{name: "nothing"},
		{name: "the bounds themselves", group: map[string]string{
			"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000",
			"consumer.assignment.interval.ms": "0",
		}},
		{name: "other bounds", group: map[string]string{"consumer.session.timeout.ms": "9000"},
			broker: map[string]string{"group.consumer.min.session.timeout.ms": "9000"}},
		{name: "below the least", group: map[string]string{"consumer.session.timeout.ms": "44999"},
			saying: "must be at least group.consumer.min.session.timeout.ms, which is 45000"},
		{name: "above the most", group: map[string]string{"consumer.heartbeat.interval.ms": "15001"},
			saying: "must be at most group.consumer.max.heartbeat.interval.ms, which is 15000"},
		{name: "no number", group: map[string]string{"consumer.assignment.interval.ms": "soon"}, saying: "whole number"},
		{name: "a slip", group: map[string]string{"consumer.session.timeout": "1"},
			saying: "did you mean consumer.session.timeout.ms?"},
		{name: "a heartbeat as long as a session of its own",
			group: map[string]string{
				"consumer.session.timeout.ms": "15000", "consumer.heartbeat.interval.ms": "15000",
			},
			broker: map[string]string{"group.consumer.min.session.timeout.ms": "15000"},
			saying: "consumer.session.timeout.ms (15000) must be greater than consumer.heartbeat.interval.ms (15000)"},
		{name: "a heartbeat as long as the broker's session",
			group: map[string]string{"consumer.heartbeat.interval.ms": "15000"},
			broker: map[string]string{
				"group.consumer.min.session.timeout.ms": "15000", "group.consumer.session.timeout.ms": "15000",
			},
			saying: "must be greater than"},
		{name: "a group that leaves alone what does not fit on the broker",
			group:  map[string]string{"consumer.assignment.interval.ms": "5"},
			broker: map[string]string{"group.consumer.session.timeout.ms": "5"}},
		{name: "an assignor of the broker's", group: map[string]string{"streams.assignor.name": "sticky"}},
		{name: "another one", group: map[string]string{"streams.assignor.name": "range"}, saying: "must be one of"},
		{name: "a duration", group: map[string]string{"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S"}},
		{name: "no duration", group: map[string]string{"share.auto.offset.reset": "by_duration:PT"}, saying: "ISO 8601"},
		{name: "an entry twice", group: map[string]string{"streams.rack.aware.assignment.tags": "a,b,a"}, saying: "twice"},
		{name: "an internal topic", group: map[string]string{"errors.deadletterqueue.topic.name": "__x"}, saying: "__"},
	} {
		err := CheckGroup(test.group, brokerWith(test.broker))
		switch {
		case test.saying == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.saying != "" && (!errors.Is(err, kafka.InvalidConfig) || !strings.Contains(err.Error(), test.saying)):
			t.Errorf("%s: %v, want %q", test.name, err, test.saying)
		}
	}
}

func TestTheBrokersOwnSettingsOfGroupsLieWithinItsBounds(t *testing.T) {
	for saying, set := range map[string]map[string]string{
		"":                       {},
		"must be less than":      {"group.share.heartbeat.interval.ms": "15000", "group.share.session.timeout.ms": "15000", "group.share.min.session.timeout.ms": "1"},
		"group.streams.max.ses":  {"group.streams.session.timeout.ms": "60001"},
		"at least group.consume": {"group.consumer.min.assignment.interval.ms": "1001"},
		"must be at least":       {"group.consumer.max.heartbeat.interval.ms": "4999"},
	} {
		err := CheckBrokerGroups(brokerWith(set))
		if (err != nil) != (saying != "") || err != nil && (!strings.Contains(err.Error(), saying) || !errors.Is(err, kafka.InvalidRequest)) {
			t.Errorf("%v: %v, want %q", set, err, saying)
		}
	}
}

func TestDescribeGroup(t *testing.T) {
	layers := BrokerLayers{
		DynamicDefault: map[string]string{"group.consumer.assignment.interval.ms": "7"},
		Static: func(name string) (string, bool) {
			if name == "group.consumer.session.timeout.ms" {
				return "50000", true
			}
			return "", false
		},
	}
	own := map[string]string{"consumer.session.timeout.ms": " 55000 ", "streams.num.warmup.replicas": "3"}
	type described struct {
		value  string
		from   []Synonym
		source Source
	}
	got := map[string]described{}
	for _, entry := range DescribeGroup(own, layers) {
		one := described{source: entry.Source}
		if entry.Value != nil {
			one.value = *entry.Value
		}
		for _, synonym := range entry.Synonyms {
			one.from = append(one.from, Synonym{Name: synonym.Name + "=" + *synonym.Value, Source: synonym.Source})
		}
		got[entry.Name] = one
		if entry.ReadOnly {
			t.Errorf("%s is read-only", entry.Name)
		}
	}
	for name, want := range map[string]described{
		"consumer.session.timeout.ms": {"55000", []Synonym{
			{"consumer.session.timeout.ms=55000", nil, DynamicGroup},
			{"group.consumer.session.timeout.ms=50000", nil, StaticBroker},
			{"group.consumer.session.timeout.ms=45000", nil, BuiltIn},
		}, DynamicGroup},
		"consumer.assignment.interval.ms": {"7", []Synonym{
			{"group.consumer.assignment.interval.ms=7", nil, DynamicDefaultBroker},
			{"group.consumer.assignment.interval.ms=1000", nil, BuiltIn},
		}, DynamicDefaultBroker},
		"streams.assignor.name":   {"sticky", []Synonym{{"group.streams.assignors=sticky", nil, BuiltIn}}, BuiltIn},
		"share.auto.offset.reset": {"latest", []Synonym{{"share.auto.offset.reset=latest", nil, BuiltIn}}, BuiltIn},
	} {
		if diff := cmp.Diff(want, got[name], cmp.AllowUnexported(described{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, shown := got["streams.num.warmup.replicas"]; !shown {
		t.Error("an internal setting is not shown though it is set")
	}
	if _, shown := got["consumer.assignor.offload.enable"]; shown || len(got) != 22 {
		t.Errorf("%d settings are shown", len(got))
	}
}
