package config

import "slices"

// Topic lists every setting of a topic, sorted by name.
func Topic() []Setting { return slices.Clone(topicIndex.rows) }

// LookupTopic finds a topic setting by its exact name.
func LookupTopic(name string) (Setting, bool) { return topicIndex.lookup(name) }

// topicIndex is made once and never changed.
var topicIndex = newIndex(topicSettings())

func topicSettings() []Setting {
	var settings []Setting
	for _, row := range topicRows() {
		s := row.setting()
		s.ReadOnly = false
		s.Synonyms = brokerSynonyms(row.name)
		if s.Own() {
			s.KafkaDefault = nil
		}
		s.Internal = s.Own() || row.name == internalSegmentBytes
		settings = append(settings, s)
	}
	return settings
}

// internalSegmentBytes goes below the limit of segment.bytes, for tests that want many small segments.
const internalSegmentBytes = "internal.segment.bytes"

// remoteDelete is the one topic setting that Kafka has no name for.
const remoteDelete = Prefix + "remote.delete"

// brokerSynonyms names the broker settings that a topic setting inherits from, the strongest first.
func brokerSynonyms(topicSetting string) []string {
	switch topicSetting {
	case "cleanup.policy", "index.interval.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
		"message.timestamp.type", "preallocate", "retention.bytes", "segment.bytes", "local.retention.bytes",
		"local.retention.ms", "remote.copy.lag.bytes", "remote.copy.lag.ms":
		return []string{"log." + topicSetting}
	case "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
		"max.decompressed.message.bytes", "min.insync.replicas", "unclean.leader.election.enable":
		return []string{topicSetting}
	case "delete.retention.ms", "max.compaction.lag.ms", "min.compaction.lag.ms":
		return []string{"log.cleaner." + topicSetting}
	case "file.delete.delay.ms":
		return []string{"log.segment.delete.delay.ms"}
	case "flush.messages":
		return []string{"log.flush.interval.messages"}
	case "flush.ms":
		return []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	case "max.message.bytes":
		return []string{"message.max.bytes"}
	case "min.cleanable.dirty.ratio":
		return []string{"log.cleaner.min.cleanable.ratio"}
	case "retention.ms":
		return []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
	case "segment.index.bytes":
		return []string{"log.index.size.max.bytes"}
	case "segment.jitter.ms":
		return []string{"log.roll.jitter.ms", "log.roll.jitter.hours"}
	case "segment.ms":
		return []string{"log.roll.ms", "log.roll.hours"}
	}
	return nil
}

func topicRows() []row {
	return slices.Concat(topicRetentionRows(), topicSegmentRows(), topicMessageRows(), topicOtherRows())
}

func topicRetentionRows() []row {
	return []row{
		{"cleanup.policy", List, "delete", ClusterWide, listOf("compact", "delete"), Acts,
			"What becomes of old data: delete removes segments past retention, compact keeps the last record of a key " +
				"(records without a key are refused; cleaning itself is not built yet). Empty keeps everything."},
		{"retention.ms", Long, "604800000", ClusterWide, atLeast(-1), Acts,
			"Milliseconds after which a record may be removed, by record time; -1 keeps it for ever."},
		{"retention.bytes", Long, "-1", ClusterWide, nil, Acts,
			"Bytes that a partition may hold, local and remote together, before its oldest segments are removed; -1 is " +
				"no limit."},
		{"local.retention.ms", Long, "-2", ClusterWide, atLeast(-2), Acts,
			"Milliseconds after which the local copy of a segment that is in the bucket may go; -2 follows " +
				"retention.ms, -1 keeps it."},
		{"local.retention.bytes", Long, "-2", ClusterWide, atLeast(-2), Acts,
			"Bytes of a partition that stay on local disk once they are in the bucket; -2 follows retention.bytes, " +
				"-1 is no limit."},
		{"file.delete.delay.ms", Long, "60000", ClusterWide, atLeast(0), Acts,
			"Milliseconds between the deletion of a topic and the removal of its files. Those of segments go at once: " +
				"whoever reads one holds it open."},
		{"delete.retention.ms", Long, "86400000", ClusterWide, atLeast(0), Acts,
			"Milliseconds that compaction keeps a tombstone."},
		{"min.cleanable.dirty.ratio", Double, "0.5", ClusterWide, fraction(1), Acts,
			"Share of a log that must be uncleaned before compaction picks it."},
		{"min.compaction.lag.ms", Long, "0", ClusterWide, atLeast(0), Acts,
			"Milliseconds for which compaction leaves a record alone."},
		{"max.compaction.lag.ms", Long, "9223372036854775807", ClusterWide, atLeast(1), Acts,
			"Milliseconds after which compaction must have seen a record."},
		{"remote.storage.enable", Boolean, "false", ClusterWide, nil, Acts,
			"Whether sealed segments are copied to the object store and read from there."},
		{"remote.log.copy.disable", Boolean, "false", ClusterWide, nil, Acts,
			"Whether the remote part only serves: nothing more is copied to the object store."},
		{"remote.log.delete.on.disable", Boolean, "false", ClusterWide, nil, Acts,
			"Whether remote.storage.enable may be switched off, which then removes the remote data: the log begins where " +
				"the local one does."},
		{"remote.copy.lag.ms", Long, "0", ClusterWide, atLeast(-1), Acts,
			"Milliseconds after its latest record before a sealed segment may be copied to the object store; -1 " +
				"follows local.retention.ms."},
		{"remote.copy.lag.bytes", Long, "-1", ClusterWide, atLeast(-1), Acts,
			"Bytes of newer data before a sealed segment may be copied to the object store; -1 follows " +
				"local.retention.bytes."},
		{remoteDelete, Boolean, "true", ClusterWide, nil, Acts,
			"Whether deleting the topic removes its objects from the object store."},
	}
}

func topicSegmentRows() []row {
	return []row{
		{"segment.bytes", Int, "1073741824", ClusterWide, atLeast(1 << 20), Acts,
			"Size at which a segment is sealed."},
		{internalSegmentBytes, Int, null, ClusterWide, atLeast(1), Acts,
			"Replaces segment.bytes, without its lower limit; for tests."},
		{"segment.ms", Long, "604800000", ClusterWide, atLeast(1), Acts,
			"Milliseconds of record time that one segment may span before it is sealed."},
		{"segment.jitter.ms", Long, "0", ClusterWide, atLeast(0), Acts,
			"Largest random cut of segment.ms, so that segments of many partitions are not sealed at once."},
		{"segment.index.bytes", Int, "10485760", ClusterWide, atLeast(4), Acts,
			"Size at which the offset index is full and its segment is sealed."},
		{"index.interval.bytes", Int, "4096", ClusterWide, atLeast(0), Acts,
			"Bytes of log between two entries of an index."},
		{"flush.messages", Long, "9223372036854775807", ClusterWide, atLeast(1), Acts,
			"Records after which a log is flushed to disk."},
		{"flush.ms", Long, "9223372036854775807", ClusterWide, atLeast(0), Acts,
			"Milliseconds after which a log is flushed to disk."},
		{"preallocate", Boolean, "false", ClusterWide, nil, NoEffect, ""},
	}
}

func topicMessageRows() []row {
	return []row{
		{"compression.type", String, "producer", ClusterWide,
			oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), Acts,
			"Codec in which batches are stored; producer keeps what the producer chose."},
		{"compression.gzip.level", Int, "-1", ClusterWide, gzipLevel, Acts,
			"Level where compression.type makes the broker compress with gzip, 1 to 9; -1 is the codec's default."},
		{"compression.lz4.level", Int, "9", ClusterWide, between(1, 17), Acts,
			"Level where compression.type makes the broker compress with lz4: 9 is the fast algorithm, all others the " +
				"thorough one, which tries up to 2^(level-1) earlier places for each match."},
		{"compression.zstd.level", Int, "3", ClusterWide, between(-131072, 22), Acts,
			"Level where compression.type makes the broker compress with zstd, in four steps: up to 2 (and all negative " +
				"ones), 3 to 5 (and 0, which is zstd's default), 6 to 9, 10 to 22."},
		{"max.message.bytes", Int, "1048588", ClusterWide, atLeast(0), Acts,
			"Largest record batch that is accepted, as it comes (after the producer's compression)."},
		{"max.decompressed.message.bytes", Int, "2147483639", ClusterWide, between(1, 2147483639), Acts,
			"Largest record of a compressed batch that is accepted once it is decompressed; a larger one is refused with " +
				"INVALID_RECORD before it is decompressed. Records that are stored already stay readable, by time too."},
		{"message.timestamp.type", String, "CreateTime", ClusterWide, oneOf("CreateTime", "LogAppendTime"), Acts,
			"Whether a record carries the producer's time or the broker's."},
		{"message.timestamp.before.max.ms", Long, "9223372036854775807", ClusterWide, atLeast(0), Acts,
			"How far, in milliseconds, a CreateTime timestamp may lie behind the broker's clock."},
		{"message.timestamp.after.max.ms", Long, "3600000", ClusterWide, atLeast(0), Acts,
			"How far, in milliseconds, a CreateTime timestamp may lie ahead of the broker's clock."},
	}
}

func topicOtherRows() []row {
	return []row{
		{"min.insync.replicas", Int, "1", ClusterWide, atLeast(1), Acts,
			"Replicas that must be in sync for a produce with acks=all to be accepted; capped at the number of replicas."},
		{"unclean.leader.election.enable", Boolean, "false", ClusterWide, nil, Later,
			"Whether a replica that lacks acknowledged records may become the leader."},
		{"leader.replication.throttled.replicas", List, "", ClusterWide, throttledReplicas, Later,
			"Replicas (partition:broker, or *) whose traffic the leader throttles."},
		{"follower.replication.throttled.replicas", List, "", ClusterWide, throttledReplicas, Later,
			"Replicas (partition:broker, or *) whose traffic the follower throttles."},
		{"errors.deadletterqueue.group.enable", Boolean, "false", ClusterWide, nil, NoEffect, ""},
	}
}
