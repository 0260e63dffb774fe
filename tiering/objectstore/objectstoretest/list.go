package objectstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/tiering/objectstore"
)

// listOrder uses keys whose order as names in folders is not their order as keys: '-' and '.' sort before '/', digits
// after it.
func listOrder(t *testing.T, bucket objectstore.Bucket) {
	segments := []string{
		"seg/00000000000000000000-00000000000000000010-0000000001-aa.seg",
		"seg/00000000000000000010-00000000000000000020-0000000001-bb.seg",
		"seg/00000000000000000010-00000000000000000020-0000000002-aa.seg",
	}
	keys := append([]string{
		"a!", "a-/x", "a-b/c", "a.d", "a/!", "a/-/y", "a/b", "a/c/d", "a/c-d", "a/c0", "a0/z", "a~", "b",
		"seg-2/x", "seg.2/x", "seg2", "Z",
	}, segments...)
	putMany(t, bucket, keys)
	sorted := slices.Sorted(slices.Values(keys))
	wantList(t, bucket, "", "", sorted...)
	for i, startAfter := range sorted {
		wantList(t, bucket, "", startAfter, sorted[i+1:]...)
		wantList(t, bucket, "", startAfter+"!", sorted[i+1:]...) // no such key: the next one follows
	}
	wantList(t, bucket, "a/c/", "", "a/c/d")
	wantList(t, bucket, "", "zzz")
	wantList(t, bucket, "seg/", "seg/00000000000000000010", segments[1:]...)
}

func listPrefix(t *testing.T, bucket objectstore.Bucket) {
	putMany(t, bucket, []string{"ab", "abc/d", "abc/de", "abc/e/f", "abcd/e", "abd"})
	for prefix, want := range map[string][]string{
		"":          {"ab", "abc/d", "abc/de", "abc/e/f", "abcd/e", "abd"},
		"a":         {"ab", "abc/d", "abc/de", "abc/e/f", "abcd/e", "abd"},
		"abc":       {"abc/d", "abc/de", "abc/e/f", "abcd/e"},
		"abc/":      {"abc/d", "abc/de", "abc/e/f"},
		"abc/d":     {"abc/d", "abc/de"},
		"abc/d/":    {},
		"abc/e/":    {"abc/e/f"},
		"abc/e/f":   {"abc/e/f"},
		"abc/e/f/g": {},
		"b":         {},
		"abc/x/y":   {},
	} {
		wantList(t, bucket, prefix, "", want...)
	}
	wantList(t, bucket, "abc/", "abc/d", "abc/de", "abc/e/f")
	wantList(t, bucket, "abc/", "ab", "abc/d", "abc/de", "abc/e/f")
	wantList(t, bucket, "abc/", "abd")
	wantList(t, bucket, "abc", "abc/e/f", "abcd/e")
}

func listPaging(t *testing.T, bucket objectstore.Bucket) {
	const count = 1100 // S3 gives at most 1000 keys a page and deletes at most 1000 a request
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("p/%03d/%d", i/100, i)
	}
	putMany(t, bucket, keys)
	slices.Sort(keys)
	wantList(t, bucket, "p/", "", keys...)
	wantList(t, bucket, "p/", keys[1049], keys[1050:]...)
	wantList(t, bucket, "p/005/", keys[550], keys[551:600]...)
	must(t, bucket.Delete(t.Context(), keys...))
	wantList(t, bucket, "", "")
}

func putMany(t *testing.T, bucket objectstore.Bucket, keys []string) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(writersInFlight)
	for _, key := range keys {
		group.Go(func() error {
			return bucket.Put(t.Context(), key, strings.NewReader(key), int64(len(key)), objectstore.PutOptions{})
		})
	}
	must(t, group.Wait())
}

func put(t *testing.T, bucket objectstore.Bucket, key string, data []byte) {
	t.Helper()
	must(t, bucket.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{}))
}

func wantObject(t *testing.T, bucket objectstore.Bucket, key string, want []byte) {
	t.Helper()
	info, err := bucket.Stat(t.Context(), key)
	must(t, err)
	if info.Key != key || info.Size != int64(len(want)) {
		t.Fatalf("stat %s: %+v, the size should be %d", key, info, len(want))
	}
	got := make([]byte, len(want))
	mustGet(t, bucket, key, 0, got)
	if !bytes.Equal(got, want) {
		t.Fatalf("%s does not read back as it was put", key)
	}
}

func wantMissing(t *testing.T, bucket objectstore.Bucket, key string) {
	t.Helper()
	if _, err := bucket.Stat(t.Context(), key); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("stat %s: %v instead of ErrNotFound", key, err)
	}
}

func wantList(t *testing.T, bucket objectstore.Bucket, prefix, startAfter string, want ...string) {
	t.Helper()
	got := []string{}
	must(t, bucket.List(t.Context(), prefix, startAfter, func(info objectstore.ObjectInfo) error {
		if info.Size <= 0 {
			t.Errorf("list: %s has a size of %d", info.Key, info.Size)
		}
		got = append(got, info.Key)
		return nil
	}))
	if !slices.Equal(got, want) {
		t.Errorf("list %q after %q:\n got %q\nwant %q", prefix, startAfter, got, want)
	}
}

func mustGet(t *testing.T, bucket objectstore.Bucket, key string, offset int64, dst []byte) {
	t.Helper()
	n, err := bucket.Get(t.Context(), key, offset, dst)
	must(t, err)
	if n != len(dst) {
		t.Fatalf("get %s: %d bytes of %d without an error", key, n, len(dst))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
