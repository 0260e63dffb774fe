package firn

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/server"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/compaction"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
)

// reader turns settings into typed fields and remembers which it has read: a setting that acts must be among them.
type reader struct {
	settings *Settings
	read     map[string]bool
	errs     []error
}

func (r *reader) config() Config {
	cfg := Config{
		NodeID:   kafka.BrokerID(r.int("node.id")),
		Rack:     r.text("broker.rack"),
		DataDir:  r.text("firn.data.dir"),
		Server:   r.server(),
		Settings: r.settings,

		HTTPListener: r.text("firn.http.listener"),
		PProf:        r.boolean("firn.http.pprof"),

		Log: LogConfig{
			FlushPolicy:            FlushPolicy(r.text("firn.log.flush.policy")),
			ReserveBytes:           r.long("firn.log.dirs.reserve.bytes"),
			HeaderOnlyValidation:   r.text("firn.record.validation") == "header",
			RetentionCheckInterval: r.milliseconds("log.retention.check.interval.ms"),
			ProducerIDExpiration:   r.milliseconds("producer.id.expiration.ms"),
		},
		Cleaner: compaction.Config{
			Enable:            r.boolean("log.cleaner.enable"),
			Threads:           int(r.int("log.cleaner.threads")),
			DedupeBufferBytes: r.long("log.cleaner.dedupe.buffer.size"),
			LoadFactor:        r.double("log.cleaner.io.buffer.load.factor"),
			MaxBytesPerSecond: r.double("log.cleaner.io.max.bytes.per.second"),
			Backoff:           r.milliseconds("log.cleaner.backoff.ms"),
		},
		Topics: TopicsConfig{
			DefaultPartitions:        r.int("num.partitions"),
			DefaultReplicationFactor: r.short("default.replication.factor"),
			AutoCreate:               r.boolean("auto.create.topics.enable"),
			DeleteEnable:             r.boolean("delete.topic.enable"),
		},
		Groups: r.groups(),
		GroupIntervals: GroupIntervals{
			Default: r.intervals("group.consumer."), Min: r.intervals("group.consumer.min."),
			Max: r.intervals("group.consumer.max."),
		},
		Transactions: txn.Config{
			MaxTimeout:     r.milliseconds("transaction.max.timeout.ms"),
			AbortInterval:  r.milliseconds("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
			Expiration:     r.milliseconds("transactional.id.expiration.ms"),
			RemoveInterval: r.milliseconds("transaction.remove.expired.transaction.cleanup.interval.ms"),
		},
		VerifyTransactions: r.boolean("transaction.partition.verification.enable"),
		OffsetsTopic: InternalTopicConfig{
			Partitions:        r.int("offsets.topic.num.partitions"),
			ReplicationFactor: r.short("offsets.topic.replication.factor"),
			SegmentBytes:      r.int("offsets.topic.segment.bytes"),
			Codec:             r.codec("offsets.topic.compression.codec"),
		},
		TransactionTopic: InternalTopicConfig{
			Partitions:        r.int("transaction.state.log.num.partitions"),
			ReplicationFactor: r.short("transaction.state.log.replication.factor"),
			MinInsyncReplicas: r.short("transaction.state.log.min.isr"),
			SegmentBytes:      r.int("transaction.state.log.segment.bytes"),
		},
		Fetch: FetchConfig{
			MaxBytes:     int(r.int("fetch.max.bytes")),
			SessionSlots: int(r.int("max.incremental.fetch.session.cache.slots")),
		},
		Tier:    r.tier(),
		Metrics: MetricsConfig{MaxPartitions: int(r.int("firn.metrics.partitions.max"))},
	}
	r.places(&cfg)
	r.listeners(&cfg)
	if _, err := config.ResolveTopic(nil, r.lookup); err != nil {
		r.fail(err)
	}
	r.lookup("broker.id") // the same as node.id, or the settings were refused
	return cfg
}

// places are the directories and the bucket, which lie under the data directory unless they are put elsewhere.
func (r *reader) places(cfg *Config) {
	under := func(name, folder string) string {
		r.settings.defaults[name] = filepath.Join(cfg.DataDir, folder)
		return r.text(name)
	}
	cfg.MetadataDir = under("metadata.log.dir", "metadata")
	cfg.LogDirs = config.ParseList(under("log.dir", "log"))
	if dirs := r.text("log.dirs"); dirs != "" {
		cfg.LogDirs = config.ParseList(dirs)
	}
	bucket, err := filepath.Abs(filepath.Join(cfg.DataDir, "bucket"))
	if err != nil {
		r.fail(fmt.Errorf("firn.data.dir: %w", err))
	}
	r.settings.defaults["firn.object.store"] = (&url.URL{Scheme: "file", Path: filepath.ToSlash(bucket)}).String()
	store, explicit := r.lookup("firn.object.store")
	cfg.ObjectStore = store
	// A store that somebody has named is there for all history; the folder that stands in for one fills the same disk.
	r.settings.defaults["firn.remote.storage.default"] = strconv.FormatBool(explicit)
	cfg.Topics.RemoteStorage = r.boolean("firn.remote.storage.default")
}

func (r *reader) server() server.Config {
	cfg := server.Defaults()
	cfg.MaxRequestBytes = r.int("socket.request.max.bytes")
	cfg.MaxConnections = int(r.int("max.connections"))
	cfg.MaxConnectionsPerIP = int(r.int("max.connections.per.ip"))
	cfg.MaxConnectionCreationRate = int(r.int("max.connection.creation.rate"))
	cfg.MaxInFlightReplies = int(r.int("firn.socket.max.requests.in.flight"))
	cfg.MaxInFlightBytesPerConnection = r.long("firn.socket.max.answer.bytes")
	cfg.MaxInFlightBytes = r.long("queued.max.request.bytes")
	if cfg.MaxInFlightBytes <= 0 {
		cfg.MaxInFlightBytes = math.MaxInt64 // Kafka's −1 is no limit
	}
	cfg.IdleTimeout = r.milliseconds("connections.max.idle.ms")
	if cfg.IdleTimeout < 0 {
		cfg.IdleTimeout = longest // Kafka's −1 is no limit
	}
	cfg.SendBuffer = int(r.int("socket.send.buffer.bytes"))
	cfg.ReceiveBuffer = int(r.int("socket.receive.buffer.bytes"))
	overrides, err := config.ParseConnectionOverrides(r.text("max.connections.per.ip.overrides"))
	if err != nil {
		r.fail(fmt.Errorf("max.connections.per.ip.overrides: %w", err))
	}
	cfg.MaxConnectionsPerIPOverrides = overrides
	return cfg
}

func (r *reader) groups() group.Config {
	ofClassic := classic.Settings{
		MinSessionTimeout:     r.milliseconds("group.min.session.timeout.ms"),
		MaxSessionTimeout:     r.milliseconds("group.max.session.timeout.ms"),
		InitialRebalanceDelay: r.milliseconds("group.initial.rebalance.delay.ms"),
		MaxSize:               int(r.int("group.max.size")),
	}
	return group.Config{
		Classic: ofClassic,
		Consumer: consumer.Settings{
			MaxSize:   int(r.int("group.consumer.max.size")),
			Assignors: config.ParseList(r.text("group.consumer.assignors")),
			Migration: consumer.Migration(strings.ToLower(r.text("group.consumer.migration.policy"))),
			Classic:   ofClassic,
		},
		CommitTimeout:          r.milliseconds("offsets.commit.timeout.ms"),
		MaxMetadataLength:      int(r.int("offset.metadata.max.bytes")),
		OffsetsRetention:       time.Duration(r.int("offsets.retention.minutes")) * time.Minute,
		RetentionCheckInterval: r.milliseconds("offsets.retention.check.interval.ms"),
	}
}

func (r *reader) intervals(prefix string) consumer.Intervals {
	return consumer.Intervals{
		Session:    r.milliseconds(prefix + "session.timeout.ms"),
		Heartbeat:  r.milliseconds(prefix + "heartbeat.interval.ms"),
		Assignment: r.milliseconds(prefix + "assignment.interval.ms"),
	}
}

func (r *reader) tier() TierConfig {
	return TierConfig{
		Enabled:              r.boolean("remote.log.storage.system.enable"),
		TaskInterval:         r.milliseconds("remote.log.manager.task.interval.ms"),
		UploadConcurrency:    int(r.int("remote.log.manager.copier.thread.pool.size")),
		UploadBytesPerSecond: uploadRate(r.long("remote.log.manager.copy.max.bytes.per.second")),
		UploadRollAfter:      uploadRollAfter(r.long("firn.tier.roll.ms")),
		UploadDeadline:       r.milliseconds("firn.tier.upload.deadline.ms"),
		Reservation:          r.milliseconds("firn.tier.reservation.ms"),
		Grace:                r.milliseconds("firn.tier.gc.grace.ms"),
		ScrubInterval:        r.milliseconds("firn.tier.scrub.interval.ms"),
		ScrubDepth:           r.text("firn.tier.scrub.depth"),
		VerifyBytesPerSecond: r.long("firn.tier.verify.max.bytes.per.second"),
		CheckpointInterval:   r.milliseconds("firn.tier.checkpoint.interval.ms"),
		FetchConcurrency:     int(r.int("remote.log.reader.threads")),
		FetchQueue:           int(r.int("remote.log.reader.max.pending.tasks")),
		FetchMemoryBytes:     r.long("firn.tier.fetch.memory.bytes"),
		CacheBytes:           r.cacheBytes(),
		ReadAheadBytes:       r.long("firn.tier.read.ahead.bytes"),
		FetchMaxWait:         r.milliseconds("remote.fetch.max.wait.ms"),
		ListOffsetsTimeout:   r.milliseconds("remote.list.offsets.request.timeout.ms"),
	}
}

// usualCacheBytes is what the disk cache has unless somebody says more.
const usualCacheBytes = 10 << 30

// cacheBytes resolves -1: what lies in a folder need not be copied to another one.
func (r *reader) cacheBytes() int64 {
	bytes := r.long("firn.tier.cache.bytes")
	if bytes >= 0 {
		return bytes
	}
	if store, _ := r.lookup("firn.object.store"); strings.HasPrefix(store, "file:") {
		return 0
	}
	return usualCacheBytes
}

// uploadRate reads Kafka's way to say that there is no limit, which is 0 here.
func uploadRate(bytesPerSecond int64) int64 {
	if bytesPerSecond == math.MaxInt64 {
		return 0
	}
	return bytesPerSecond
}

func uploadRollAfter(ms int64) time.Duration { return milliseconds(max(0, ms)) }

func (r *reader) lookup(name string) (value string, explicit bool) {
	r.read[name] = true
	return r.settings.Lookup(name)
}

func (r *reader) text(name string) string {
	value, _ := r.lookup(name)
	return value
}

func (r *reader) long(name string) int64 {
	n, err := config.ParseLong(r.text(name))
	r.failAt(name, err)
	return n
}

func (r *reader) int(name string) int32 {
	n, err := config.ParseInt(r.text(name))
	r.failAt(name, err)
	return n
}

func (r *reader) short(name string) int16 {
	n := r.int(name)
	if n < 1 || n > math.MaxInt16 {
		r.failAt(name, fmt.Errorf("must be between 1 and %d", math.MaxInt16))
	}
	return int16(n)
}

// codec reads the number of a codec.
func (r *reader) codec(name string) record.Codec {
	number := r.int(name)
	codec := record.Codec(number)
	if int32(codec) != number || !codec.Known() {
		r.failAt(name, fmt.Errorf("must be the number of a codec, 0 for none up to 4 for zstd, not %d", number))
		return record.None
	}
	return codec
}

func (r *reader) double(name string) float64 {
	value, err := config.ParseDouble(r.text(name))
	r.failAt(name, err)
	return value
}

func (r *reader) boolean(name string) bool {
	b, err := config.ParseBool(r.text(name))
	r.failAt(name, err)
	return b
}

// longest is "never" as a duration: about a century, which can still be added to a time.
const longest = 100 * 365 * 24 * time.Hour

func (r *reader) milliseconds(name string) time.Duration {
	return milliseconds(r.long(name))
}

func milliseconds(n int64) time.Duration {
	if n > longest.Milliseconds() {
		return longest
	}
	return time.Duration(n) * time.Millisecond
}

// failAt says what is wrong with a value and where it was set.
func (r *reader) failAt(name string, err error) {
	if err == nil {
		return
	}
	origin := OriginDefault
	if value, ok := r.settings.values[name]; ok {
		origin = value.origin
	}
	r.fail(fmt.Errorf("%s: %s: %w", origin, name, err))
}

func (r *reader) fail(err error) { r.errs = append(r.errs, err) }
