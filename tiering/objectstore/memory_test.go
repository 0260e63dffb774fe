package objectstore_test

import (
	"strings"
	"testing"

	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/objectstore/objectstoretest"
)

func TestMemoryKeepsThePromisesOfABucket(t *testing.T) {
	newBucket := func(*testing.T) objectstore.Bucket { return objectstore.NewMemory() }
	objectstoretest.Run(t, newBucket)
	objectstoretest.RunLarge(t, newBucket, 3<<20+7)
}

func TestMemoryPrintsItsContentAndClonesIt(t *testing.T) {
	bucket := objectstore.NewMemory()
	putText(t, bucket, "b/2", "two")
	putText(t, bucket, "a", "one")
	clone := bucket.Clone()
	putText(t, bucket, "c", "three")
	want := "a 3 bytes crc32c 2a94b2e9\nb/2 3 bytes crc32c 52d8b3a3\n"
	if got := clone.String(); got != want {
		t.Errorf("the clone lists\n%s, not\n%s", got, want)
	}
	if got := bucket.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "c 5 bytes") {
		t.Errorf("the bucket lists\n%s", got)
	}
}

func TestMemoryRefusesAKeyThatIsAFolderAndAFolderThatIsAKey(t *testing.T) {
	wantNoMixedFolders(t, objectstore.NewMemory())
}
