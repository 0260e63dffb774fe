//go:build integration

package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/objectstore/objectstoretest"
)

const testBucket = "history"

// TestTheS3ServerPassesTheAcceptanceOfABucket is what every bucket must pass, over a real server and both libraries.
func TestTheS3ServerPassesTheAcceptanceOfABucket(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	setS3Environment(t, s3)
	acceptance(t, s3, schemes...)
}

func acceptance(t *testing.T, s3 *S3, schemes ...string) {
	for _, scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			folders := 0
			newBucket := func(t *testing.T) objectstore.Bucket {
				folders++
				location := fmt.Sprintf("%s://%s/%s%d?endpoint=%s", scheme, testBucket, scheme, folders, s3.Endpoint)
				store, err := openBucket(t, location, io.Discard)
				if err != nil {
					t.Fatal(err)
				}
				return store
			}
			objectstoretest.Run(t, newBucket)
			objectstoretest.RunLarge(t, newBucket, 65<<20+17) // just above what is put with one request
		})
	}
}

// TestHistorySinksIntoS3 sends records down into a real S3 server, takes the server away and brings it back, and reads
// everything from there.
func TestHistorySinksIntoS3(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	options := Options{Env: s3.Environment(), Set: []string{
		"firn.object.store=" + s3.URL(testBucket, "firn"),
		"log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200",
	}}
	node := Serve(t, options)
	node.CreateTopic("events", 1, "segment.bytes=1048576", "remote.storage.enable=true", "local.retention.ms=1")
	load := startLoader(t, node, "events", kgo.NoCompression())
	load.waitFor(20_000)
	sunk(t, node, "events")
	s3.Stop()
	before := len(tierObjects(t, node, "events").Entries)
	load.waitFor(load.acked.Load() + 20_000) // an object store that is away holds nobody up
	s3.Start()
	Eventually(t, "uploads go on", func(context.Context) bool {
		return len(tierObjects(t, node, "events").Entries) > before+3
	})
	load.finish()
	expectAll(t, node, load)
	sunk(t, node, "events")
	node.Stop()

	options.Dir = node.Dir
	node = Serve(t, options)
	load.client.Close()
	expectAll(t, node, load)
	status, objects := tierStatus(t, node, "events"), tierObjects(t, node, "events").Entries
	if status.LocalStart != status.End || int64(len(objects)) != status.Segments || status.Segments < 10 {
		t.Errorf("tier status %+v, %d objects", status, len(objects))
	}
	var bytes int64
	for _, object := range objects {
		info, err := os.Stat(filepath.Join(s3.Dir, testBucket, "firn", filepath.FromSlash(object.Key)))
		if err != nil || info.Size() != object.Bytes {
			t.Errorf("object %s: %v", object.Key, err)
		}
		bytes += object.Bytes
	}
	if files := segmentObjects(t, s3); len(files) != len(objects) {
		t.Errorf("%d segments in the bucket, %d objects that are known", len(files), len(objects))
	}
	t.Logf("%d objects, %d bytes", len(objects), bytes)
	node.Stop()
}

// sunk waits until the bucket has all but the active segment, and the local disk only that.
func sunk(t *testing.T, node *Node, topic string) {
	t.Helper()
	Eventually(t, topic+" has sunk", func(context.Context) bool {
		status := tierStatus(t, node, topic)
		return status.Segments > 0 && status.LocalStart == status.End && status.UploadLagBytes == 0
	})
}

// TestTI17ABucketThatCannotBeUsedIsNamed starts nodes with keys that the server does not take. A bucket that is not
// there is made.
func TestTI17ABucketThatCannotBeUsedIsNamed(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	for name, c := range map[string]struct {
		env []string
	}{
		"an unknown key":   {append(s3.Environment(), "AWS_ACCESS_KEY_ID=nobody")},
		"the wrong secret": {append(s3.Environment(), "AWS_SECRET_ACCESS_KEY=guess")},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			cmd := ServeCommand(t, t.TempDir(), Options{Env: c.env, Set: []string{
				"firn.object.store=" + s3.URL(testBucket, "firn"),
			}})
			result := Command{Path: cmd.Path, Args: cmd.Args[1:], Env: c.env}.Run(t)
			last := lastLine(result.Stderr)
			if result.Status != 1 || !strings.Contains(last, testBucket) || !strings.Contains(last, s3.Endpoint) {
				t.Errorf("status %d, %q", result.Status, last)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v to say so", took)
			}
		})
	}
	node := Serve(t, Options{Env: s3.Environment(), Set: []string{"firn.object.store=" + s3.URL("another", "firn")}})
	if info, err := os.Stat(filepath.Join(s3.Dir, "another")); err != nil || !info.IsDir() {
		t.Errorf("the bucket was not made: %v", err)
	}
	node.Stop()
}

// TestANodeStartsWithoutItsObjectStore: hot topics work while it is away.
func TestANodeStartsWithoutItsObjectStore(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	s3.Stop()
	node := Serve(t, Options{Env: s3.Environment(), Set: []string{
		"firn.object.store=" + s3.URL(testBucket, "firn"), "remote.log.manager.task.interval.ms=200",
		"log.retention.check.interval.ms=200",
	}})
	node.CreateTopic("events", 1, "segment.bytes=1048576", "remote.storage.enable=true", "local.retention.ms=1")
	load := startLoader(t, node, "events", kgo.NoCompression())
	load.waitFor(10_000)
	load.finish()
	expectAll(t, node, load)
	s3.Start()
	sunk(t, node, "events")
	expectAll(t, node, load)
	node.Stop()
}
