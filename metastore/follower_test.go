package metastore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/raftlog"
	"github.com/firnlog/firn/metastore/state"
)

// voter is the parts of a store without what stands in front of raft, so that several can form a quorum.
type voter struct {
	t         *testing.T
	db        *state.DB
	raftDB    *state.DB
	log       *raftlog.Log
	machine   *machine
	raft      *raft.Raft
	transport *raft.InmemTransport
}

// startVoter opens what a store opens, and runs raft on it. The first voter begins the log.
func startVoter(t *testing.T, fs vfs.FS, node kafka.BrokerID, others ...*voter) *voter {
	t.Helper()
	v := &voter{t: t, db: openState(t, fs)}
	s := &Store{options: Options{Dir: "raft", NodeID: node, State: v.db, Logger: quiet()}, tuning: often()}
	raftDB, err := state.Open(state.Options{FS: fs, Dir: "raft", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	v.raftDB = raftDB
	if s.log, err = raftlog.NewLog(raftDB); err != nil {
		t.Fatal(err)
	}
	v.log = s.log
	s.stable = raftlog.NewStable(raftDB)
	if s.snapshots, err = raftlog.NewSnapshots(raftDB, quiet()); err != nil {
		t.Fatal(err)
	}
	if _, last := s.logRange(); len(others) == 0 || last > 0 {
		if err := s.recover(); err != nil {
			t.Fatal(err)
		}
	}
	v.machine = newMachine(t, v.db)
	_, v.transport = raft.NewInmemTransport(raft.ServerAddress(serverID(node)))
	for _, other := range others {
		v.transport.Connect(other.transport.LocalAddr(), other.transport)
		other.transport.Connect(v.transport.LocalAddr(), v.transport)
	}
	v.raft, err = raft.NewRaft(s.raftConfig(make(chan bool, 100)), v.machine, s.log, s.stable, s.snapshots, v.transport)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *voter) stop() {
	v.t.Helper()
	if err := v.raft.Shutdown().Error(); err != nil {
		v.t.Error(err)
	}
	closeState(v.t, v.raftDB)
	closeState(v.t, v.db)
}

// caughtUp waits until the voter has applied what the leader has.
func (v *voter) caughtUp(leader *voter) {
	v.t.Helper()
	for range 1000 {
		if v.raft.AppliedIndex() >= leader.raft.LastIndex() {
			if err := v.raft.GetConfiguration().Error(); err != nil {
				v.t.Error(err)
			}
			synctest.Wait()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	v.t.Fatalf("the follower is at %d, the leader at %d", v.raft.AppliedIndex(), leader.raft.LastIndex())
}

func (v *voter) apply(cmd command.Command) {
	v.t.Helper()
	if err := v.raft.Apply(command.Encode(cmd), 0).Error(); err != nil {
		v.t.Fatal(err)
	}
}

// A node that joins late gets a snapshot, since the log from the beginning is gone; it then follows the log, also over
// a power cut, and has the same bytes as the leader.
func TestAFollowerCatchesUpBySnapshotAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := startVoter(t, vfs.NewCrashableMem(), 1)
		for leader.raft.State() != raft.Leader {
			time.Sleep(10 * time.Millisecond)
		}
		leader.apply(registration(1))
		for i := range 100 {
			leader.apply(command.CreateTopics{Topics: []command.NewTopic{newTopic(fmt.Sprint("t", i), 1)}})
			time.Sleep(time.Millisecond)
		}
		fs := vfs.NewCrashableMem()
		follower := startVoter(t, fs, 2, leader)
		if err := leader.raft.AddVoter("2", "2", 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			leader.apply(command.DeleteTopic{ID: id(fmt.Sprint("t", i))})
		}
		follower.caughtUp(leader)
		if diff := cmp.Diff(dumpReplicated(t, leader.db), dumpReplicated(t, follower.db)); diff != "" {
			t.Fatalf("the follower's state (-leader +follower):\n%s", diff)
		}
		expectLoaded(t, follower.db, leader.machine.image)
		if first, _ := follower.log.FirstIndex(); first <= 1 {
			t.Error("the follower has the log from its beginning: no snapshot was sent")
		}

		crashed := fs.CrashClone(vfs.CrashCloneCfg{})
		follower.stop()
		leader.transport.Disconnect("2")
		follower = startVoter(t, crashed, 2, leader)
		// Without the follower the leader had no quorum; whoever leads now, the log goes on.
		var leading, following *voter
		for leading == nil {
			switch {
			case leader.raft.State() == raft.Leader:
				leading, following = leader, follower
			case follower.raft.State() == raft.Leader:
				leading, following = follower, leader
			default:
				time.Sleep(10 * time.Millisecond)
			}
		}
		leading.apply(registration(3))
		following.caughtUp(leading)
		if diff := cmp.Diff(dumpReplicated(t, leader.db), dumpReplicated(t, follower.db)); diff != "" {
			t.Errorf("the states after a power cut (-first +second):\n%s", diff)
		}
		follower.stop()
		leader.stop()
	})
}
