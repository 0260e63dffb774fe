package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/state"
)

func openSnapshots(t *testing.T, db *state.DB) *Snapshots {
	t.Helper()
	snapshots, err := NewSnapshots(db, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return snapshots
}

func content(index uint64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "snapshot %d ", index), 50_000)
}

func create(t *testing.T, snapshots *Snapshots, index uint64) raft.SnapshotSink {
	t.Helper()
	configuration := raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "1"}}}
	sink, err := snapshots.Create(1, index, 7, configuration, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(sink, bytes.NewReader(content(index))); err != nil {
		t.Fatal(err)
	}
	return sink
}

// expectSnapshots checks which snapshots there are, newest first, and that each can be read.
func expectSnapshots(t *testing.T, snapshots *Snapshots, indexes ...uint64) {
	t.Helper()
	list, err := snapshots.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, meta := range list {
		got = append(got, meta.Index)
		opened, reader, err := snapshots.Open(meta.ID)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil || !bytes.Equal(data, content(meta.Index)) {
			t.Errorf("snapshot %s has %d bytes, %v", meta.ID, len(data), err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(meta, opened); diff != "" || opened.Size != int64(len(data)) || opened.Term != 7 ||
			opened.Configuration.Servers[0].ID != "1" {
			t.Errorf("snapshot %s is described as %+v %s", meta.ID, opened, diff)
		}
	}
	if diff := cmp.Diff(indexes, got); diff != "" {
		t.Fatalf("snapshots are %v, not %v", got, indexes)
	}
}

func TestTheTwoNewestSnapshotsAreKept(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openDB(t, fs)
	snapshots := openSnapshots(t, db)
	expectSnapshots(t, snapshots)
	for index := uint64(10); index <= 30; index += 10 {
		sink := create(t, snapshots, index)
		// Raft closes it, too, after the state machine did.
		if err := errors.Join(sink.Close(), sink.Close(), sink.Cancel()); err != nil {
			t.Fatal(err)
		}
	}
	expectSnapshots(t, snapshots, 30, 20)
	if used, err := snapshots.keys.Any(chunksOf(1)); used || err != nil {
		t.Errorf("the oldest snapshot's chunks are still there: %v, %v", used, err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closeDB(t, db)
	db = openDB(t, crashed)
	expectSnapshots(t, openSnapshots(t, db), 30, 20)
	closeDB(t, db)
}

func TestACancelledSnapshotLeavesNothing(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	snapshots := openSnapshots(t, db)
	if err := create(t, snapshots, 10).Cancel(); err != nil {
		t.Fatal(err)
	}
	expectSnapshots(t, snapshots)
	if used, err := snapshots.keys.Any(state.Range{}); used || err != nil {
		t.Errorf("keys are left: %v, %v", used, err)
	}
}

func TestAReaderKeepsASnapshotThatIsReplaced(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	snapshots := openSnapshots(t, db)
	if err := create(t, snapshots, 10).Close(); err != nil {
		t.Fatal(err)
	}
	_, reader, err := snapshots.Open("1")
	if err != nil {
		t.Fatal(err)
	}
	for index := uint64(20); index <= 40; index += 10 {
		if err := create(t, snapshots, index).Close(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(reader)
	if err != nil || !bytes.Equal(data, content(10)) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"1", "99", "x", ""} {
		if _, _, err := snapshots.Open(id); err == nil {
			t.Errorf("snapshot %q can be opened", id)
		}
	}
}

func TestME16LeftoversOfUnfinishedSnapshotsAreRemovedAtTheStart(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openDB(t, fs)
	snapshots := openSnapshots(t, db)
	finished := create(t, snapshots, 10)
	create(t, snapshots, 11) // before, between and after finished ones
	if err := errors.Join(finished.Close(), create(t, snapshots, 20).Close()); err != nil {
		t.Fatal(err)
	}
	create(t, snapshots, 21)
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	for restart := range 10 {
		crashed := fs.CrashClone(vfs.CrashCloneCfg{})
		closeDB(t, db)
		fs, db = crashed, openDB(t, crashed)
		snapshots = openSnapshots(t, db)
		expectSnapshots(t, snapshots, 20, 10)
		for _, number := range []uint64{2, 4, 5} {
			if used, err := snapshots.keys.Any(chunksOf(number)); used || err != nil {
				t.Fatalf("restart %d: snapshot %d has left chunks: %v", restart, number, err)
			}
		}
		create(t, snapshots, 30) // cut short again
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
}

func TestADamagedSnapshotIsNotReadToItsEnd(t *testing.T) {
	for name, damage := range map[string]func(*state.Keyspace) error{
		"a chunk is missing": func(keys *state.Keyspace) error { return keys.Delete(chunkKey(1, 1)) },
		"a chunk is another one": func(keys *state.Keyspace) error {
			return keys.Set(chunkKey(1, 1), make([]byte, chunkBytes))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := openDB(t, vfs.NewMem())
			defer closeDB(t, db)
			snapshots := openSnapshots(t, db)
			if err := errors.Join(create(t, snapshots, 10).Close(), damage(snapshots.keys)); err != nil {
				t.Fatal(err)
			}
			_, reader, err := snapshots.Open("1")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(reader); err == nil {
				t.Error("no error")
			}
			if err := reader.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
