package firn

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/firnlog/firn/internal/vfs"
)

const (
	twoDirectories = "log.dirs=data/one,data/two"
	spread         = 6 // partitions over both
)

// brokenDisk fails every operation under a folder.
func brokenDisk(files vfs.FS, folder string) vfs.FS {
	return vfs.NewFaulty(files, func(op vfs.Op) error {
		if op.Name == folder || strings.HasPrefix(op.Name, folder+"/") {
			return syscall.EIO
		}
		return nil
	})
}

// hasFolder tells where a partition lies.
func hasFolder(t *testing.T, files vfs.FS, dir string, partition int32) bool {
	t.Helper()
	_, err := files.Stat(path.Join("data", dir, fmt.Sprintf("t-%d", partition)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// A log directory that fails, or is not there, at the start takes its partitions with it, and no others; nothing is
// begun anew elsewhere, and what is made meanwhile goes to the directory that serves. When it is back, so are they.
func TestALogDirectoryThatIsAwayAtTheStart(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, files vfs.FS) (broken vfs.FS, mend func()){
		"fails": func(_ *testing.T, files vfs.FS) (vfs.FS, func()) { return brokenDisk(files, "data/two"), func() {} },
		"is missing": func(t *testing.T, files vfs.FS) (vfs.FS, func()) {
			rename := func(from, to string) {
				if err := files.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			rename("data/two", "data/unmounted")
			return files, func() {
				if err := files.RemoveAll("data/two"); err != nil { // an empty mount point
					t.Fatal(err)
				}
				rename("data/unmounted", "data/two")
			}
		},
	} {
		t.Run("it "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files, databases := vfs.FS(vfs.NewMem()), pebblevfs.NewMem()
				n := startMemoryNode(t, files, databases, twoDirectories)
				n.createTopic("t", spread)
				for p := range int32(spread) {
					if err := n.produce("t", p, "before"); err != nil {
						t.Fatal(err)
					}
				}
				n.stopAll()
				var away []int32
				for p := range int32(spread) {
					if hasFolder(t, files, "two", p) {
						away = append(away, p)
					}
				}
				if len(away) != spread/2 {
					t.Fatalf("partitions %v are in the second directory", away)
				}

				broken, mend := damage(t, files)
				n = startMemoryNode(t, broken, databases, twoDirectories)
				serves := func(p int32) {
					t.Helper()
					if err := n.produce("t", p, "after"); err != nil {
						t.Errorf("produce to %d: %v", p, err)
					}
					if got, err := n.consume("t", p); got != "before" {
						t.Errorf("consumed %q from %d, error %v", got, p, err)
					}
				}
				for p := range int32(spread) {
					if !slices.Contains(away, p) {
						serves(p)
						continue
					}
					if err := n.produce("t", p, "after"); !errors.Is(err, kerr.KafkaStorageError) {
						t.Errorf("produce to %d, whose directory is away: %v", p, err)
					}
					if hasFolder(t, files, "one", p) || name == "is missing" && hasFolder(t, files, "two", p) {
						t.Errorf("partition %d was begun anew", p)
					}
				}
				if name == "fails" { // a directory that is there and empty takes new partitions, as it is a new one
					n.createTopic("meanwhile", 4)
					for p := range int32(4) {
						if err := n.produce("meanwhile", p, "x"); err != nil {
							t.Errorf("produce to a new topic's partition %d: %v", p, err)
						}
					}
				}
				n.stopAll()

				mend()
				n = startMemoryNode(t, files, databases, twoDirectories)
				for p := range int32(spread) {
					serves(p)
				}
			})
		})
	}
}

// A directory that fails while the node runs takes its partitions offline. New ones go to the others, and a topic that
// was deleted meanwhile can be made anew.
func TestALogDirectoryThatFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		failing := false
		files := vfs.NewFaulty(mem, func(op vfs.Op) error {
			if failing && strings.HasPrefix(op.Name, "data/two/") && op.Kind.Changes() {
				return syscall.EIO
			}
			return nil
		})
		n := startMemoryNode(t, files, pebblevfs.NewMem(), twoDirectories)
		n.createTopic("t", spread)
		failing = true
		offline := 0
		for p := range int32(spread) {
			switch err := n.produce("t", p, "x"); {
			case err == nil:
			case errors.Is(err, kerr.KafkaStorageError) && hasFolder(t, mem, "two", p):
				offline++
			default:
				t.Errorf("produce to %d: %v", p, err)
			}
		}
		if offline != spread/2 {
			t.Errorf("%d partitions are offline", offline)
		}
		synctest.Wait() // until the cluster knows
		for _, name := range []string{"new", "t"} {
			if name == "t" {
				if _, err := n.admin.DeleteTopic(t.Context(), name); err != nil {
					t.Fatal(err)
				}
				n.client.PurgeTopicsFromClient(name)
			}
			n.createTopic(name, 4)
			for p := range int32(4) {
				if err := n.produce(name, p, "x"); err != nil {
					t.Errorf("produce to %s-%d: %v", name, p, err)
				}
			}
		}
		if err := n.Ready(); err != nil {
			t.Error(err)
		}
	})
}
