package metastore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/state"
)

// often cuts the log every few commands, so that a short test has many snapshots.
func often() tuning {
	return tuning{snapshotAfter: 20, snapshotInterval: 10 * time.Millisecond, trailingLogs: 5}
}

// startOften is startNode with a log that is cut often.
func startOften(t testing.TB, fs *vfs.MemFS, prepare ...func(*node)) *node {
	t.Helper()
	n := openNode(t, fs)
	n.store.tuning = often()
	for _, prepare := range prepare {
		prepare(n)
	}
	n.run()
	if err := n.store.WaitReady(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

// history is each image that a run of a node has come to, by index, and what was acknowledged.
type history struct {
	mu           sync.Mutex
	images       map[uint64]string
	acknowledged uint64
}

// record has a node that does not run yet tell of each image that its state machine makes.
func (h *history) record(n *node) {
	emit := n.store.machine.emit
	n.store.machine.emit = func(u update) {
		h.mu.Lock()
		h.images[u.image.Index] = describe(u.image)
		h.mu.Unlock()
		emit(u)
	}
}

// acknowledge notes that a command has been answered: the image it made is the shown one or an older one.
func (h *history) acknowledge(shown *image.Image) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acknowledged = max(h.acknowledged, shown.Index)
}

// drawAny draws a command without rapid: the workload of crash tests.
func drawAny(rng *rand.Rand, img *image.Image, elapsedMs int64) command.Command {
	topic := id(fmt.Sprint("t", rng.IntN(8)))
	tp := kafka.TopicIDPartition{ID: topic}
	partition, found := img.PartitionByID(tp)
	if !found || rng.IntN(12) == 0 {
		return command.CreateTopics{Topics: []command.NewTopic{newTopic(idText(topic), 1)}}
	}
	tier := tierOf(partition)
	upload := id(fmt.Sprintf("u%d.%d", tier.Version, rng.IntN(2)))
	switch {
	case partition.Tier == nil:
		return command.OpenTier{Partition: tp, LeaderEpoch: partition.Epoch}
	case rng.IntN(20) == 0:
		return command.DeleteTopic{ID: topic, ElapsedMs: elapsedMs}
	case rng.IntN(20) == 0:
		return command.BumpLeaderEpochs{Broker: 1}
	case rng.IntN(5) == 0:
		return command.AdvanceStart{Partition: tp, LeaderEpoch: partition.Epoch, Start: tier.Start + 7, ElapsedMs: elapsedMs}
	case rng.IntN(5) == 0:
		return command.LapseReservations{ElapsedMs: elapsedMs}
	case rng.IntN(2) == 0:
		return command.ReserveUploads{
			Partition: tp, LeaderEpoch: partition.Epoch, UploadIDs: []kafka.UUID{upload},
			ElapsedMs: elapsedMs, DeadlineMs: elapsedMs + 1000,
		}
	}
	return command.CommitSegment{
		Partition: tp, LeaderEpoch: partition.Epoch, Version: tier.Version,
		Entry: command.SegmentEntry{
			BaseOffset: tier.End, EndOffset: tier.End + 10, LeaderEpoch: partition.Epoch, UploadID: upload, ObjectBytes: 9,
		},
	}
}

// work proposes commands from a few goroutines until ctx ends.
func work(ctx context.Context, n *node, seed uint64, h *history) *sync.WaitGroup {
	var proposers sync.WaitGroup
	for i := range uint64(3) {
		proposers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, i))
			for ctx.Err() == nil {
				_, err := n.store.Propose(ctx, drawAny(rng, n.store.Image(), n.store.ElapsedMs()))
				if ctx.Err() == nil && kafka.CodeOf(err) == kafka.UnknownServerError {
					n.t.Errorf("a proposal fails: %v", err)
				}
				if !errors.Is(err, ErrUnknownOutcome) && ctx.Err() == nil {
					h.acknowledge(n.store.Image())
				}
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
			}
		})
	}
	return &proposers
}

// ME-14 for one node: killed again and again under load with a log that is cut all the time, it always comes back, with
// everything that was acknowledged and exactly a state that it had been in.
func TestME14RestartsAfterRepeatedPowerCutsLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(14, 14))
		fs := vfs.NewCrashableMem()
		h := &history{images: map[uint64]string{0: describe(image.Empty())}}
		snapshots := 0
		for round := range uint64(20) {
			life := &history{images: map[uint64]string{}}
			n := startOften(t, fs, life.record)
			checkRecovered(t, n, h)
			h = life
			h.images[n.store.Image().Index] = describe(n.store.Image())
			h.acknowledge(n.store.Image()) // what a node has shown once, it must not take back either
			n.propose(registration(1))
			ctx, cancel := context.WithCancel(context.Background())
			proposers := work(ctx, n, round, h)
			time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)

			h.mu.Lock()
			acknowledged := h.acknowledged
			h.mu.Unlock()
			crashed := n.powerCut(rng)
			list, err := n.store.snapshots.List()
			if err != nil {
				t.Fatal(err)
			}
			snapshots = max(snapshots, len(list))
			cancel()
			proposers.Wait()
			n.stop()
			fs = crashed
			// What the old disk went on to do after the cut never happened.
			h.acknowledged = acknowledged
		}
		if snapshots == 0 || h.acknowledged < 100 {
			t.Errorf("the test has shown little: %d snapshots, %d commands", snapshots, h.acknowledged)
		}
	})
}

// checkRecovered compares a node that is ready again with the images of its earlier lives.
func checkRecovered(t *testing.T, n *node, h *history) {
	t.Helper()
	img := n.store.Image()
	if img.Index < h.acknowledged {
		t.Fatalf("command %d was acknowledged, the node is back at %d", h.acknowledged, img.Index)
	}
	known, found := h.images[img.Index]
	if !found {
		t.Fatalf("the node is at %d, where it never was", img.Index)
	}
	if diff := cmp.Diff(known, describe(img)); diff != "" {
		t.Fatalf("the node is at %d, with another state than before (-before +now):\n%s", img.Index, diff)
	}
	expectLoaded(t, n.db, img)
}

// fill makes a node with a state that its log alone no longer holds.
func fill(t *testing.T, fs *vfs.MemFS) string {
	t.Helper()
	n := startOften(t, fs)
	n.propose(registration(1))
	for i := range 100 {
		n.propose(command.CreateTopics{Topics: []command.NewTopic{newTopic(fmt.Sprint("t", i), 2)}})
	}
	if err := n.db.Space(state.SpaceStorage).Set([]byte("local"), []byte("kept")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the log is cut meanwhile
	for i := range 5 {
		n.propose(command.AllocateProducerIDs{Broker: 1, Count: int32(i + 1)})
	}
	described := describe(n.store.Image())
	n.stop()
	return described
}

func TestAStateThatIsLostIsRestoredFromSnapshotAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		want := fill(t, fs)
		if err := fs.RemoveAll("state"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			n := startNode(t, fs)
			if diff := cmp.Diff(want, describe(n.store.Image())); diff != "" {
				t.Errorf("the restored state (-before +now):\n%s", diff)
			}
			expectLoaded(t, n.db, n.store.Image())
			n.stop()
		}
	})
}

func TestARestoreThatWasCutShortIsDoneAgainAndLeavesLocalStateAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		want := fill(t, fs)
		db := openState(t, fs)
		batch := db.NewBatch()
		batch.Delete(state.SpaceApplied, nil)
		batch.DeleteRange(state.SpaceMetadata, state.Prefix([]byte{keyTopic}))
		batch.Set(state.SpaceTier, []byte("zz"), []byte("left over"))
		if err := batch.Commit(state.Synced); err != nil {
			t.Fatal(err)
		}
		batch.Close()
		closeState(t, db)
		n := startNode(t, fs)
		defer n.stop()
		if diff := cmp.Diff(want, describe(n.store.Image())); diff != "" {
			t.Errorf("the restored state (-before +now):\n%s", diff)
		}
		if value, err := n.db.Space(state.SpaceTier).Get([]byte("zz")); value != nil || err != nil {
			t.Errorf("a key of the half-done restore is left: %q, %v", value, err)
		}
		if value, err := n.db.Space(state.SpaceStorage).Get([]byte("local")); string(value) != "kept" || err != nil {
			t.Errorf("the broker's own state is %q, %v", value, err)
		}
	})
}

// openError opens a store that must be refused.
func openError(t *testing.T, fs vfs.FS, nodeID kafka.BrokerID) error {
	t.Helper()
	db := openState(t, fs)
	defer closeState(t, db)
	s, err := Open(Options{FS: fs, Dir: "raft", NodeID: nodeID, State: db, Logger: quiet()})
	if err == nil {
		err = s.Run(context.Background())
		if closeErr := s.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	}
	return err
}

func TestAStateWithoutItsLogIsRefused(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, fs *vfs.MemFS) error{
		"the log's folder is gone": func(_ *testing.T, fs *vfs.MemFS) error { return fs.RemoveAll("raft") },
		"the log has lost its end": func(t *testing.T, fs *vfs.MemFS) error {
			return onRaft(t, fs, func(db *state.DB) error {
				return db.Space(state.SpaceRaftLog).Update(func(w state.Writer) error {
					w.DeleteRange(state.Range{Start: []byte{0, 0, 0, 0, 0, 0, 0, 60}})
					return nil
				})
			})
		},
		"the log begins after its snapshot": func(t *testing.T, fs *vfs.MemFS) error {
			return onRaft(t, fs, func(db *state.DB) error {
				return db.Space(state.SpaceRaftSnapshot).Update(func(w state.Writer) error {
					w.DeleteRange(state.Range{})
					return nil
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				fill(t, fs)
				if err := damage(t, fs); err != nil {
					t.Fatal(err)
				}
				if err := openError(t, fs, 1); err == nil || !strings.Contains(err.Error(), "put the") {
					t.Errorf("the start: %v", err)
				}
			})
		})
	}
}

func onRaft(t *testing.T, fs vfs.FS, change func(*state.DB) error) error {
	db, err := state.Open(state.Options{FS: fs, Dir: "raft", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return errors.Join(change(db), db.Flush(), db.Close())
}

func TestAnotherNodesMetadataIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		fill(t, fs)
		if err := openError(t, fs, 2); err == nil || !strings.Contains(err.Error(), "node.id") {
			t.Errorf("the start: %v", err)
		}
	})
}

// A crash between the first writes of a new log must not leave a node that never leads.
func TestABootstrapThatWasCutShortIsRepeated(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			fs := vfs.NewCrashableMem()
			n := openNode(t, fs)
			n.close()
			// The vote and the term only: as after a crash before the log's first entry.
			if err := onRaft(t, fs, func(db *state.DB) error {
				return db.Space(state.SpaceRaftLog).Update(func(w state.Writer) error {
					w.DeleteRange(state.Range{})
					return nil
				})
			}); err != nil {
				t.Fatal(err)
			}
			n = startNode(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
			n.propose(registration(1))
			n.stop()
		})
	}
}
