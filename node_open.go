package firn

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"path"
	"strconv"
	"sync"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/metastore"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
	"github.com/firnlog/firn/tiering/objectstore"
)

// newID draws an id for a cluster or for one run of a broker.
func newID() kafka.UUID {
	var id kafka.UUID
	_, _ = rand.Read(id[:]) // never fails, as crypto/rand says
	return id
}

// lockName is the file in a directory that a process holds a lock on while it uses the directory.
const lockName = ".lock"

// openMetadata takes the metadata directory, opens its two databases and waits until every command that was ever
// acknowledged is applied.
func (n *Node) openMetadata(ctx context.Context) error {
	dir := n.config.MetadataDir
	if err := vfs.MkdirAllDurable(n.deps.FS, dir); err != nil {
		return fmt.Errorf("metadata.log.dir: %w", err)
	}
	if err := n.refuseUnfinished(); err != nil {
		return err
	}
	lock, err := n.deps.FS.Lock(path.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("%s is in use: is another firn running on it? stop it, or give another --data-dir: %w", dir, err)
	}
	n.onClose("the metadata directory's lock", lock.Close)
	stateOptions := state.Options{
		FS: n.databaseFS(), Dir: path.Join(dir, "state"), Logger: n.logger, OnFatal: n.failure,
	}
	raftOptions := stateOptions
	raftOptions.Dir = path.Join(dir, "raft")
	if err := createBoth(stateOptions, raftOptions); err != nil {
		return err
	}
	n.state, err = state.Open(stateOptions)
	if err != nil {
		return err
	}
	n.onClose("the state database", n.state.Close)
	n.meta, err = metastore.Open(metastore.Options{
		FS: raftOptions.FS, Dir: raftOptions.Dir, NodeID: n.config.NodeID, State: n.state,
		Logger: n.logger, Registerer: n.deps.Registry,
	})
	if err != nil {
		return err
	}
	n.onClose("the metadata store", n.meta.Close)
	n.run("metadata", n.meta.Run)
	if err := n.meta.WaitReady(ctx); err != nil {
		return err
	}
	if err := n.claimMetadata(ctx); err != nil {
		return err
	}
	live := n.liveAt(n.meta.Image())
	n.live.Store(&live)
	return nil
}

// createBoth makes the databases of a first start, side by side: each waits for the disk most of the time.
func createBoth(first, second state.Options) error {
	var both errgroup.Group
	both.Go(func() error { return state.Create(first) })
	both.Go(func() error { return state.Create(second) })
	return both.Wait()
}

// databaseFS is where the two databases live. As long as firn.log.dirs.reserve.bytes asks for some room to be left, a
// part of it is taken up by a ballast file, which is given up before a write of theirs fails.
func (n *Node) databaseFS() pebblevfs.FS {
	bytes := min(state.BallastBytes, n.config.Log.ReserveBytes/8)
	if bytes <= 0 {
		return n.deps.PebbleFS
	}
	n.ballast = state.NewBallast(n.deps.PebbleFS, path.Join(n.config.MetadataDir, "ballast"), bytes, n.logger, nil)
	return n.ballast.FS()
}

// claimMetadata gives a new cluster its id and checks that the directory is this node's.
func (n *Node) claimMetadata(ctx context.Context) error {
	if n.meta.Image().ClusterID.IsZero() {
		id, err := n.newClusterID()
		if err != nil {
			return err
		}
		if _, err := n.meta.Propose(ctx, command.InitCluster{ClusterID: id}); err != nil {
			return fmt.Errorf("give the cluster its id: %w", err)
		}
	}
	_, err := storage.ClaimDirectory(n.deps.FS, storage.Directory{Path: n.config.MetadataDir}, n.owner())
	return err
}

// newClusterID draws an id for a cluster whose metadata is empty. Logs that already have an owner show that the
// metadata was lost: a new cluster must not begin on them.
func (n *Node) newClusterID() (kafka.UUID, error) {
	for _, dir := range append([]string{n.config.MetadataDir}, n.config.LogDirs...) {
		meta, err := storage.ReadMetaProperties(n.deps.FS, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return kafka.UUID{}, err
		}
		return kafka.UUID{}, fmt.Errorf("%s belongs to cluster %s, whose metadata is not in %s: point metadata.log.dir "+
			"at it, or move the directory away to begin a new cluster", dir, meta.ClusterID, n.config.MetadataDir)
	}
	if !n.newCluster.IsZero() {
		return n.newCluster, nil
	}
	return newID(), nil
}

// owner is whose directories this node may use.
func (n *Node) owner() storage.Owner {
	return storage.Owner{ClusterID: n.meta.Image().ClusterID, NodeID: n.config.NodeID}
}

// openLogs takes the log directories and opens every log that the metadata knows. After an unclean stop each partition
// begins a new leader epoch: what recovery cut off must not share one with what comes next.
func (n *Node) openLogs(ctx context.Context) error {
	dirs := make([]storage.Directory, len(n.config.LogDirs))
	for i, dir := range n.config.LogDirs {
		dirs[i] = storage.Directory{Path: dir}
	}
	var err error
	n.logs, err = storage.NewManager(storage.ManagerOptions{
		FS: n.deps.FS, Dirs: dirs, Owner: n.owner(),
		Store: n.state.Space(state.SpaceStorage), SyncStore: n.state.Flush,
		Policy: n.flushPolicy(), ReserveBytes: n.config.Log.ReserveBytes,
		MetadataDir: n.config.MetadataDir, MetadataFull: n.metadataFull,
		ProducerExpiration: n.live.Load().producerExpiration,
		MaxOpenFiles:       openSegments(vfs.MaxDescriptors()),
		MaxOpenIndexes:     maxOpenSegments,
		Remote:             n.remoteRange,
		Events:             n.storageEvents(),
		Logger:             n.logger, Registerer: n.deps.Registry,
	})
	if err != nil {
		return err
	}
	n.onClose("the logs", n.logs.Close)
	loaded, err := n.logs.Load(ctx, n.knownLogs())
	if err != nil {
		return err
	}
	for _, stray := range loaded.Strays {
		n.logger.Warn("a folder of no known topic was set aside; delete it when you are sure", "folder", stray)
	}
	for _, offline := range loaded.Offline {
		n.logger.Error("a partition is offline", "partition", offline.TopicPartition.String(), "err", offline.Err)
	}
	n.run("logs", n.logs.Run)
	if loaded.Clean || n.meta.Image().TopicCount() == 0 {
		return nil
	}
	n.logger.Info("the last stop was not a clean one: every partition begins a new leader epoch")
	if _, err := n.meta.Propose(ctx, command.BumpLeaderEpochs{Broker: n.config.NodeID}); err != nil {
		return fmt.Errorf("begin new leader epochs: %w", err)
	}
	return nil
}

// metadataFull tells that the disk of the databases has been full and has no room yet.
func (n *Node) metadataFull() bool { return n.ballast != nil && n.ballast.Full() }

// knownLogs tells the log manager which folders belong to the cluster, and with which settings. The settings of each
// topic are resolved once.
func (n *Node) knownLogs() storage.Known {
	img := n.meta.Image()
	var (
		mu      sync.Mutex // guards configs
		configs = map[kafka.TopicID]storage.Config{}
	)
	return func(tp kafka.TopicPartition, id kafka.TopicID) (storage.Config, bool) {
		topic, ok := img.TopicByID(id)
		if !ok || topic.Name != tp.Topic || int(tp.Partition) >= len(topic.Partitions) {
			return storage.Config{}, false
		}
		mu.Lock()
		defer mu.Unlock()
		cfg, found := configs[id]
		if !found {
			cfg = n.logConfig(img, topic)
			configs[id] = cfg
		}
		return cfg, true
	}
}

// remoteRange tells the log manager which part of a partition the bucket has.
func (n *Node) remoteRange(id kafka.TopicIDPartition) (storage.RemoteRange, bool) {
	partition, ok := n.meta.Image().PartitionByID(id)
	if !ok || partition.Tier == nil {
		return storage.RemoteRange{}, false
	}
	return storage.RemoteRange{StartOffset: partition.Tier.Start, EndOffset: partition.Tier.End}, true
}

// flushPolicy resolves auto: with an ISR of one the disk is the only copy, so acknowledgements wait for it.
func (n *Node) flushPolicy() storage.FlushPolicy {
	if n.config.Log.FlushPolicy == FlushOS {
		return storage.FlushOS
	}
	return storage.FlushGroup
}

// layers are the broker's settings: those it was started with, below those altered at run time.
func (n *Node) layers(img *image.Image) config.BrokerLayers {
	own := strconv.Itoa(int(n.config.NodeID))
	return config.BrokerLayers{
		Dynamic: img.BrokerConfig(own), DynamicDefault: img.BrokerConfig(""), Static: n.config.Settings.Lookup,
	}
}

// openBucket opens the object store. A store that is wrong refuses the start; one that cannot be reached does not: hot
// topics work without it.
func (n *Node) openBucket(ctx context.Context) error {
	if n.bucket = n.deps.Bucket; n.bucket != nil {
		return nil
	}
	store, err := objectstore.Open(ctx, n.config.ObjectStore, objectstore.Dependencies{
		Logger: n.logger, Registerer: n.deps.Registry, FS: n.deps.FS, Rand: newRand(),
	})
	if err != nil {
		return fmt.Errorf("firn.object.store: %w", err)
	}
	n.bucket = store
	n.onClose("the object store", store.Close)
	n.run("object store", store.Run)
	return nil
}

// newRand makes a generator for waits between attempts, which must differ from node to node.
func newRand() *mathrand.Rand {
	id := newID()
	return mathrand.New(mathrand.NewPCG(binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])))
}

// maxOpenSegments is how many sealed segments are kept open for readers: opening one and mapping its indexes takes
// longer than reading a batch of it. Their maps, three at most, are below the 65 530 that a kernel allows.
const maxOpenSegments = 16 << 10

// openSegments leaves half of the descriptors to connections and to what is written.
func openSegments(descriptors int) int { return min(descriptors/2, maxOpenSegments) }
