package config

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/firnlog/firn/internal/kafka"
)

// set is a broker on which the given settings are set.
func set(values map[string]string) BrokerLookup {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

func TestResolveTopicWithNothingSetIsKafkasDefaults(t *testing.T) {
	got, err := ResolveTopic(nil, NoBroker)
	if err != nil {
		t.Fatal(err)
	}
	want := TopicConfig{
		CleanupDelete: true, CompressionType: "producer", CompressionGzipLevel: -1, CompressionLZ4Level: 9,
		CompressionZstdLevel: 3, RetentionMs: 604800000, RetentionBytes: -1,
		LocalRetentionMs: -2, LocalRetentionBytes: -2, SegmentBytes: 1 << 30, SegmentMs: 604800000,
		SegmentIndexBytes: 10485760, IndexIntervalBytes: 4096, MaxMessageBytes: 1048588,
		MaxDecompressedMessageBytes: 2147483639, MinInsyncReplicas: 1, TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs: 3600000, FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64, FileDeleteDelayMs: 60000,
		RemoteDelete: true, RemoteCopyLagBytes: -1, DeleteRetentionMs: 86400000, MaxCompactionLagMs: math.MaxInt64,
		MinCleanableDirtyRatio: 0.5,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestResolveTopicInheritsFromTheBroker(t *testing.T) {
	tests := []struct {
		name      string
		overrides map[string]string
		broker    map[string]string
		check     func(TopicConfig) bool
	}{
		{"an override is stronger than the broker", map[string]string{"retention.ms": "5"},
			map[string]string{"log.retention.ms": "7"}, func(c TopicConfig) bool { return c.RetentionMs == 5 }},
		{"retention in ms is stronger than minutes and hours", nil,
			map[string]string{"log.retention.ms": "7", "log.retention.minutes": "1", "log.retention.hours": "1"},
			func(c TopicConfig) bool { return c.RetentionMs == 7 }},
		{"retention in minutes is stronger than hours", nil,
			map[string]string{"log.retention.minutes": "5", "log.retention.hours": "1"},
			func(c TopicConfig) bool { return c.RetentionMs == 300_000 }},
		{"retention in hours", nil, map[string]string{"log.retention.hours": "24"},
			func(c TopicConfig) bool { return c.RetentionMs == 86_400_000 }},
		{"no retention in hours is no retention", nil, map[string]string{"log.retention.hours": "-1"},
			func(c TopicConfig) bool { return c.RetentionMs == -1 }},
		{"any negative retention is none", nil, map[string]string{"log.retention.ms": "-3", "log.retention.bytes": "-7"},
			func(c TopicConfig) bool { return c.RetentionMs == -1 && c.RetentionBytes == -1 }},
		{"roll in ms is stronger than hours", nil, map[string]string{"log.roll.ms": "9", "log.roll.hours": "1"},
			func(c TopicConfig) bool { return c.SegmentMs == 9 }},
		{"roll in hours", nil, map[string]string{"log.roll.hours": "2"},
			func(c TopicConfig) bool { return c.SegmentMs == 7_200_000 }},
		{"jitter in ms is stronger than hours", nil,
			map[string]string{"log.roll.jitter.ms": "3", "log.roll.jitter.hours": "1"},
			func(c TopicConfig) bool { return c.SegmentJitterMs == 3 }},
		{"jitter is never longer than the span", map[string]string{"segment.ms": "10", "segment.jitter.ms": "11"}, nil,
			func(c TopicConfig) bool { return c.SegmentJitterMs == 10 }},
		{"flush interval is stronger than the scheduler's", nil,
			map[string]string{"log.flush.interval.ms": "4", "log.flush.scheduler.interval.ms": "9"},
			func(c TopicConfig) bool { return c.FlushMs == 4 }},
		{"flush by the scheduler's interval", nil, map[string]string{"log.flush.scheduler.interval.ms": "9"},
			func(c TopicConfig) bool { return c.FlushMs == 9 }},
		{"both cleanup policies", map[string]string{"cleanup.policy": "compact, delete"}, nil,
			func(c TopicConfig) bool { return c.CleanupCompact && c.CleanupDelete }},
		{"no cleanup policy", map[string]string{"cleanup.policy": ""}, nil,
			func(c TopicConfig) bool { return !c.CleanupCompact && !c.CleanupDelete }},
		{"internal.segment.bytes goes below segment.bytes", map[string]string{"internal.segment.bytes": "1000"}, nil,
			func(c TopicConfig) bool { return c.SegmentBytes == 1000 }},
		{"local retention follows the total", map[string]string{"retention.ms": "5", "retention.bytes": "6"}, nil,
			func(c TopicConfig) bool {
				return c.EffectiveLocalRetentionMs() == 5 && c.EffectiveLocalRetentionBytes() == 6
			}},
		{"local retention of its own", map[string]string{"local.retention.ms": "3", "local.retention.bytes": "4"}, nil,
			func(c TopicConfig) bool {
				return c.EffectiveLocalRetentionMs() == 3 && c.EffectiveLocalRetentionBytes() == 4
			}},
		{"remote storage", map[string]string{"remote.storage.enable": "TRUE", "remote.log.copy.disable": "true"}, nil,
			func(c TopicConfig) bool { return c.RemoteStorageEnable && c.RemoteCopyDisable }},
		{"broker time", nil, map[string]string{"log.message.timestamp.type": "LogAppendTime"},
			func(c TopicConfig) bool { return c.TimestampTypeLogAppend }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ResolveTopic(test.overrides, set(test.broker))
			if err != nil || !test.check(got) {
				t.Errorf("got %+v, error %v", got, err)
			}
		})
	}
}

func TestResolveTopicNamesAnUnreadableSetting(t *testing.T) {
	_, err := ResolveTopic(map[string]string{"segment.ms": "soon"}, NoBroker)
	if err == nil || !strings.Contains(err.Error(), "segment.ms") {
		t.Errorf("got %v", err)
	}
}

func TestCheckTopicChange(t *testing.T) {
	remote := func(more ...string) map[string]string {
		overrides := map[string]string{"remote.storage.enable": "true"}
		for i := 0; i < len(more); i += 2 {
			overrides[more[i]] = more[i+1]
		}
		return overrides
	}
	tests := []struct {
		name          string
		before, after map[string]string
		broker        map[string]string
		want          string // part of the error; "" is accepted
	}{
		{"nothing", nil, nil, nil, ""},
		{"no retention", nil, map[string]string{"retention.ms": "-1"}, nil, ""},
		{"retention is no number", nil, map[string]string{"retention.ms": "abc"}, nil,
			`invalid value "abc" for retention.ms: must be a whole number of type LONG`},
		{"an empty number", nil, map[string]string{"retention.ms": ""}, nil, "retention.ms"},
		{"retention below none", nil, map[string]string{"retention.ms": "-2"}, nil, "must be at least -1"},
		{"a small segment", nil, map[string]string{"segment.bytes": "1000"}, nil, "must be at least 1048576"},
		{"a small segment for tests", nil, map[string]string{"internal.segment.bytes": "1000"}, nil, ""},
		{"an unknown cleanup policy", nil, map[string]string{"cleanup.policy": "foo"}, nil,
			"each entry must be one of compact, delete"},
		{"a list with an empty entry", nil, map[string]string{"cleanup.policy": "delete,"}, nil, "may be empty"},
		{"an empty list", nil, map[string]string{"cleanup.policy": ""}, nil, ""},
		{"the same policy twice", nil, map[string]string{"cleanup.policy": "compact,compact"}, nil, ""},
		{"an unknown name", nil, map[string]string{"retention.mss": "1"}, nil, "did you mean retention.ms?"},
		{"yes is no Boolean", nil, map[string]string{"preallocate": "yes"}, nil, "must be true or false"},
		{"TRUE is a Boolean", nil, map[string]string{"preallocate": "TRUE"}, nil, ""},
		{"no in-sync replicas", nil, map[string]string{"min.insync.replicas": "0"}, nil, "must be at least 1"},
		{"an unknown codec", nil, map[string]string{"compression.type": "none"}, nil, "must be one of uncompressed"},
		{"a codec in capitals", nil, map[string]string{"compression.type": "ZSTD"}, nil, "must be one of"},
		{"a level of gzip", nil, map[string]string{"compression.gzip.level": "0"}, nil, "or -1"},
		{"blanks around a number", nil, map[string]string{"max.message.bytes": " 5 "}, nil, ""},
		{"a number too large", nil, map[string]string{"segment.ms": "9223372036854775808"}, nil, "LONG"},
		{"compaction lags the wrong way", nil,
			map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, nil, "must not exceed"},
		{"throttled replicas", nil, map[string]string{"leader.replication.throttled.replicas": "0:1 , 1:2"}, nil, ""},
		{"all replicas throttled", nil, map[string]string{"leader.replication.throttled.replicas": "*"}, nil, ""},
		{"throttled replicas in another form", nil,
			map[string]string{"leader.replication.throttled.replicas": "x"}, nil, "[partitionId]:[brokerId]"},

		{"remote storage", nil, remote(), nil, ""},
		{"remote storage of a compacted topic", nil, remote("cleanup.policy", "compact,delete"), nil, ""},
		{"remote storage that keeps everything", nil, remote("cleanup.policy", ""), nil, ""},
		{"remote storage on a broker without it", nil, remote(),
			map[string]string{"remote.log.storage.system.enable": "false"}, "remote.log.storage.system.enable"},
		{"local retention above the total", nil, remote("local.retention.ms", "1000", "retention.ms", "500"), nil,
			"local.retention.ms (1000) must not exceed retention.ms (500)"},
		{"local retention above the total of the broker", nil, remote("local.retention.ms", "1000"),
			map[string]string{"log.retention.ms": "500"}, "local.retention.ms (1000) must not exceed"},
		{"no local retention under a total one", nil, remote("local.retention.bytes", "-1", "retention.bytes", "5"), nil,
			"local.retention.bytes must not be -1"},
		{"local retention under no total one", nil, remote("local.retention.ms", "1000", "retention.ms", "-1"), nil, ""},
		{"local retention means nothing without remote storage", nil,
			map[string]string{"local.retention.ms": "1000", "retention.ms": "500"}, nil, ""},
		{"no more copies", nil, remote("remote.log.copy.disable", "true"), nil, ""},
		{"no more copies but local retention", nil,
			remote("remote.log.copy.disable", "true", "local.retention.ms", "1000"), nil, "must be the same"},
		{"copies later than local retention", nil,
			remote("remote.copy.lag.ms", "2000", "local.retention.ms", "1000"), nil, "remote.copy.lag.ms (2000)"},
		{"remote storage switched off", remote(), map[string]string{"remote.storage.enable": "false"}, nil,
			"cannot be switched off"},
		{"remote storage taken back", remote(), nil, nil, "cannot be switched off"},
		{"remote storage switched off with deletion", remote(),
			map[string]string{"remote.log.delete.on.disable": "true"}, nil, ""},
		{"remote storage kept", remote(), remote("retention.ms", "-1"), nil, ""},
		{"remote storage switched on", map[string]string{}, remote(), nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := CheckTopicChange(test.before, test.after, set(test.broker))
			if test.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, kafka.InvalidConfig) ||
				kafka.CodeOf(err) != kafka.InvalidConfig {
				t.Errorf("got %v, want an INVALID_CONFIG with %q", err, test.want)
			}
		})
	}
}

func TestCheckTopicIsForANewTopicOnABrokerWithNothingSet(t *testing.T) {
	if err := CheckTopic(map[string]string{"remote.storage.enable": "true", "retention.ms": "-1"}); err != nil {
		t.Error(err)
	}
	if err := CheckTopic(map[string]string{"nope": "1"}); kafka.CodeOf(err) != kafka.InvalidConfig {
		t.Errorf("got %v", err)
	}
}

func TestExactlyTheTopicSettingsOfTheTableAreResolved(t *testing.T) {
	changed := map[string]string{
		"cleanup.policy": "compact", "compression.type": "zstd", "internal.segment.bytes": "5",
		"message.timestamp.type": "LogAppendTime", "preallocate": "true", "remote.log.copy.disable": "true",
		"remote.log.delete.on.disable": "true", "remote.storage.enable": "true", "min.cleanable.dirty.ratio": "0.7",
		"unclean.leader.election.enable": "true", "segment.bytes": "2000000", "firn.remote.delete": "false",
		// Nothing reads these yet, nor will what reads them be a part of TopicConfig.
		"errors.deadletterqueue.group.enable": "", "leader.replication.throttled.replicas": "",
		"follower.replication.throttled.replicas": "",
	}
	defaults, err := ResolveTopic(nil, NoBroker)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range Topic() {
		value, listed := changed[setting.Name]
		if !listed {
			value = "5"
		}
		if value == "" {
			if setting.Effect == Acts {
				t.Errorf("%s is said to act, and nothing reads it", setting.Name)
			}
			continue
		}
		got, err := ResolveTopic(map[string]string{setting.Name: value}, NoBroker)
		if err != nil || got == defaults {
			t.Errorf("%s=%s changes nothing, error %v", setting.Name, value, err)
		}
	}
}
