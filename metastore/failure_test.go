package metastore

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/raftlog"
	"github.com/firnlog/firn/metastore/state"
)

// An entry that a newer program wrote must stop this one: passing over it would make the node differ from the others.
func TestAnUnknownCommandStopsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		n := startNode(t, fs)
		n.propose(registration(1))
		before := describe(n.store.Image())
		last, err := n.store.log.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		n.stop()
		if err := onRaft(t, fs, func(db *state.DB) error {
			log := &raft.Log{Index: last + 1, Term: 2, Type: raft.LogCommand, Data: []byte{200, 1}}
			return storeEntry(db, log)
		}); err != nil {
			t.Fatal(err)
		}
		n = openNode(t, fs)
		n.run()
		if err := <-n.done; err == nil || !strings.Contains(err.Error(), "type 200") {
			t.Errorf("run: %v", err)
		}
		if diff := cmp.Diff(before, describe(n.store.Image())); diff != "" {
			t.Errorf("the image has changed:\n%s", diff)
		}
		n.cancel()
		n.close()
	})
}

// A disk that fails must not make the store say that anything is done.
func TestAFailingDiskUnderTheLogStopsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { failingDisk(t, "raft") })
}

// Pebble panics where an earlier unsynced write has failed, and keeps its locks and goroutines; the node is told and
// ends. So this one runs in a process of its own.
func TestAFailingDiskUnderTheStateStopsTheStore(t *testing.T) {
	const child = "FIRN_TEST_FAILING_STATE"
	if os.Getenv(child) != "" {
		failingDisk(t, "state")
		if t.Failed() {
			return
		}
		os.Exit(0) // before anybody looks for goroutines that are left
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func failingDisk(t *testing.T, dir string) {
	var failing sync.Map
	disk := errors.New("the disk is gone")
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if _, broken := failing.Load(dir); broken && op.Kind.ReadOrWrite() == errorfs.OpIsWrite &&
			strings.HasPrefix(op.Path, dir) {
			return disk
		}
		return nil
	}))
	// The state database reports to the node, which stops everything, as here.
	ctx, cancel := context.WithCancelCause(context.Background())
	db, err := state.Open(state.Options{FS: fs, Dir: "state", Logger: quiet(), OnFatal: cancel})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{FS: fs, Dir: "raft", NodeID: 1, State: db, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(ctx, registration(1)); err != nil {
		t.Fatal(err)
	}
	failing.Store(dir, true)
	for ctx.Err() == nil {
		_, err := s.Propose(context.Background(), registration(2))
		if err != nil {
			if !errors.Is(err, ErrUnknownOutcome) && !errors.Is(err, ErrStopped) && !errors.Is(err, ErrNotLeader) {
				t.Errorf("a proposal on a broken disk: %v", err)
			}
			break
		}
		if dir == "raft" {
			t.Fatal("a proposal succeeds although the log cannot be written")
		}
		time.Sleep(time.Millisecond)
	}
	runErr := <-done
	if cause := context.Cause(ctx); runErr == nil && (cause == nil || !errors.Is(cause, disk) &&
		!strings.Contains(cause.Error(), disk.Error())) {
		t.Errorf("run ends with %v, the node knows of %v", runErr, cause)
	}
	failing.Delete(dir)
	_ = s.Close()
	_ = db.Close()
}

// storeEntry appends to a raft log that nothing runs on.
func storeEntry(db *state.DB, entry *raft.Log) error {
	log, err := raftlog.NewLog(db)
	if err != nil {
		return err
	}
	return log.StoreLog(entry)
}
