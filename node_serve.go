package firn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"path"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/firnlog/firn/broker/admin"
	"github.com/firnlog/firn/broker/api"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/broker/server"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/broker/txn"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/controller"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
	"github.com/firnlog/firn/tiering"
	"github.com/firnlog/firn/tiering/cache"
	"github.com/firnlog/firn/tiering/segment"
)

// openTier opens the bucket and what moves history into it and reads it back. It begins to work once the partitions
// are there.
func (n *Node) openTier(ctx context.Context) error {
	if err := n.openBucket(ctx); err != nil {
		return err
	}
	n.newCheckpoints()
	tier, live := n.config.Tier, n.live.Load()
	n.tier = tiering.New(tiering.Options{
		Logger: n.logger, Registerer: n.deps.Registry,
		MaxTopicSeries: n.config.Metrics.MaxPartitions,
		BrokerID:       n.config.NodeID, ClusterID: n.meta.Image().ClusterID,
		Bucket: n.bucket, Metadata: n.meta, Garbage: n.meta, Logs: n.logs, Layers: n.layers,
		Checkpointed: n.checkpointed, Claim: n.claim, Reserved: n.meta.Reserved,
		Cache: cache.New(cache.Options{
			Logger: n.logger, Registerer: n.deps.Registry, FS: n.deps.FS, Dir: path.Join(n.config.DataDir, "cache"),
			Store: n.state.Space(state.SpaceCache), SyncStore: n.state.Flush,
			// Producers are turned away while less than the reserve is free: the cache leaves as much again.
			Bytes: tier.CacheBytes, LeaveBytes: 2 * n.config.Log.ReserveBytes,
		}),
		Config: tiering.Config{
			TaskInterval:     tier.TaskInterval,
			Uploads:          live.uploads,
			UploadDeadline:   tier.UploadDeadline,
			Reservation:      tier.Reservation,
			Grace:            tier.Grace,
			Checkpoints:      checkpointsBeforeDeletion,
			FetchConcurrency: live.remoteReads,
			FetchQueue:       tier.FetchQueue,
			FetchMemoryBytes: tier.FetchMemoryBytes,
			ReadAheadBytes:   tier.ReadAheadBytes,
		},
		Events: &tiering.Events{
			SegmentCommitted: func(tp kafka.TopicPartition, _ command.SegmentEntry) { n.retention.Wake(tp) },
		},
	})
	n.verifier = n.newVerifier()
	var err error
	n.rewriter, err = n.newRewriter()
	return err
}

// checkpointsBeforeDeletion are two, so that one of them may turn out to be damaged.
const checkpointsBeforeDeletion = 2

// storageEvents let the parts above the logs follow what happens in them.
func (n *Node) storageEvents() *storage.Events {
	return &storage.Events{
		SegmentRolled: func(tp kafka.TopicPartition, baseOffset int64) {
			if n.tier != nil {
				n.tier.SegmentRolled(tp, baseOffset)
			}
		},
		LogOffline: func(tp kafka.TopicPartition, _ error) {
			if n.replicas != nil {
				n.replicas.Wake(tp)
			}
		},
		DirectoryFailed: func(string, error) {
			if n.replicas != nil {
				n.replicas.WakeAll()
			}
			select {
			case n.directoryFailed <- struct{}{}:
			default: // it will be seen together with the one before
			}
		},
	}
}

// openReplicas registers the broker and begins to follow the metadata: from here on partitions exist.
func (n *Node) openReplicas(context.Context) error {
	n.replicas = replica.NewManager(replica.Options{
		BrokerID: n.config.NodeID, Logs: n.logs, Remote: n.tier, Logger: n.logger,
		FlushPolicy:          n.flushPolicy(),
		HeaderOnlyValidation: n.config.Log.HeaderOnlyValidation,
		RemoteFetchMaxWait:   func() time.Duration { return n.live.Load().remoteFetchMaxWait },
		Layers:               n.layers,
		Registerer:           n.deps.Registry,
		MaxPartitionSeries:   n.config.Metrics.MaxPartitions,
		Committed:            n.advanced,
	})
	n.producerIDs = txn.NewProducerIDs(n.producerIDBlock)
	n.groups, n.transactions = n.newGroups(), n.newTransactions()
	n.coordinations = []coordination{
		{kafka.GroupMetadataTopic, n.groups.Runtime(), n.config.OffsetsTopic.Codec},
		{kafka.TransactionStateTopic, n.transactions.Runtime(), record.None},
	}
	n.retention, n.cleaner = n.newRetention(), n.newCleaner()
	n.meta.Watch(n.replicas.Apply)
	n.meta.Watch(n.tier.Apply)
	n.meta.Watch(n.applyGroupSettings)
	n.meta.Watch(n.applyCoordinators)
	n.meta.Watch(n.checkpoints.Apply)
	n.run("cold reads", n.replicas.Run)
	n.run("groups", n.groups.Run)
	n.run("transactions", n.transactions.Run)
	n.run("tiering", n.tier.Run)
	n.run("verification", func(ctx context.Context) error { n.verifier.Run(ctx); return nil })
	n.run("checkpoints", func(ctx context.Context) error { n.checkpoints.Run(ctx); return nil })
	n.run("retention", n.retention.Run)
	n.run("compaction", n.cleaner.Run)
	return nil
}

// openServers opens the listeners, tells the cluster how to reach them, and serves.
func (n *Node) openServers(ctx context.Context) error {
	handlers := api.New(n.apiOptions())
	cfg := n.config.Server
	cfg.ConnectionLimits = n.live.Load().connections
	n.server = server.New(n.logger, n.deps.Registry, n.deps.Network, cfg, handlers.Dispatch)
	n.meta.Watch(n.applySettings)
	addresses := make([]net.Addr, len(n.config.Listeners))
	for i, listener := range n.config.Listeners {
		address, err := n.server.Listen(ctx, listener.Name, listener.Address)
		if err != nil {
			return errors.Join(err, n.server.Close())
		}
		addresses[i] = address
		n.addresses = append(n.addresses, address.String())
	}
	httpListener, err := n.deps.Network.Listen(ctx, n.config.HTTPListener)
	if err != nil {
		return errors.Join(fmt.Errorf("firn.http.listener: %w", err), n.server.Close())
	}
	n.httpAddress = httpListener.Addr().String()
	if err := n.register(ctx, n.endpoints(addresses)); err != nil {
		return errors.Join(err, n.server.Close(), httpListener.Close())
	}
	n.deps.Registry.MustRegister(newNodeCollector(n),
		newLagCollector(n.groups, ledPartitions{n.replicas}, n.config.Metrics.MaxPartitions), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.admin = admin.New(admin.Options{
		Logger: n.logger, Gatherer: n.deps.Registry, Metadata: n.meta, Logs: n.logs.Log,
		Segments: n.remoteSegments, ObjectKey: n.objectKey, Compaction: shownCompaction{n.cleaner}, Tier: shownTier{n},
		Pins: shownPins{n}, Ready: n.Ready, Profiles: n.config.PProf,
	})
	n.run("HTTP", func(ctx context.Context) error { return n.admin.Run(ctx, httpListener) })
	n.run("server", n.server.Run)
	return nil
}

func (n *Node) apiOptions() api.Options {
	return api.Options{
		Logger: n.logger, Metadata: n.meta, Replicas: n.replicas, Placement: roomyPlacement{room: n.logs.RoomForLogs},
		ProducerIDs: n.producerIDs, Groups: n.groups, Transactions: n.transactions,
		BrokerID: n.config.NodeID, Layers: n.layers,
		LogDirectories: n.logDirectories, Quorum: n.quorum, InternalTopics: n.internalTopics(),
		DefaultPartitions:        n.config.Topics.DefaultPartitions,
		DefaultReplicationFactor: n.config.Topics.DefaultReplicationFactor,
		DeleteTopicEnable:        n.config.Topics.DeleteEnable,
		AutoCreateTopics:         n.config.Topics.AutoCreate,
		RemoteStorageDefault:     n.config.Topics.RemoteStorage,
		FetchMaxBytes:            n.config.Fetch.MaxBytes,
		FetchSessionSlots:        n.config.Fetch.SessionSlots,
		RemoteListOffsetsTimeout: func() time.Duration { return n.live.Load().listOffsetsTimeout },
		VerifyTransactions:       func() bool { return n.live.Load().verifyTransactions },
	}
}

// logDirectories describes the log directories for DescribeLogDirs.
func (n *Node) logDirectories() []api.LogDirectory {
	var dirs []api.LogDirectory
	for _, dir := range n.logs.Directories() {
		described := api.LogDirectory{ID: dir.ID, Path: dir.Path, Err: dir.Err, TotalBytes: -1, UsableBytes: -1}
		if absolute, err := filepath.Abs(dir.Path); err == nil {
			described.Path = absolute // as Kafka answers it
		}
		if space, err := n.deps.FS.Space(dir.Path); err == nil && dir.Err == nil {
			described.TotalBytes, described.UsableBytes = space.TotalBytes, space.FreeBytes
		}
		dirs = append(dirs, described)
	}
	return dirs
}

func (n *Node) quorum() (api.QuorumState, error) {
	quorum, err := n.meta.Quorum()
	return api.QuorumState{LeaderEpoch: int64(quorum.Term), LastIndex: int64(quorum.Index)}, err
}

// producerIDBlockSize is how many producer ids one command of the metastore hands out.
const producerIDBlockSize = 1000

func (n *Node) producerIDBlock(ctx context.Context) (first, end int64, err error) {
	result, err := n.meta.Propose(ctx, command.AllocateProducerIDs{
		Broker: n.config.NodeID, Count: producerIDBlockSize,
	})
	if err != nil {
		return 0, 0, err
	}
	block := result.(command.ProducerIDBlock)
	return block.First, block.End, nil
}

// logConfig is what the log of a topic's partitions needs of its settings.
func (n *Node) logConfig(img *image.Image, topic *image.Topic) storage.Config {
	cfg, err := config.ResolveTopic(topic.Configs, n.layers(img).Lookup)
	if err != nil {
		cfg, _ = config.ResolveTopic(nil, n.layers(img).Lookup) // the replica manager says so when it takes the topic over
	}
	return replica.LogConfig(&cfg)
}

func (n *Node) objectKey(tp kafka.TopicIDPartition, entry command.SegmentEntry) string {
	img := n.meta.Image()
	cluster := img.ClusterID
	if topic, found := img.TopicByID(tp.ID); found {
		cluster = topic.OriginID(cluster, entry.Origin())
	}
	return segment.KeyOf(cluster, tp, entry).String()
}

// remoteSegments lists the segment objects of a partition that are part of its log.
func (n *Node) remoteSegments(ctx context.Context, tp kafka.TopicIDPartition) iter.Seq2[command.SegmentEntry, error] {
	tree, err := n.tier.Manifests().Get(ctx, tp)
	if err != nil {
		return func(yield func(command.SegmentEntry, error) bool) { yield(command.SegmentEntry{}, err) }
	}
	return tree.Segments(ctx, tree.Start, math.MaxInt64)
}

// roomyPlacement places new partitions as long as there is room for them.
type roomyPlacement struct {
	controller.Placement
	room func() error
}

// Place implements api.Placement.
func (p roomyPlacement) Place(img *image.Image, first, partitions int32, replicationFactor int16) (
	[]command.NewPartition, error,
) {
	if err := p.room(); err != nil {
		return nil, err
	}
	return p.Placement.Place(img, first, partitions, replicationFactor)
}

// Assign implements api.Placement.
func (p roomyPlacement) Assign(img *image.Image, brokers [][]kafka.BrokerID) ([]command.NewPartition, error) {
	if err := p.room(); err != nil {
		return nil, err
	}
	return p.Placement.Assign(img, brokers)
}
