package config

import (
	"fmt"
	"slices"
	"strings"
)

// Broker lists every broker setting that may be set: Kafka's and firn's own, sorted by name. Removed ones are not in
// it, though LookupBroker knows them.
func Broker() []Setting { return slices.Clone(brokerIndex.rows) }

// LookupBroker finds a broker setting by name: those of Broker, those that Kafka has removed, and the families that
// have names of the user's making (listener.name.NAME.*, rsm.config.*, rlmm.config.*).
func LookupBroker(name string) (Setting, bool) {
	if setting, ok := brokerIndex.lookup(name); ok {
		return setting, true
	}
	if setting, ok := removedSetting(name); ok {
		return setting, true
	}
	return familySetting(name)
}

// Nearest is the broker setting that was probably meant, or "": the default of a topic setting, or the setting whose
// name is most like the given one, with Prefix or without.
func Nearest(name string) string {
	if setting, ok := topicIndex.lookup(name); ok && len(setting.Synonyms) > 0 {
		return setting.Synonyms[0]
	}
	if found := nearest(name, brokerIndex); found != "" {
		return found
	}
	if rest, ok := strings.CutPrefix(name, Prefix); ok {
		return nearest(rest, brokerIndex)
	}
	return ""
}

// brokerIndex is made once and never changed.
var brokerIndex = newIndex(brokerSettings())

func brokerSettings() []Setting {
	departures := departures()
	var settings []Setting
	for _, row := range brokerRows() {
		s := row.setting()
		s.Synonyms = sameAs(row.name)
		s.ReadOnly = row.update == ReadOnly || row.effect == Refused || readAtStart(row.name)
		s.Internal = slices.Contains(internalBrokerSettings(), row.name)
		if departure, ok := departures[row.name]; ok {
			s.Default, s.HasDefault, s.Reason = departure.value, true, departure.reason
		}
		settings = append(settings, s)
	}
	for _, row := range ownRows() {
		s := row.setting()
		s.KafkaDefault = nil
		s.Synonyms = []string{row.name}
		settings = append(settings, s)
	}
	return settings
}

func brokerRows() []row {
	return slices.Concat(brokerLogRows(), brokerTopicRows(), brokerNetworkRows(), brokerSecurityRows(), brokerGroupRows(),
		brokerShareRows(), brokerTransactionRows(), brokerRemoteRows(), brokerReplicationRows(), brokerNodeRows())
}

// readAtStart tells which settings cannot change while the node runs although Kafka's can: listeners are opened once,
// and what would keep new partitions out of a directory must not be taken before it does.
func readAtStart(name string) bool {
	switch name {
	case "listeners", "listener.security.protocol.map", "cordoned.log.dirs":
		return true
	}
	return false
}

// sameAs lists the broker settings that say the same thing, the strongest first.
func sameAs(name string) []string {
	for _, group := range [][]string{
		{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
		{"log.roll.ms", "log.roll.hours"},
		{"log.roll.jitter.ms", "log.roll.jitter.hours"},
		{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"},
	} {
		if slices.Contains(group, name) {
			return group
		}
	}
	return []string{name}
}

// departure is a default that is not Kafka's.
type departure struct{ value, reason string }

// Departures lists the settings whose default differs from Kafka's, each with its Reason.
func Departures() []Setting {
	return slices.DeleteFunc(Broker(), func(s Setting) bool { return s.Reason == "" })
}

func departures() map[string]departure {
	const (
		noConfiguration = "a node runs without any configuration"
		dataDirectory   = "everything of a node lies under firn.data.dir unless it is put elsewhere"
		socketBuffer    = "a fixed size switches the system's own tuning off, which slows fast and distant clients down"
	)
	return map[string]departure{
		"node.id":                   {"1", noConfiguration},
		"process.roles":             {"broker,controller", noConfiguration},
		"controller.listener.names": {"", noConfiguration},
		"listeners": {"PLAINTEXT://127.0.0.1:9092",
			"nobody but this machine can reach a node that was not configured: there is no authentication yet"},
		"log.dir":          {"./firn-data/log", dataDirectory},
		"metadata.log.dir": {"./firn-data/metadata", dataDirectory},
		"queued.max.request.bytes": {"1073741824",
			"what clients may claim of a node's memory is bounded from the start"},
		"socket.receive.buffer.bytes":      {"-1", socketBuffer},
		"socket.send.buffer.bytes":         {"-1", socketBuffer},
		"remote.log.storage.system.enable": {"true", "the object store is what firn is for"},
	}
}

// familySetting makes a setting of a name that is partly of the user's making.
func familySetting(name string) (Setting, bool) {
	s := Setting{Name: name, Type: String, ReadOnly: true, Effect: NoEffect, Synonyms: []string{name}}
	switch {
	case strings.HasPrefix(name, "rsm.config."):
		s.Doc = "No Java classes are loaded: the object store is firn.object.store."
	case strings.HasPrefix(name, "rlmm.config."):
		s.Doc = "What is remote is recorded in the metadata of the cluster."
	case strings.HasPrefix(name, "listener.name."):
		s.Doc = "Settings of one listener alone have no effect."
		if strings.Contains(name, ".ssl.") || strings.Contains(name, ".sasl.") ||
			strings.HasSuffix(name, ".principal.builder.class") {
			s.Effect, s.Doc, s.Type, s.Sensitive = Refused, refusedDoc, Password, true
		}
	case name == "super.users" || name == "allow.everyone.if.no.acl.found":
		s.Effect, s.Doc = Refused, refusedDoc // of Kafka's own authorizer
	default:
		return Setting{}, false
	}
	return s, true
}

// internalBrokerSettings are Kafka's undocumented ones, which nobody means by a slip.
func internalBrokerSettings() []string {
	return []string{
		"controller.performance.always.log.threshold.ms", "controller.performance.sample.period.ms",
		"group.consumer.assignor.offload.enable", "group.consumer.regex.refresh.interval.ms",
		"group.share.assignor.offload.enable", "group.share.dlq.manager.class.name",
		"group.share.initialize.retry.interval.ms", "group.share.persister.class.name",
		"group.streams.acceptable.recovery.lag", "group.streams.assignor.offload.enable",
		"group.streams.max.warmup.replicas", "group.streams.min.task.offset.interval.ms",
		"group.streams.num.warmup.replicas", "group.streams.task.offset.interval.ms",
		"internal.metadata.delete.delay.millis", "internal.metadata.log.segment.bytes",
		"internal.metadata.max.batch.size.in.bytes", "log.initial.task.delay.ms",
		"producer.id.expiration.check.interval.ms", "remote.log.index.file.cache.ttl.ms",
		"remote.log.manager.task.retry.backoff.max.ms", "remote.log.manager.task.retry.backoff.ms",
		"remote.log.manager.task.retry.jitter", "server.max.startup.time.ms",
		"share.coordinator.cold.partition.snapshot.interval.ms", "share.coordinator.state.topic.prune.interval.ms",
		"unclean.leader.election.interval.ms", "unstable.api.versions.enable", "unstable.feature.versions.enable",
	}
}

// CheckBrokerChange tells whether a broker setting may get a value at run time; nil takes an earlier one back, which
// is always allowed: of what cannot be set there is nothing to take. Its error carries INVALID_REQUEST, as Kafka's
// does. What does nothing here may change too, as it may stand in a file. everywhere: the value is one for all brokers.
func CheckBrokerChange(name string, value *string, everywhere bool) error {
	if value == nil {
		return nil
	}
	setting, ok := LookupBroker(name)
	switch {
	case !ok:
		return refused("unknown broker setting %s%s", name, suggestion(Nearest(name)))
	case setting.Effect == Removed:
		return refused("%s is not a setting of Kafka 4.4: %s", name, setting.Doc)
	case setting.ReadOnly:
		return refused("%s cannot be changed while the node runs: set it in the node's configuration and start again", name)
	}
	if err := setting.ValidateBroker(*value); err != nil {
		return refused("%w", err)
	}
	if everywhere && setting.Update == PerBroker {
		return refused("%s can be set for a single broker only, not for all of them", name)
	}
	return nil
}

// CheckBrokerDefaults tells whether the defaults of topics fit each other as a change would leave them. Its error
// carries INVALID_REQUEST, as Kafka's does.
func CheckBrokerDefaults(broker BrokerLookup) error {
	next, err := ResolveTopic(nil, broker)
	if err == nil {
		err = checkLocalRetention(next)
	}
	if err != nil {
		return refused("the defaults of topics: %v", err)
	}
	return nil
}

// ValidateBroker is Validate for a value in a broker's configuration, where Kafka knows a few more limits.
func (s Setting) ValidateBroker(value string) error {
	if err := s.Validate(value); err != nil {
		return err
	}
	value = strings.TrimSpace(value)
	switch s.Name {
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		if n, _ := ParseLong(value); n == 0 {
			return fmt.Errorf("invalid value %q for %s: must be at least 1, or -1 for no limit", value, s.Name)
		}
	case "log.roll.ms":
		if n, _ := ParseLong(value); n < 1 {
			return fmt.Errorf("invalid value %q for %s: must be at least 1", value, s.Name)
		}
	case "log.roll.jitter.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms":
		if n, _ := ParseLong(value); n < 0 {
			return fmt.Errorf("invalid value %q for %s: must be at least 0", value, s.Name)
		}
	case "max.connections":
		if n, _ := ParseLong(value); n < 1 {
			return fmt.Errorf("invalid value %q for %s: at least one connection must be allowed", value, s.Name)
		}
	case "log.dir", "log.dirs", "listeners", "advertised.listeners", "process.roles":
		if len(ParseList(value)) == 0 {
			return fmt.Errorf("invalid value %q for %s: must not be empty", value, s.Name)
		}
	}
	return nil
}
