package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/firnlog/firn/internal/kafka"
)

// CheckTopic tells whether a new topic may have these overrides on a broker on which nothing is set. Its error names
// the setting, the value and what is allowed, and carries INVALID_CONFIG.
func CheckTopic(overrides map[string]string) error {
	return CheckTopicChange(nil, overrides, NoBroker)
}

// CheckTopicChange tells whether a topic's overrides may become after; before is nil for a new topic. Its error names
// the setting, the value and what is allowed, and carries INVALID_CONFIG.
func CheckTopicChange(before, after map[string]string, broker BrokerLookup) error {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		setting, ok := topicIndex.lookup(name)
		if !ok {
			return invalid("unknown topic setting %s%s", name, suggestion(NearestTopic(name)))
		}
		if err := setting.Validate(after[name]); err != nil {
			return invalid("%w", err)
		}
	}
	next, err := ResolveTopic(after, broker)
	if err != nil {
		return invalid("%w", err)
	}
	if next.MinCompactionLagMs > next.MaxCompactionLagMs {
		return invalid("min.compaction.lag.ms (%d) must not exceed max.compaction.lag.ms (%d)",
			next.MinCompactionLagMs, next.MaxCompactionLagMs)
	}
	if next.RemoteStorageEnable {
		return checkRemote(next, broker)
	}
	if isTrue(before["remote.storage.enable"]) && !next.RemoteLogDeleteOnDisable {
		return invalid("remote.storage.enable cannot be switched off without removing what is remote: set " +
			"remote.log.delete.on.disable=true along with it to do so, after which the log begins where the local one " +
			"does. To stop the copying and keep serving what is remote, set remote.log.copy.disable=true instead")
	}
	return nil
}

// checkRemote holds the conditions of a topic with remote storage, which are Kafka's but for one: it may be compacted.
func checkRemote(next TopicConfig, broker BrokerLookup) error {
	if value, explicit := broker("remote.log.storage.system.enable"); explicit && !isTrue(value) {
		return invalid("remote.storage.enable needs remote.log.storage.system.enable, which is false on this broker")
	}
	if err := checkLocalRetention(next); err != nil {
		return err
	}
	for _, limit := range retentionLimits(next) {
		if next.RemoteCopyDisable && limit.effective != limit.total {
			return invalid("with remote.log.copy.disable=true, local.retention.%s (%d) and retention.%s (%d) must be "+
				"the same, since nothing more is copied", limit.unit, limit.local, limit.unit, limit.total)
		}
		if limit.lag > 0 && limit.effective != noLimit && limit.lag > limit.effective {
			return invalid("remote.copy.lag.%s (%d) must not exceed local.retention.%s (%d)",
				limit.unit, limit.lag, limit.unit, limit.effective)
		}
	}
	return nil
}

// retentionLimit is what a topic may hold in one unit: in all, locally, and the lag of what is copied.
type retentionLimit struct {
	unit                         string
	total, local, effective, lag int64
}

func retentionLimits(next TopicConfig) []retentionLimit {
	return []retentionLimit{
		{"ms", next.RetentionMs, next.LocalRetentionMs, next.EffectiveLocalRetentionMs(), next.RemoteCopyLagMs},
		{"bytes", next.RetentionBytes, next.LocalRetentionBytes, next.EffectiveLocalRetentionBytes(),
			next.RemoteCopyLagBytes},
	}
}

// checkLocalRetention: the local part cannot be kept for longer than the whole.
func checkLocalRetention(next TopicConfig) error {
	for _, limit := range retentionLimits(next) {
		if limit.total != noLimit && limit.local == noLimit {
			return invalid("local.retention.%s must not be -1 (no limit) while retention.%s is %d",
				limit.unit, limit.unit, limit.total)
		}
		if limit.total != noLimit && limit.local > limit.total {
			return invalid("local.retention.%s (%d) must not exceed retention.%s (%d)",
				limit.unit, limit.local, limit.unit, limit.total)
		}
	}
	return nil
}

func isTrue(value string) bool {
	b, err := ParseBool(value)
	return err == nil && b
}

// codedError is what the client reads, with the code that goes before it.
type codedError struct {
	cause error
	code  kafka.Errno
}

func (e *codedError) Error() string   { return e.cause.Error() }
func (e *codedError) Unwrap() []error { return []error{e.cause, e.code} }

func invalid(format string, args ...any) error {
	return &codedError{fmt.Errorf(format, args...), kafka.InvalidConfig}
}

func refused(format string, args ...any) error {
	return &codedError{fmt.Errorf(format, args...), kafka.InvalidRequest}
}
