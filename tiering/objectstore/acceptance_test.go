package objectstore_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/objectstore/objectstoretest"
)

// TestWrappersKeepThePromisesOfWhatTheyWrap runs the acceptance test through all wrappers, as Open stacks them.
func TestWrappersKeepThePromisesOfWhatTheyWrap(t *testing.T) {
	for name, location := range map[string]string{"memory": "mem:", "directory": "file:///data/bucket"} {
		t.Run(name, func(t *testing.T) {
			newBucket := func(t *testing.T) objectstore.Bucket {
				store := openStore(t, location)
				if store.String() == "" {
					t.Error("the store has no name")
				}
				return objectstore.NewFaulty(objectstore.NewPrefixed(store, "a folder/of its own"), nil)
			}
			objectstoretest.Run(t, newBucket)
			objectstoretest.RunLarge(t, newBucket, 1<<20+1)
		})
	}
}

func TestTheS3ClientKeepsThePromisesOfABucket(t *testing.T) {
	for _, scheme := range []string{"s3", "minio"} {
		t.Run(scheme, func(t *testing.T) {
			objectstoretest.Run(t, objectstore.NewStandInBucket(scheme))
			objectstoretest.RunLarge(t, objectstore.NewStandInBucket(scheme), 200_001)
		})
	}
}

// TestARealS3ServerKeepsThePromisesOfABucket needs a server: FIRN_TEST_S3 is the URL of a bucket (as for
// firn.object.store) in which every run uses a new folder; credentials come from the environment.
func TestARealS3ServerKeepsThePromisesOfABucket(t *testing.T) {
	location := os.Getenv("FIRN_TEST_S3")
	if location == "" {
		t.Skip("FIRN_TEST_S3 names no bucket: the S3 client is tested without a server only")
	}
	parsed, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	run, folders := time.Now().UnixNano(), 0
	newBucket := func(t *testing.T) objectstore.Bucket {
		folders++
		own := *parsed
		own.Path += fmt.Sprintf("/%d/%d", run, folders)
		return openStore(t, own.String())
	}
	objectstoretest.Run(t, newBucket)
	objectstoretest.RunLarge(t, newBucket, 65<<20+17) // just above what is put with one request
}

func openStore(t *testing.T, location string) *objectstore.Store {
	t.Helper()
	store, err := objectstore.Open(t.Context(), location, objectstore.Dependencies{
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), FS: vfs.NewMem(),
		Rand: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
