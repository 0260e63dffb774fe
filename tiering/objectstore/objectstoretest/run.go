package objectstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/tiering/objectstore"
)

// NewBucket makes a bucket that nobody else uses and that holds nothing.
type NewBucket func(t *testing.T) objectstore.Bucket

// writersInFlight is how many requests the suite has under way when it only wants many objects soon.
const writersInFlight = 16

// Run checks everything the interface promises, with small objects.
func Run(t *testing.T, newBucket NewBucket) {
	cases := []struct {
		name string
		run  func(t *testing.T, bucket objectstore.Bucket)
	}{
		{"an object reads back as it was put", readsBack},
		{"a second put replaces the object, longer or shorter", overwrites},
		{"ranges are exact, also at the end and past it", ranges},
		{"a missing object is ErrNotFound and nothing else", missing},
		{"keys and sizes that some store refuses are refused by all", refusals},
		{"a wrong checksum is refused and stores nothing", wrongChecksum},
		{"a body that ends early stores nothing", shortBody},
		{"a listing is in the byte order of whole keys", listOrder},
		{"a prefix may end anywhere", listPrefix},
		{"a listing goes on past any page and starts after any key", listPaging},
		{"visit can end a listing and can call the bucket", listVisit},
		{"racing puts of one key leave one of the objects, whole", racingPuts},
		{"of 16 racing puts-if-absent one wins", racingPutIfAbsent},
		{"put-if-absent leaves an object that exists alone", putIfAbsentExisting},
		{"delete takes many keys and is idempotent", deletes},
		{"a folder whose last object went can be used again at once", deleteAndPut},
		{"a cancelled context ends every call", cancellation},
		{"every printable character of a key survives", characters},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) { test.run(t, newBucket(t)) })
	}
}

// RunLarge checks an object of the given size: the way to make a store use its multipart path.
func RunLarge(t *testing.T, newBucket NewBucket, size int64) {
	t.Run(fmt.Sprintf("an object of %d bytes reads back as it was put", size), func(t *testing.T) {
		bucket, data := newBucket(t), randomBytes(1, size)
		checksum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		options := objectstore.PutOptions{CRC32C: checksum, HasCRC32C: true}
		must(t, bucket.Put(t.Context(), "large/object", bytes.NewReader(data), size, options))
		wantObject(t, bucket, "large/object", data)
		middle := make([]byte, size/3)
		mustGet(t, bucket, "large/object", size/2, middle)
		if !bytes.Equal(middle, data[size/2:size/2+size/3]) {
			t.Error("a range from the middle differs")
		}
		options.CRC32C++
		err := bucket.Put(t.Context(), "large/wrong", bytes.NewReader(data), size, options)
		if !errors.Is(err, objectstore.ErrChecksum) {
			t.Errorf("put with a wrong checksum: %v", err)
		}
		wantMissing(t, bucket, "large/wrong")
		err = bucket.Put(t.Context(), "large/short", bytes.NewReader(data[:size-1]), size, objectstore.PutOptions{})
		if err == nil {
			t.Error("a body that ends one byte early was accepted")
		}
		wantMissing(t, bucket, "large/short")
	})
}

func readsBack(t *testing.T, bucket objectstore.Bucket) {
	for i, size := range []int64{1, 2, 4095, 4096, 70_000, 300_001} {
		key, data := fmt.Sprintf("a/b/%d", size), randomBytes(uint64(i), size)
		put(t, bucket, key, data)
		wantObject(t, bucket, key, data)
	}
}

func overwrites(t *testing.T, bucket objectstore.Bucket) {
	for _, text := range []string{"first", "the second one is longer", "3rd"} {
		put(t, bucket, "folder/key", []byte(text))
		wantObject(t, bucket, "folder/key", []byte(text))
	}
	wantList(t, bucket, "", "", "folder/key")
}

func ranges(t *testing.T, bucket objectstore.Bucket) {
	put(t, bucket, "key", []byte("0123456789"))
	cases := []struct {
		offset int64
		length int
		want   string
		short  bool
	}{
		{0, 10, "0123456789", false},
		{0, 1, "0", false},
		{9, 1, "9", false},
		{3, 4, "3456", false},
		{4, 0, "", false},
		{10, 0, "", false},
		{5, 6, "56789", true},
		{0, 11, "0123456789", true},
		{10, 1, "", true},
		{1000, 5, "", true},
	}
	for _, test := range cases {
		dst := make([]byte, test.length)
		n, err := bucket.Get(t.Context(), "key", test.offset, dst)
		if string(dst[:n]) != test.want || errors.Is(err, io.ErrUnexpectedEOF) != test.short || (err != nil) != test.short {
			t.Errorf("get %d bytes from %d: %q, %v", test.length, test.offset, dst[:n], err)
		}
		if errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("get %d bytes from %d: the end of an object is not worth a retry: %v", test.length, test.offset, err)
		}
	}
	if _, err := bucket.Get(t.Context(), "key", -1, make([]byte, 1)); err == nil {
		t.Error("a negative offset was accepted")
	}
}

func missing(t *testing.T, bucket objectstore.Bucket) {
	put(t, bucket, "exists/object", []byte("x"))
	for _, key := range []string{"none", "exists/other", "exists/object-2", "none/at/all"} {
		wantMissing(t, bucket, key)
		if _, err := bucket.Get(t.Context(), key, 0, make([]byte, 1)); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("get %s: %v", key, err)
		}
	}
	if _, err := bucket.Stat(t.Context(), "exists"); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("stat of a folder: %v", err)
	}
	if _, err := bucket.Get(t.Context(), "exists", 0, make([]byte, 1)); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("get of a folder: %v", err)
	}
	wantList(t, bucket, "none", "")
	wantList(t, bucket, "none/at/all/", "")
	wantList(t, bucket, "exists/object/below", "")
}

func refusals(t *testing.T, bucket objectstore.Bucket) {
	long := strings.Repeat("x", 256)
	keys := []string{"", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", ".hidden", "a\x00b", "a\nb", "ä", long,
		"a/" + long, strings.Repeat("12345678/", 120) + "x"}
	for _, key := range keys {
		err := bucket.Put(t.Context(), key, strings.NewReader("x"), 1, objectstore.PutOptions{})
		_, ifAbsentErr := bucket.PutIfAbsent(t.Context(), key, []byte("x"))
		_, getErr := bucket.Get(t.Context(), key, 0, make([]byte, 1))
		_, statErr := bucket.Stat(t.Context(), key)
		for _, err := range []error{err, ifAbsentErr, getErr, statErr, bucket.Delete(t.Context(), key)} {
			if !errors.Is(err, objectstore.ErrInvalidKey) {
				t.Errorf("key %q: %v", key, err)
			}
		}
	}
	if err := bucket.Put(t.Context(), "empty", strings.NewReader(""), 0, objectstore.PutOptions{}); err == nil {
		t.Error("an empty object was accepted")
	}
	if _, err := bucket.PutIfAbsent(t.Context(), "empty", nil); err == nil {
		t.Error("an empty object was accepted by put-if-absent")
	}
	wantList(t, bucket, "", "")
}

func wrongChecksum(t *testing.T, bucket objectstore.Bucket) {
	options := objectstore.PutOptions{CRC32C: 1, HasCRC32C: true}
	err := bucket.Put(t.Context(), "a/key", strings.NewReader("some bytes"), 10, options)
	if !errors.Is(err, objectstore.ErrChecksum) || errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("put with a wrong checksum: %v", err)
	}
	wantMissing(t, bucket, "a/key")
	wantList(t, bucket, "", "")
}

func shortBody(t *testing.T, bucket objectstore.Bucket) {
	if err := bucket.Put(t.Context(), "key", strings.NewReader("short"), 6, objectstore.PutOptions{}); err == nil {
		t.Error("a body shorter than its size was accepted")
	}
	wantMissing(t, bucket, "key")
	must(t, bucket.Put(t.Context(), "key", strings.NewReader("longer than its size"), 6, objectstore.PutOptions{}))
	wantObject(t, bucket, "key", []byte("longer"))
}

func characters(t *testing.T, bucket objectstore.Bucket) {
	var keys []string
	for c := byte('!'); c <= '~'; c++ {
		if c == '/' || c == '.' || c == '\\' {
			continue // a slash separates, a dot must not come first; a backslash is a separator on some machines
		}
		keys = append(keys, fmt.Sprintf("c/%ckey%c.%d", c, c, c))
	}
	slices.Sort(keys)
	putMany(t, bucket, keys)
	wantList(t, bucket, "c/", "", keys...)
	for _, key := range keys {
		wantObject(t, bucket, key, []byte(key))
	}
	must(t, bucket.Delete(t.Context(), keys...))
	wantList(t, bucket, "c/", "")
}

func racingPuts(t *testing.T, bucket objectstore.Bucket) {
	var group errgroup.Group
	for i := range 8 {
		body := bytes.Repeat([]byte{byte('a' + i)}, 50_000+i)
		group.Go(func() error {
			return bucket.Put(t.Context(), "race/key", bytes.NewReader(body), int64(len(body)), objectstore.PutOptions{})
		})
	}
	must(t, group.Wait())
	info, err := bucket.Stat(t.Context(), "race/key")
	must(t, err)
	got := make([]byte, info.Size)
	mustGet(t, bucket, "race/key", 0, got)
	if want := bytes.Repeat(got[:1], 50_000+int(got[0]-'a')); !bytes.Equal(got, want) {
		t.Error("the object is a mixture of several puts")
	}
}

func racingPutIfAbsent(t *testing.T, bucket objectstore.Bucket) {
	for round := range 3 {
		key := fmt.Sprintf("claims/%d", round)
		var group errgroup.Group
		won := make([]bool, 16)
		for i := range won {
			group.Go(func() (err error) {
				won[i], err = bucket.PutIfAbsent(t.Context(), key, fmt.Appendf(nil, "writer %d", i))
				return err
			})
		}
		must(t, group.Wait())
		winner := slices.Index(won, true)
		if winner < 0 || slices.Contains(won[winner+1:], true) {
			t.Fatalf("winners: %v", won)
		}
		wantObject(t, bucket, key, fmt.Appendf(nil, "writer %d", winner))
	}
}

func putIfAbsentExisting(t *testing.T, bucket objectstore.Bucket) {
	put(t, bucket, "key", []byte("old"))
	created, err := bucket.PutIfAbsent(t.Context(), "key", []byte("new"))
	if created || err != nil {
		t.Errorf("put-if-absent over an object: %v, %v", created, err)
	}
	wantObject(t, bucket, "key", []byte("old"))
	must(t, bucket.Delete(t.Context(), "key"))
	created, err = bucket.PutIfAbsent(t.Context(), "key", []byte("new"))
	if !created || err != nil {
		t.Errorf("put-if-absent after the delete: %v, %v", created, err)
	}
	wantObject(t, bucket, "key", []byte("new"))
}

func deletes(t *testing.T, bucket objectstore.Bucket) {
	must(t, bucket.Delete(t.Context()))
	must(t, bucket.Delete(t.Context(), "never/was"))
	putMany(t, bucket, []string{"a/1", "a/2", "a/b/3", "a-4", "c"})
	must(t, bucket.Delete(t.Context(), "a/1", "a/b/3", "never/was", "a/b"))
	wantList(t, bucket, "", "", "a-4", "a/2", "c")
	must(t, bucket.Delete(t.Context(), "a/1", "a/2", "a/2"))
	wantMissing(t, bucket, "a/2")
	wantList(t, bucket, "", "", "a-4", "c")
}

func deleteAndPut(t *testing.T, bucket objectstore.Bucket) {
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error {
			for round := range 25 {
				key, ctx := fmt.Sprintf("shared/folder/%d", i), t.Context()
				body := []byte{byte(round + 1)}
				if err := bucket.Put(ctx, key, bytes.NewReader(body), 1, objectstore.PutOptions{}); err != nil {
					return err
				}
				if _, err := bucket.Get(ctx, key, 0, make([]byte, 1)); err != nil {
					return err
				}
				if err := bucket.Delete(ctx, key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(t, group.Wait())
	wantList(t, bucket, "", "")
	put(t, bucket, "shared", []byte("a folder no more"))
}

func cancellation(t *testing.T, bucket objectstore.Bucket) {
	put(t, bucket, "key", []byte("value"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ifAbsentErr := bucket.PutIfAbsent(ctx, "other", []byte("x"))
	_, getErr := bucket.Get(ctx, "key", 0, make([]byte, 1))
	_, statErr := bucket.Stat(ctx, "key")
	failures := []error{
		bucket.Put(ctx, "key", strings.NewReader("x"), 1, objectstore.PutOptions{}), ifAbsentErr, getErr, statErr,
		bucket.List(ctx, "", "", func(objectstore.ObjectInfo) error { return nil }), bucket.Delete(ctx, "key"),
	}
	for i, err := range failures {
		if !errors.Is(err, context.Canceled) || errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	wantObject(t, bucket, "key", []byte("value"))
	wantList(t, bucket, "", "", "key")
}

func randomBytes(seed uint64, size int64) []byte {
	data := make([]byte, size)
	var source [32]byte
	source[0] = byte(seed)
	_, _ = rand.NewChaCha8(source).Read(data) // never fails
	return data
}

func listVisit(t *testing.T, bucket objectstore.Bucket) {
	putMany(t, bucket, []string{"a", "b/1", "b/2", "c"})
	stop := errors.New("enough")
	var seen []string
	visitUpTo := func(last string, result error) func(objectstore.ObjectInfo) error {
		return func(info objectstore.ObjectInfo) error {
			seen = append(seen, info.Key)
			if info.Key == last {
				return result
			}
			return nil
		}
	}
	if err := bucket.List(t.Context(), "", "", visitUpTo("b/1", stop)); err != stop {
		t.Errorf("visit's error came back as %v", err)
	}
	must(t, bucket.List(t.Context(), "", "", visitUpTo("b/2", fs.SkipAll)))
	if want := []string{"a", "b/1", "a", "b/1", "b/2"}; !slices.Equal(seen, want) {
		t.Errorf("visited %v, not %v", seen, want)
	}
	must(t, bucket.List(t.Context(), "", "", func(info objectstore.ObjectInfo) error {
		return bucket.Delete(t.Context(), info.Key)
	}))
	wantList(t, bucket, "", "")
}
