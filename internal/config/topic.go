package config

import (
	"fmt"
	"math"
	"slices"
)

// TopicConfig is the resolved settings of one topic: overrides first, then what the broker says, then the defaults.
type TopicConfig struct {
	// CleanupCompact and CleanupDelete say what becomes of old data (cleanup.policy); neither keeps everything.
	CleanupCompact, CleanupDelete bool
	// CompressionType is the codec in which batches are stored, or "producer" to keep the producer's.
	CompressionType string
	// CompressionGzipLevel, CompressionLZ4Level and CompressionZstdLevel are used where the broker compresses.
	CompressionGzipLevel, CompressionLZ4Level, CompressionZstdLevel int32
	// RetentionMs and RetentionBytes bound the whole log, local and remote; −1 is no limit.
	RetentionMs, RetentionBytes int64
	// LocalRetentionMs and LocalRetentionBytes bound the local copy of what is remote; −1 is no limit, −2 is as total.
	LocalRetentionMs, LocalRetentionBytes int64
	// SegmentBytes is the size at which a segment is sealed.
	SegmentBytes int64
	// SegmentMs is the span of record time at which a segment is sealed, SegmentJitterMs the largest random cut of it.
	SegmentMs, SegmentJitterMs int64
	// SegmentIndexBytes is the size of a full index, IndexIntervalBytes the bytes of log between two of its entries.
	SegmentIndexBytes, IndexIntervalBytes int32
	// MaxMessageBytes is the size of the largest batch, as it comes.
	MaxMessageBytes int32
	// MaxDecompressedMessageBytes is the size of the largest record of a compressed batch once it is
	// decompressed.
	MaxDecompressedMessageBytes int32
	// MinInsyncReplicas is how many replicas acks=all needs, to be capped at the number of replicas.
	MinInsyncReplicas int32
	// TimestampTypeLogAppend replaces the producer's timestamps with the broker's.
	TimestampTypeLogAppend bool
	// TimestampBeforeMaxMs and TimestampAfterMaxMs bound a producer's timestamps around the broker's clock.
	TimestampBeforeMaxMs, TimestampAfterMaxMs int64
	// FlushMessages and FlushMs say after how many records and milliseconds a log is flushed whoever waits.
	FlushMessages, FlushMs int64
	// FileDeleteDelayMs is how long the files of a removed segment stay.
	FileDeleteDelayMs int64
	// RemoteStorageEnable copies sealed segments to the object store; RemoteCopyDisable stops the copying and serves
	// what is there; RemoteLogDeleteOnDisable removes the remote data when RemoteStorageEnable goes.
	RemoteStorageEnable, RemoteCopyDisable, RemoteLogDeleteOnDisable bool
	// RemoteDelete has the objects go when the topic is deleted.
	RemoteDelete bool
	// RemoteCopyLagMs and RemoteCopyLagBytes hold a sealed segment back; 0 is at once, −1 as local retention.
	RemoteCopyLagMs, RemoteCopyLagBytes int64
	// UncleanLeaderElection lets a replica lead that lacks acknowledged records.
	UncleanLeaderElection bool
	// Preallocate is Kafka's setting of that name; it has no effect here.
	Preallocate bool
	// DeleteRetentionMs is how long compaction keeps a tombstone.
	DeleteRetentionMs int64
	// MinCompactionLagMs and MaxCompactionLagMs bound the age at which compaction sees a record.
	MinCompactionLagMs, MaxCompactionLagMs int64
	// MinCleanableDirtyRatio is the uncleaned share at which compaction picks a log.
	MinCleanableDirtyRatio float64
}

// EffectiveLocalRetentionMs is LocalRetentionMs with −2 resolved.
func (t TopicConfig) EffectiveLocalRetentionMs() int64 {
	if t.LocalRetentionMs == asTotal {
		return t.RetentionMs
	}
	return t.LocalRetentionMs
}

// EffectiveLocalRetentionBytes is LocalRetentionBytes with −2 resolved.
func (t TopicConfig) EffectiveLocalRetentionBytes() int64 {
	if t.LocalRetentionBytes == asTotal {
		return t.RetentionBytes
	}
	return t.LocalRetentionBytes
}

const (
	noLimit = -1 // of a retention
	asTotal = -2 // local retention follows the total one
)

// BrokerLookup answers a broker setting's value and whether somebody has set it, rather than its default.
type BrokerLookup func(name string) (value string, explicit bool)

// NoBroker is the lookup of a broker on which nothing is set.
func NoBroker(string) (string, bool) { return "", false }

// ResolveTopic computes the settings of a topic from its overrides and the broker's settings. It fails only where a
// value cannot be read at all, so that a topic that was once accepted always loads; CheckTopicChange is the judge of
// what may be set.
func ResolveTopic(overrides map[string]string, broker func(name string) (value string, explicit bool)) (
	TopicConfig, error,
) {
	r := topicReader{overrides: overrides, broker: broker}
	policy := r.list("cleanup.policy")
	t := TopicConfig{
		CleanupCompact:              slices.Contains(policy, "compact"),
		CleanupDelete:               slices.Contains(policy, "delete"),
		CompressionType:             r.text("compression.type"),
		CompressionGzipLevel:        r.int("compression.gzip.level"),
		CompressionLZ4Level:         r.int("compression.lz4.level"),
		CompressionZstdLevel:        r.int("compression.zstd.level"),
		RetentionMs:                 unlimited(r.long("retention.ms")),
		RetentionBytes:              unlimited(r.long("retention.bytes")),
		LocalRetentionMs:            r.long("local.retention.ms"),
		LocalRetentionBytes:         r.long("local.retention.bytes"),
		SegmentBytes:                r.long("segment.bytes"),
		SegmentMs:                   r.long("segment.ms"),
		SegmentJitterMs:             r.long("segment.jitter.ms"),
		SegmentIndexBytes:           r.int("segment.index.bytes"),
		IndexIntervalBytes:          r.int("index.interval.bytes"),
		MaxMessageBytes:             r.int("max.message.bytes"),
		MaxDecompressedMessageBytes: r.int("max.decompressed.message.bytes"),
		MinInsyncReplicas:           r.int("min.insync.replicas"),
		TimestampTypeLogAppend:      r.text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs:        r.long("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:         r.long("message.timestamp.after.max.ms"),
		FlushMessages:               r.long("flush.messages"),
		FlushMs:                     r.long("flush.ms"),
		FileDeleteDelayMs:           r.long("file.delete.delay.ms"),
		RemoteStorageEnable:         r.boolean("remote.storage.enable"),
		RemoteCopyDisable:           r.boolean("remote.log.copy.disable"),
		RemoteLogDeleteOnDisable:    r.boolean("remote.log.delete.on.disable"),
		RemoteDelete:                r.boolean(remoteDelete),
		RemoteCopyLagMs:             r.long("remote.copy.lag.ms"),
		RemoteCopyLagBytes:          r.long("remote.copy.lag.bytes"),
		UncleanLeaderElection:       r.boolean("unclean.leader.election.enable"),
		Preallocate:                 r.boolean("preallocate"),
		DeleteRetentionMs:           r.long("delete.retention.ms"),
		MinCompactionLagMs:          r.long("min.compaction.lag.ms"),
		MaxCompactionLagMs:          r.long("max.compaction.lag.ms"),
		MinCleanableDirtyRatio:      r.double("min.cleanable.dirty.ratio"),
	}
	if value, ok := overrides[internalSegmentBytes]; ok && value != "" {
		t.SegmentBytes = r.long(internalSegmentBytes)
	}
	// A jitter longer than the span itself would seal a segment before its first record.
	t.SegmentJitterMs = min(t.SegmentJitterMs, t.SegmentMs)
	return t, r.err
}

// unlimited makes every negative number −1, as Kafka does with retention.
func unlimited(n int64) int64 { return max(n, noLimit) }

// topicReader reads topic settings one after the other and keeps the first error.
type topicReader struct {
	overrides map[string]string
	broker    BrokerLookup
	err       error
}

func (r *topicReader) text(name string) string {
	return topicValue(name, r.overrides, r.broker)
}

func (r *topicReader) list(name string) []string { return ParseList(r.text(name)) }

func (r *topicReader) long(name string) int64 {
	n, err := ParseLong(r.text(name))
	r.keep(name, err)
	return n
}

func (r *topicReader) int(name string) int32 {
	n, err := ParseInt(r.text(name))
	r.keep(name, err)
	return n
}

func (r *topicReader) boolean(name string) bool {
	b, err := ParseBool(r.text(name))
	r.keep(name, err)
	return b
}

func (r *topicReader) double(name string) float64 {
	n, err := ParseDouble(r.text(name))
	r.keep(name, err)
	return n
}

func (r *topicReader) keep(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("topic setting %s: %w", name, err)
	}
}

// topicValue is a topic setting's value in its own unit: the override, else the first broker synonym that somebody has
// set, else the default.
func topicValue(name string, overrides map[string]string, broker BrokerLookup) string {
	if value, ok := overrides[name]; ok {
		return value
	}
	setting, _ := topicIndex.lookup(name)
	for _, synonym := range setting.Synonyms {
		if value, explicit := broker(synonym); explicit {
			return convert(value, unitMs(synonym))
		}
	}
	return setting.Default
}

// unitMs is how many milliseconds one unit of a broker setting is.
func unitMs(brokerSetting string) int64 {
	switch brokerSetting {
	case "log.retention.minutes":
		return 60_000
	case "log.retention.hours", "log.roll.hours", "log.roll.jitter.hours":
		return 3_600_000
	}
	return 1
}

// convert multiplies a number; below zero it stays what it is (no limit), and it never overflows.
func convert(value string, factor int64) string {
	if factor == 1 {
		return value
	}
	n, err := ParseLong(value)
	if err != nil {
		return value
	}
	if n < 0 {
		return fmt.Sprint(noLimit)
	}
	if n > math.MaxInt64/factor {
		return fmt.Sprint(int64(math.MaxInt64))
	}
	return fmt.Sprint(n * factor)
}
