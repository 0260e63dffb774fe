package metastore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// maxBatch is how many commands share one write of the log.
	maxBatch = 64
	// maxInFlight bounds the proposals that wait for raft; more wait in Propose.
	maxInFlight = 1024
	// transportTimeout bounds a call to another voter. A sole voter calls only itself.
	transportTimeout = 2 * time.Second
)

// tuning is when the log is cut. Tests cut it much more often.
type tuning struct {
	snapshotAfter    uint64        // entries since the last snapshot
	snapshotInterval time.Duration // how often that is looked at, at least; twice as long at most
	trailingLogs     uint64        // entries kept behind a snapshot, for followers that lag a little
}

func defaultTuning() tuning {
	return tuning{snapshotAfter: 8192, snapshotInterval: 2 * time.Minute, trailingLogs: 10_240}
}

// Run keeps the store going until ctx ends or it fails, and then stops it: what was proposed is still answered.
func (s *Store) Run(ctx context.Context) error {
	defer s.stop()
	var telling sync.WaitGroup
	telling.Go(s.watchers.run)
	defer func() {
		close(s.watchers.updates)
		telling.Wait()
	}()

	leadership := make(chan bool, 8)
	address, transport := raft.NewInmemTransportWithTimeout(
		raft.ServerAddress(serverID(s.options.NodeID)), transportTimeout)
	transport.Connect(address, transport)
	quorum, err := raft.NewRaft(s.raftConfig(leadership), s.machine, s.log, s.stable, s.snapshots, transport)
	if err != nil {
		return fmt.Errorf("start the metadata quorum: %w", err)
	}
	err = s.serve(ctx, quorum, transport, leadership)
	s.clock.stop()
	s.metrics.leader.Set(0)
	return errors.Join(err, quorum.Shutdown().Error(), transport.Close())
}

// serve runs what stands between raft and the callers. It returns when all of it has ended, with raft still running,
// so that every proposal raft took has been answered by it.
func (s *Store) serve(
	ctx context.Context, quorum *raft.Raft, transport raft.Transport, leadership <-chan bool,
) error {
	inFlight := make(chan flight, maxInFlight)
	var parts sync.WaitGroup
	parts.Go(func() { s.submit(quorum, inFlight) })
	parts.Go(func() { s.answer(inFlight) })
	parts.Go(func() { s.follow(quorum, leadership) })
	defer parts.Wait()
	defer s.stop()
	if err := s.elect(quorum, transport); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

func (s *Store) raftConfig(leadership chan<- bool) *raft.Config {
	config := raft.DefaultConfig()
	config.LocalID = serverID(s.options.NodeID)
	config.Logger = raftLogger{logger: s.options.Logger}
	config.NotifyCh = leadership
	config.MaxAppendEntries = maxBatch
	config.BatchApplyCh = true
	config.SnapshotThreshold = s.tuning.snapshotAfter
	config.SnapshotInterval = s.tuning.snapshotInterval
	config.TrailingLogs = s.tuning.trailingLogs
	config.ShutdownOnRemove = false
	config.NoLegacyTelemetry = true
	config.NoSnapshotRestoreOnStart = !s.restoreAtStart
	return config
}

// elect checks that this node belongs to the quorum. A sole voter need not wait until it has heard from nobody for
// long enough: it is told to stand for election now.
func (s *Store) elect(quorum *raft.Raft, transport raft.Transport) error {
	configuration := quorum.GetConfiguration()
	if err := configuration.Error(); err != nil {
		return fmt.Errorf("read the configuration of the metadata quorum: %w", err)
	}
	self := serverID(s.options.NodeID)
	voters, member := 0, false
	for _, server := range configuration.Configuration().Servers {
		member = member || server.ID == self
		if server.Suffrage == raft.Voter {
			voters++
		}
	}
	if !member {
		return fmt.Errorf("the metadata in %s belongs to another node than %s: set node.id to what it was",
			s.options.Dir, self)
	}
	if voters > 1 {
		return nil
	}
	request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	err := transport.TimeoutNow(self, transport.LocalAddr(), request, &raft.TimeoutNowResponse{})
	if err != nil {
		// It only costs time: raft stands for election by itself a little later.
		s.options.Logger.Warn("the sole voter of the metadata quorum waits for its election", "error", err)
	}
	return nil
}
