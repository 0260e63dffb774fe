package objectstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/objectstore/objectstoretest"
)

func TestDirectoryKeepsThePromisesOfABucket(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		newBucket := func(t *testing.T) objectstore.Bucket { return openDirectory(t, vfs.NewMem(), "data/bucket") }
		objectstoretest.Run(t, newBucket)
		objectstoretest.RunLarge(t, newBucket, 3<<20+7)
	})
	t.Run("on disk", func(t *testing.T) {
		newBucket := func(t *testing.T) objectstore.Bucket { return openDirectory(t, vfs.OS(), t.TempDir()) }
		objectstoretest.Run(t, newBucket)
		objectstoretest.RunLarge(t, newBucket, 3<<20+7)
	})
}

func TestDirectoryRefusesAKeyThatIsAFolderAndAFolderThatIsAKey(t *testing.T) {
	wantNoMixedFolders(t, openDirectory(t, vfs.NewMem(), "bucket"))
	wantNoMixedFolders(t, openDirectory(t, vfs.OS(), t.TempDir()))
}

func TestDirectoryShowsNoUnfinishedFilesAndRemovesThoseOfTheDead(t *testing.T) {
	mem := vfs.NewMem()
	bucket := openDirectory(t, mem, "bucket")
	putText(t, bucket, "a/b", "whole")
	writeFile(t, mem, "bucket/.tmp/0/77", "half an obj")
	writeFile(t, mem, "bucket/.tmp/9/1", "left by an opener whose lock file is gone")
	if got := keys(t, bucket); !slices.Equal(got, []string{"a/b"}) {
		t.Errorf("listed: %q", got)
	}
	second := openDirectory(t, mem, "bucket")
	if _, err := mem.Stat("bucket/.tmp/0/77"); err != nil {
		t.Errorf("a file of a living opener was touched: %v", err)
	}
	if _, err := mem.Stat("bucket/.tmp/9"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of a dead opener is still there: %v", err)
	}
	putText(t, second, "a/c", "by the second opener")
	if got := keys(t, bucket); !slices.Equal(got, []string{"a/b", "a/c"}) {
		t.Errorf("listed: %q", got)
	}
	if err := bucket.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := mem.List("bucket/.tmp/0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %q, %v", names, err)
	}
}

func TestDirectoryRemovesEmptyFolders(t *testing.T) {
	mem := vfs.NewMem()
	bucket := openDirectory(t, mem, "bucket")
	putText(t, bucket, "a/b/c/d", "x")
	putText(t, bucket, "a/e", "x")
	if err := bucket.Delete(t.Context(), "a/b/c/d"); err != nil {
		t.Fatal(err)
	}
	if names, err := mem.List("bucket/a"); err != nil || !slices.Equal(names, []string{"e"}) {
		t.Errorf("left in a: %q, %v", names, err)
	}
}

func TestDirectoryFailsAsAStoreDoesWhenTheDiskFails(t *testing.T) {
	var failing string
	faulty := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if failing != "" && strings.Contains(op.Name, failing) {
			return errors.New("input/output error")
		}
		return nil
	})
	bucket := openDirectory(t, faulty, "bucket")
	putText(t, bucket, "a/b", "x")
	for _, failing = range []string{".tmp/0/", "/a"} {
		err := bucket.Put(t.Context(), "a/c", strings.NewReader("x"), 1, objectstore.PutOptions{})
		if !errors.Is(err, objectstore.ErrUnavailable) || !strings.HasPrefix(err.Error(), "put file://bucket/a/c: ") {
			t.Errorf("put with %s failing: %v", failing, err)
		}
		if err := bucket.Delete(t.Context(), "a/c"); failing == "/a" && !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("delete: %v", err)
		}
	}
	if _, err := bucket.Get(t.Context(), "a/b", 0, make([]byte, 1)); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	failing = ""
	if got := readText(t, bucket, "a/b"); got != "x" {
		t.Errorf("what had been put reads %q", got)
	}
}

// TestEachFileOperationOfADirectoryMayFail lets every single file operation of a few writes fail in turn. A write that
// failed has happened whole or not at all, one that succeeded has happened, and the bucket goes on working.
func TestEachFileOperationOfADirectoryMayFail(t *testing.T) {
	for failing := 1; ; failing++ {
		if failed := failOneOperation(t, failing); failed == "" {
			if failing < 30 {
				t.Errorf("the writes made only %d file operations", failing-1)
			}
			return
		}
	}
}

// failOneOperation tells which operation failed; none if there were fewer.
func failOneOperation(t *testing.T, failing int) (failed string) {
	mem, operation := vfs.NewMem(), -1000 // opening is not what is tested
	bucket := openDirectory(t, vfs.NewFaulty(mem, func(op vfs.Op) error {
		if operation++; operation != failing {
			return nil
		}
		failed = op.String()
		return errors.New("injected")
	}), "bucket")
	reader := openDirectory(t, mem, "bucket")
	operation = 0
	put := func(key, text string) error {
		return bucket.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), objectstore.PutOptions{})
	}
	writes := []struct {
		key, text string // "" is absence
		write     func(key, text string) error
	}{
		{"a/b/c", "first", put},
		{"a/b/c", "second", put},
		{"a/claim", "mine", func(key, text string) error {
			_, err := bucket.PutIfAbsent(t.Context(), key, []byte(text))
			return err
		}},
		{"a/b/c", "", func(key, _ string) error { return bucket.Delete(t.Context(), key) }},
		{"a/b/d", "third", put},
	}
	for i, step := range writes {
		before := readText(t, reader, step.key)
		err := step.write(step.key, step.text)
		if err != nil && !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("write %d with %s failing: %v", i, failed, err)
		}
		if after := readText(t, reader, step.key); after != step.text && (err == nil || after != before) {
			t.Errorf("write %d with %s failing: %v, and %s holds %q", i, failed, err, step.key, after)
		}
	}
	return failed
}

// TestDirectorySurvivesCrashes writes, replaces and deletes from several goroutines in shared folders, cuts the power
// before file operations chosen by the seed, and holds what is found then against what had been acknowledged.
func TestDirectorySurvivesCrashes(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { crashDirectory(t, seed) })
	}
}

func crashDirectory(t *testing.T, seed uint64) {
	mem := vfs.NewMem()
	model := &crashModel{mem: mem, rng: rand.New(rand.NewPCG(seed, 1)), allowed: map[string][]string{}}
	bucket := openDirectory(t, vfs.NewFaulty(mem, func(vfs.Op) error {
		model.crash(t, 20)
		return nil
	}), "data/bucket")
	var group errgroup.Group
	for writer := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(writer+10)))
		group.Go(func() error {
			for i := range 60 {
				key := fmt.Sprintf("%c/%c/%d-%d", 'a'+rng.IntN(2), 'a'+rng.IntN(2), rng.IntN(2), writer)
				if err := model.write(t, bucket, key, fmt.Sprintf("%s #%d", key, i), rng.IntN(3)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	model.crash(t, 1)
	if model.crashes < 10 {
		t.Errorf("only %d crashes", model.crashes)
	}
}

// crashModel knows what each key may hold after a crash: one value when nothing is under way, two while it is written.
// The value "" is absence.
type crashModel struct {
	mem *vfs.Mem

	mu      sync.Mutex // guards the fields below
	rng     *rand.Rand
	allowed map[string][]string
	crashes int
}

func (m *crashModel) write(t *testing.T, bucket *objectstore.Directory, key, text string, kind int) error {
	ctx, before := t.Context(), m.current(key)
	after, write := text, func() error {
		return bucket.Put(ctx, key, strings.NewReader(text), int64(len(text)), objectstore.PutOptions{})
	}
	switch {
	case kind == 1:
		after, write = "", func() error { return bucket.Delete(ctx, key) }
	case kind == 2 && before != "":
		after = before
		fallthrough
	case kind == 2:
		write = func() error {
			created, err := bucket.PutIfAbsent(ctx, key, []byte(text))
			if err == nil && created != (before == "") {
				err = fmt.Errorf("put-if-absent of %s: %v", key, created)
			}
			if errors.Is(err, vfs.ErrLocked) {
				err = fmt.Errorf("the writers of one process locked each other out: %w", err)
			}
			return err
		}
	}
	m.set(key, before, after)
	err := write()
	m.set(key, after)
	return err
}

func (m *crashModel) current(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if values := m.allowed[key]; values != nil {
		return values[0]
	}
	return ""
}

func (m *crashModel) set(key string, values ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allowed[key] = values
}

// crash cuts the power once in so many calls and checks what is left.
func (m *crashModel) crash(t *testing.T, oneIn int) {
	m.mu.Lock()
	if m.rng.IntN(oneIn) > 0 {
		m.mu.Unlock()
		return
	}
	m.crashes++
	clone := m.mem.CrashClone(m.rng)
	allowed := maps.Clone(m.allowed)
	m.mu.Unlock()
	bucket := openDirectory(t, clone, "data/bucket")
	listed := keys(t, bucket)
	for key, values := range allowed {
		if got := readText(t, bucket, key); !slices.Contains(values, got) {
			t.Errorf("after the crash %s holds %q instead of one of %q", key, got, values)
		}
		if slices.Contains(listed, key) != (readText(t, bucket, key) != "") {
			t.Errorf("the listing %q is wrong about %s", listed, key)
		}
	}
	if names, err := clone.List("data/bucket/.tmp/0"); err != nil || len(names) > 0 {
		t.Errorf("left over after the crash: %q, %v", names, err)
	}
}

func openDirectory(t *testing.T, fsys vfs.FS, dir string) *objectstore.Directory {
	t.Helper()
	bucket, err := objectstore.NewDirectory(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

func writeFile(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	if err := fsys.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(fsys, name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}
