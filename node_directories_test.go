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
					n.expectServes("t", p)
				}
				failed := "two"
				if name == "is missing" {
					failed = "none" // an empty one has taken its place
				}
				n.expectOffline("t", failed, away)
				for p := range int32(spread) {
					if !slices.Contains(away, p) {
						serves(p)
						continue
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
		databases := pebblevfs.NewMem()
		n := startMemoryNode(t, files, databases, twoDirectories)
		n.createTopic("t", spread)
		n.createTopic("doomed", spread)
		var offline []int32
		for p := range int32(spread) {
			if err := n.produce("t", p, "before"); err != nil {
				t.Fatal(err)
			}
			if hasFolder(t, mem, "two", p) {
				offline = append(offline, p)
			}
		}
		if len(offline) != spread/2 {
			t.Fatalf("partitions %v are in the second directory", offline)
		}
		waiting := n.waitInSession("t", spread)
		failing = true
		if code := n.answers("t", offline[0])["Produce"]; code != kerr.KafkaStorageError.Code {
			t.Errorf("the produce that finds the failure: %v", kerr.ErrorForCode(code))
		}
		synctest.Wait() // until the cluster knows
		n.expectOffline("t", "two", offline)
		if told := <-waiting; !slices.Contains(told, offline[0]) { // the others may come with the next answer
			t.Errorf("a fetch that waits is told of errors of %v, want %d among them", told, offline[0])
		}
		for p := range int32(spread) {
			if !slices.Contains(offline, p) {
				n.expectServes("t", p)
			}
		}
		for _, name := range []string{"new", "doomed"} {
			if name == "doomed" {
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
		failing, n.failed = false, "log directory data/two has failed"
		n.stopAll()

		n = startMemoryNode(t, files, databases, twoDirectories)
		for p := range int32(spread) {
			if got, err := n.consume("t", p); got != "before" {
				t.Errorf("consumed %q from %d once the disk is mended, error %v", got, p, err)
			}
			n.expectServes("t", p)
		}
		// What was deleted while its disk was away belongs to nobody now. A person must judge it.
		strays, err := mem.List("data/two")
		if err != nil {
			t.Fatal(err)
		}
		strays = slices.DeleteFunc(strays, func(name string) bool { return !strings.HasSuffix(name, "-stray") })
		if len(strays) != spread/2 {
			t.Errorf("set aside: %v", strays)
		}
	})
}
