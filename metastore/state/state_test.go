package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openDB(t *testing.T, fs vfs.FS) *DB {
	t.Helper()
	db, err := Open(Options{FS: fs, Dir: "state", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeDB(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// dump lists a space as key=value lines.
func dump(t *testing.T, scan func(visit func(key, value []byte) error) error) string {
	t.Helper()
	var out strings.Builder
	if err := scan(func(key, value []byte) error {
		fmt.Fprintf(&out, "%s=%s\n", key, value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func set(t *testing.T, space *Keyspace, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := space.Set([]byte(key), []byte("v"+key)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSpacesDoNotSeeEachOther(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	set(t, db.Space(SpaceMetadata), "a", "b", "\xff", "\xff\xff")
	set(t, db.Space(SpaceTier), "a")
	set(t, db.Space(SpaceStorage), "", "z")

	all := func(space Space) string {
		return dump(t, func(visit func(key, value []byte) error) error { return db.Space(space).Scan(nil, visit) })
	}
	if got := all(SpaceMetadata); got != "a=va\nb=vb\n\xff=v\xff\n\xff\xff=v\xff\xff\n" {
		t.Errorf("metadata: %q", got)
	}
	if got := all(SpaceStorage); got != "=v\nz=vz\n" {
		t.Errorf("storage: %q", got)
	}
	if err := db.Space(SpaceMetadata).Update(func(w Writer) error { w.DeleteRange(Range{}); return nil }); err != nil {
		t.Fatal(err)
	}
	if all(SpaceMetadata) != "" || all(SpaceTier) != "a=va\n" || all(SpaceStorage) == "" {
		t.Error("emptying one space does not leave exactly the others")
	}
	if value, err := db.Space(SpaceMetadata).Get([]byte("a")); value != nil || err != nil {
		t.Errorf("an absent key is %q, %v", value, err)
	}
	if value, err := db.Space(SpaceStorage).Get(nil); string(value) != "v" || err != nil {
		t.Errorf("the empty key is %q, %v", value, err)
	}
}

func TestAScanKeepsToItsPrefix(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	space := db.Space(SpaceStorage)
	set(t, space, "a", "ab", "abc", "ac", "b", "\xff", "\xff\xff\x01")
	for prefix, want := range map[string]string{
		"ab":       "ab=vab\nabc=vabc\n",
		"x":        "",
		"\xff":     "\xff=v\xff\n\xff\xff\x01=v\xff\xff\x01\n",
		"\xff\xff": "\xff\xff\x01=v\xff\xff\x01\n",
	} {
		got := dump(t, func(visit func(key, value []byte) error) error { return space.Scan([]byte(prefix), visit) })
		if got != want {
			t.Errorf("prefix %q: %q instead of %q", prefix, got, want)
		}
	}
	stop := errors.New("stop")
	visited := 0
	err := space.Scan(nil, func(_, _ []byte) error { visited++; return stop })
	if !errors.Is(err, stop) || visited != 1 {
		t.Errorf("a visitor's error: %v after %d keys", err, visited)
	}
}

func TestTheEndsOfASpace(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	space := db.Space(SpaceRaftLog)
	set(t, db.Space(SpaceApplied), "x")
	set(t, db.Space(SpaceRaftStable), "x")
	for _, find := range []func() ([]byte, []byte, error){space.First, space.Last} {
		if key, value, err := find(); key != nil || value != nil || err != nil {
			t.Errorf("an empty space has %q=%q, %v", key, value, err)
		}
	}
	set(t, space, "2", "1", "3")
	first, _, _ := space.First()
	last, value, err := space.Last()
	if string(first) != "1" || string(last) != "3" || string(value) != "v3" || err != nil {
		t.Errorf("from %q to %q=%q, %v", first, last, value, err)
	}
	for _, test := range []struct {
		part Range
		want bool
	}{
		{Range{}, true}, {Prefix([]byte("2")), true}, {Prefix([]byte("4")), false},
		{Range{Start: []byte("3")}, true}, {Range{End: []byte("1")}, false},
	} {
		if found, err := space.Any(test.part); found != test.want || err != nil {
			t.Errorf("any key in %q: %v, %v", test.part, found, err)
		}
	}
}

func TestAnUpdateThatFailsChangesNothing(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	space := db.Space(SpaceStorage)
	stop := errors.New("stop")
	err := space.Update(func(w Writer) error {
		w.Set([]byte("a"), []byte("1"))
		return stop
	})
	if value, _ := space.Get([]byte("a")); !errors.Is(err, stop) || value != nil {
		t.Errorf("%v, and the key is %q", err, value)
	}
}

func TestABatchReadsItsOwnChanges(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	set(t, db.Space(SpaceTier), "a1", "a2", "b1")
	batch := db.NewReadWriteBatch()
	defer batch.Close()
	batch.DeleteRange(SpaceTier, Prefix([]byte("a")))
	batch.Set(SpaceTier, []byte("a3"), []byte("new"))
	got := dump(t, func(visit func(key, value []byte) error) error {
		return batch.Scan(SpaceTier, Range{}, visit)
	})
	if got != "a3=new\nb1=vb1\n" {
		t.Errorf("the batch sees %q", got)
	}
	if value, err := batch.Get(SpaceTier, []byte("a1")); value != nil || err != nil {
		t.Errorf("a deleted key is %q, %v", value, err)
	}
	if value, _ := db.Space(SpaceTier).Get([]byte("a3")); value != nil {
		t.Error("the database has changed before the commit")
	}
}

func TestASnapshotStaysAsItWas(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer closeDB(t, db)
	set(t, db.Space(SpaceTier), "a")
	snapshot := db.Snapshot()
	set(t, db.Space(SpaceTier), "b")
	got := dump(t, func(visit func(key, value []byte) error) error { return snapshot.Scan(SpaceTier, Range{}, visit) })
	if value, _ := snapshot.Get(SpaceTier, []byte("b")); value != nil || got != "a=va\n" {
		t.Errorf("the snapshot has %q and b=%q", got, value)
	}
	if err := snapshot.Close(); err != nil {
		t.Error(err)
	}
}

// A power cut keeps everything before the last Flush, and of the rest a beginning, never a later key without the
// earlier ones.
func TestFlushMakesEverythingBeforeItDurable(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewCrashableMem()
		db := openDB(t, fs)
		space := db.Space(SpaceStorage)
		total, flushed := 40, rng.IntN(40)
		for i := range total {
			if i == flushed {
				if err := db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			set(t, space, fmt.Sprintf("%03d", i))
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		closeDB(t, db)

		db = openDB(t, crashed)
		kept := 0
		if err := db.Space(SpaceStorage).Scan(nil, func(key, _ []byte) error {
			if want := fmt.Sprintf("%03d", kept); string(key) != want {
				t.Errorf("seed %d: key %s where %s is missing", seed, key, want)
			}
			kept++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if kept < flushed {
			t.Errorf("seed %d: %d keys were flushed, %d are left", seed, flushed, kept)
		}
		closeDB(t, db)
	}
}

func TestADirectoryInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	options := Options{FS: vfs.Default, Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	db, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Open(options); err == nil {
		t.Error("two databases in one directory")
		closeDB(t, second)
	}
	closeDB(t, db)
	db, err = Open(options)
	if err != nil {
		t.Fatalf("after the first one is closed: %v", err)
	}
	closeDB(t, db)
}

// A write that fails must not look as if it had succeeded, and the node must hear of it.
func TestAFailedWriteIsReportedAndEndsTheDatabase(t *testing.T) {
	var failing atomic.Bool
	disk := errors.New("the disk is gone")
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return disk
		}
		return nil
	}))
	fatal := make(chan error, 100)
	db, err := Open(Options{
		FS: fs, Dir: "state", Logger: slog.New(slog.DiscardHandler),
		OnFatal: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	set(t, db.Space(SpaceStorage), "a")
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	batch := db.NewBatch()
	batch.Set(SpaceStorage, []byte("b"), []byte("1"))
	if err := batch.Commit(Synced); err == nil || !strings.Contains(err.Error(), disk.Error()) {
		t.Errorf("a synced commit on a broken disk: %v", err)
	}
	batch.Close()
	if err := <-fatal; !strings.Contains(err.Error(), disk.Error()) {
		t.Errorf("the node is told of %v", err)
	}
	if err := db.Space(SpaceStorage).Set([]byte("c"), nil); err == nil {
		t.Error("a later write succeeds")
	}
	failing.Store(false)
	if err := db.Close(); err == nil {
		t.Error("closing says that all is well")
	}
}

func TestTheKeySpacesAreForEver(t *testing.T) {
	spaces := []Space{
		SpaceApplied, SpaceMetadata, SpaceTier, SpaceStorage, SpaceRaftLog, SpaceRaftStable, SpaceRaftSnapshot,
	}
	var letters bytes.Buffer
	for _, space := range spaces {
		letters.WriteByte(byte(space))
	}
	if diff := cmp.Diff("amtslvp", letters.String()); diff != "" {
		t.Errorf("the first bytes of keys have changed: %s", diff)
	}
}
