package firn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/firnlog/firn/broker/group"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/server"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/compaction"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
)

// Config is what a node is started with. LoadConfig makes it from files, environment and flags; Defaults is a node
// that nobody has configured. A program that embeds a node may change the typed fields; DescribeConfigs and the
// defaults of topics go by Settings.
type Config struct {
	// NodeID is the id of this node (node.id, 1).
	NodeID kafka.BrokerID
	// Rack is told to clients (broker.rack, none).
	Rack string
	// DataDir holds everything that is not put elsewhere: log, metadata, bucket, cache (firn.data.dir, ./firn-data).
	DataDir string
	// LogDirs hold the logs (log.dirs, log.dir, DataDir/log).
	LogDirs []string
	// MetadataDir holds the raft log and the state database (metadata.log.dir, DataDir/metadata).
	MetadataDir string
	// ObjectStore is the URL of the bucket (firn.object.store, a directory bucket under DataDir).
	ObjectStore string

	// Listeners are where clients connect (listeners, PLAINTEXT on 127.0.0.1:9092).
	Listeners []Listener
	// HTTPListener is the HOST:PORT of metrics, health and the JSON API (firn.http.listener, 127.0.0.1:9644).
	HTTPListener string
	// PProf serves Go's profiles too (firn.http.pprof, false).
	PProf bool
	// Server bounds connections, requests and answers (socket.*, max.connections*, connections.max.idle.ms, …).
	Server server.Config

	// Log is how logs are kept.
	Log LogConfig
	// Cleaner is how logs are compacted (log.cleaner.*).
	Cleaner compaction.Config
	// Topics is what topics get that are created without it.
	Topics TopicsConfig
	// Groups is how groups are kept (group.*, offsets.retention.*, …).
	Groups group.Config
	// GroupIntervals are those of groups of the consumer protocol (group.consumer.*).
	GroupIntervals GroupIntervals
	// Transactions is how transactions are kept (transaction.*, transactional.id.expiration.ms).
	Transactions txn.Config
	// VerifyTransactions has the coordinator asked before a transaction may begin in a partition
	// (transaction.partition.verification.enable, true).
	VerifyTransactions bool
	// OffsetsTopic and TransactionTopic are the topics in which the coordinators keep their state, as they are made at
	// their first use (offsets.topic.*, transaction.state.log.*).
	OffsetsTopic, TransactionTopic InternalTopicConfig
	// Fetch bounds fetch requests.
	Fetch FetchConfig
	// Tier is how history goes to the object store and comes back.
	Tier TierConfig

	// Metrics says how much /metrics shows.
	Metrics MetricsConfig

	// Settings is every setting by Kafka's name, with where it was set. It answers DescribeConfigs, and topics inherit
	// from it.
	Settings *Settings
}

// GroupIntervals are the intervals of groups that have none of their own, and bounds of those that groups may have.
type GroupIntervals struct {
	Default, Min, Max consumer.Intervals
}

// Listener is an address that is listened on.
type Listener struct {
	// Name is Kafka's name of the listener, in capitals.
	Name string
	// Address is HOST:PORT; no host is all addresses of the machine, port 0 any free one.
	Address string
	// Advertised is the address that clients of this listener are told (advertised.listeners); nil tells each the one it
	// has reached.
	Advertised *HostPort
}

// HostPort is an address that clients are told.
type HostPort struct {
	Host string
	Port int32
}

// String prints HOST:PORT.
func (a HostPort) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// FlushPolicy says when an append with acks=all is safe.
type FlushPolicy string

// The flush policies of firn.log.flush.policy.
const (
	FlushAuto  FlushPolicy = "auto"  // group while one replica is in sync, else os
	FlushOS    FlushPolicy = "os"    // once it is written
	FlushGroup FlushPolicy = "group" // once it is on the disk, by a flush that it shares with others
)

// LogConfig is how logs are kept.
type LogConfig struct {
	// FlushPolicy says when an append with acks=all is safe (firn.log.flush.policy, auto).
	FlushPolicy FlushPolicy
	// ReserveBytes is the free space below which produce requests are turned away (firn.log.dirs.reserve.bytes,
	// 256 MiB).
	ReserveBytes int64
	// HeaderOnlyValidation leaves the records inside batches unchecked (firn.record.validation=header, false).
	HeaderOnlyValidation bool
	// RetentionCheckInterval is the time between two runs of retention (log.retention.check.interval.ms, 5 min).
	RetentionCheckInterval time.Duration
	// ProducerIDExpiration is how long an idempotent producer is remembered after its last write
	// (producer.id.expiration.ms, 1 day).
	ProducerIDExpiration time.Duration
}

// TopicsConfig is what topics get that are created without it.
type TopicsConfig struct {
	// DefaultPartitions is their number of partitions (num.partitions, 1).
	DefaultPartitions int32
	// DefaultReplicationFactor is their number of replicas (default.replication.factor, 1).
	DefaultReplicationFactor int16
	// AutoCreate creates a topic that a client asks for and that is missing (auto.create.topics.enable, true).
	AutoCreate bool
	// DeleteEnable lets topics be deleted (delete.topic.enable, true).
	DeleteEnable bool
	// RemoteStorage has topics copied to the object store that do not say otherwise (firn.remote.storage.default, true
	// where firn.object.store is set).
	RemoteStorage bool
}

// InternalTopicConfig is how a topic of a coordinator is made.
type InternalTopicConfig struct {
	// Partitions is their number (….num.partitions, 50).
	Partitions int32
	// ReplicationFactor is the number of replicas, or of brokers if there are fewer (….replication.factor, 3).
	ReplicationFactor int16
	// MinInsyncReplicas is min.insync.replicas, no more than there are replicas (transaction.state.log.min.isr, 2);
	// 0 inherits the broker's.
	MinInsyncReplicas int16
	// SegmentBytes is the size of a segment (….segment.bytes, 100 MiB).
	SegmentBytes int32
	// Codec is what batches are compressed with (offsets.topic.compression.codec, none).
	Codec record.Codec
}

// FetchConfig bounds fetch requests.
type FetchConfig struct {
	// MaxBytes bounds one answer, whatever the client asks for (fetch.max.bytes, 55 MiB).
	MaxBytes int
	// SessionSlots is the number of fetch sessions (max.incremental.fetch.session.cache.slots, 1000).
	SessionSlots int
}

// MetricsConfig says how much /metrics shows.
type MetricsConfig struct {
	// MaxPartitions is the number of partitions above which the series of single ones are left out
	// (firn.metrics.partitions.max, 1000).
	MaxPartitions int
}

// TierConfig is how history goes to the object store and comes back.
type TierConfig struct {
	// Enabled lets topics have remote.storage.enable (remote.log.storage.system.enable, true).
	Enabled bool
	// TaskInterval is the time between two looks at what to copy and to remove (remote.log.manager.task.interval.ms,
	// 30 s). A segment that is sealed is looked at at once.
	TaskInterval time.Duration
	// UploadConcurrency is how many segments are copied at a time (remote.log.manager.copier.thread.pool.size, 10).
	UploadConcurrency int
	// UploadBytesPerSecond bounds what is copied, on average (remote.log.manager.copy.max.bytes.per.second); 0 does not.
	UploadBytesPerSecond int64
	// UploadRollAfter seals a segment whose oldest record waits so long to be copied (firn.tier.roll.ms); 0 does not.
	UploadRollAfter time.Duration
	// UploadDeadline ends an upload (firn.tier.upload.deadline.ms, 5 min); it is shorter than Reservation.
	UploadDeadline time.Duration
	// Reservation is how long the name of an upload is reserved (firn.tier.reservation.ms, 15 min).
	Reservation time.Duration
	// Grace is how long an object stays after its last reference went (firn.tier.gc.grace.ms, 15 min).
	Grace time.Duration
	// ScrubInterval is the time between two comparisons of the object store with the manifests
	// (firn.tier.scrub.interval.ms, 7 days; 0: there are none), ScrubDepth how closely they look (firn.tier.scrub.depth,
	// listing), VerifyBytesPerSecond what they read at most (firn.tier.verify.max.bytes.per.second, 50 MiB).
	ScrubInterval        time.Duration
	ScrubDepth           string
	VerifyBytesPerSecond int64
	// CheckpointInterval is the time between two checkpoints of the cluster in the object store, if anything has changed
	// (firn.tier.checkpoint.interval.ms, 1 min).
	CheckpointInterval time.Duration
	// FetchConcurrency is how many reads run at a time (remote.log.reader.threads, 10), FetchQueue how many more may
	// wait (remote.log.reader.max.pending.tasks, 100).
	FetchConcurrency, FetchQueue int
	// FetchMemoryBytes bounds what has been and what is being read (firn.tier.fetch.memory.bytes, 128 MiB).
	FetchMemoryBytes int64
	// CacheBytes bounds the files of what is read again and again (firn.tier.cache.bytes, 10 GiB; 0: there are none).
	CacheBytes int64
	// ReadAheadBytes bounds what is read ahead of one reader (firn.tier.read.ahead.bytes, 32 MiB).
	ReadAheadBytes int64
	// FetchMaxWait is how long a fetch waits for the object store (remote.fetch.max.wait.ms, 500 ms).
	FetchMaxWait time.Duration
	// ListOffsetsTimeout bounds a look-up by time in the object store (remote.list.offsets.request.timeout.ms, 30 s).
	ListOffsetsTimeout time.Duration
}

// Defaults is a node that nobody has configured.
func Defaults() Config {
	cfg, err := LoadConfig(Sources{})
	if err != nil {
		// The tables' own defaults are refused: a mistake in them, which no caller can handle.
		panic(fmt.Sprintf("the built-in defaults: %v", err))
	}
	return cfg
}

// LoadConfig makes a Config of what files, environment and flags say, the strongest word for each setting. Its error
// names every setting that is wrong, with where it was set; Settings.Notices tells what else is worth saying.
func LoadConfig(sources Sources) (Config, error) {
	settings, err := readSources(sources)
	if err != nil {
		return Config{}, err
	}
	settings.noteEffects()
	r := &reader{settings: settings, read: map[string]bool{}}
	cfg := r.config()
	if err := errors.Join(r.errs...); err != nil {
		return Config{}, err
	}
	return cfg, cfg.Validate()
}

// Validate tells everything that keeps a node from running with the configuration.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.NodeID >= 0, "node.id must be at least 0, not %d", c.NodeID)
	check(c.DataDir != "", "firn.data.dir must name a directory")
	check(len(c.LogDirs) > 0, "log.dirs must name a directory")
	check(c.MetadataDir != "", "metadata.log.dir must name a directory")
	check(c.ObjectStore != "" || !c.Tier.Enabled, "firn.object.store must be a URL")
	for i, dir := range c.LogDirs {
		for _, other := range append([]string{c.MetadataDir}, c.LogDirs[:i]...) {
			check(filepath.Clean(dir) != filepath.Clean(other), "%s is the place of two things: log.dirs and "+
				"metadata.log.dir must all differ", dir)
		}
	}
	check(len(c.Listeners) > 0, "listeners: there is no listener for clients")
	for _, listener := range c.Listeners {
		check(splits(listener.Address), "listeners: %q is not HOST:PORT", listener.Address)
		if a := listener.Advertised; a != nil {
			check(a.Host != "" && !unspecified(a.Host) && a.Port > 0 && a.Port <= 65535,
				"advertised.listeners: %s is no address that a client could connect to", a)
		}
	}
	check(splits(c.HTTPListener), "firn.http.listener: %q is not HOST:PORT", c.HTTPListener)
	switch c.Log.FlushPolicy {
	case FlushAuto, FlushOS, FlushGroup:
	default:
		check(false, "firn.log.flush.policy must be auto, os or group, not %q", c.Log.FlushPolicy)
	}
	check(!c.Cleaner.Enable || c.Cleaner.DedupeBufferBytes>>20 >= int64(c.Cleaner.Threads),
		"log.cleaner.dedupe.buffer.size (%d) must be at least 1 MiB for each of log.cleaner.threads (%d)",
		c.Cleaner.DedupeBufferBytes, c.Cleaner.Threads)
	check(c.Cleaner.LoadFactor > 0 && c.Cleaner.LoadFactor <= 1,
		"log.cleaner.io.buffer.load.factor must be above 0 and at most 1, not %v", c.Cleaner.LoadFactor)
	check(c.Tier.UploadDeadline < c.Tier.Reservation, "firn.tier.upload.deadline.ms (%d) must be less than "+
		"firn.tier.reservation.ms (%d): an upload must end before its name lapses",
		c.Tier.UploadDeadline.Milliseconds(), c.Tier.Reservation.Milliseconds())
	check(c.Tier.ReadAheadBytes <= c.Tier.FetchMemoryBytes, "firn.tier.read.ahead.bytes (%d) must not exceed "+
		"firn.tier.fetch.memory.bytes (%d)", c.Tier.ReadAheadBytes, c.Tier.FetchMemoryBytes)
	check(c.Settings != nil, "Settings must come from LoadConfig or Defaults")
	if c.Settings != nil {
		errs = append(errs, config.CheckBrokerGroups(c.Settings.Lookup))
	}
	return errors.Join(append(errs, c.Server.Validate())...)
}

// splits tells whether an address is HOST:PORT with a port that exists.
func splits(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// unspecified tells whether a host stands for all addresses of a machine, which nobody can connect to.
func unspecified(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsUnspecified()
}

// loopback tells whether only this machine reaches a listener.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
