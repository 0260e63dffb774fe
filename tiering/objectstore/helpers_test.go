package objectstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/firnlog/firn/tiering/objectstore"
)

func putText(t *testing.T, bucket objectstore.Bucket, key, text string) {
	t.Helper()
	err := bucket.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), objectstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// wantNoMixedFolders checks the one rule about pairs of keys.
func wantNoMixedFolders(t *testing.T, bucket objectstore.Bucket) {
	t.Helper()
	putText(t, bucket, "a/b", "x")
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		err := bucket.Put(t.Context(), key, strings.NewReader("x"), 1, objectstore.PutOptions{})
		_, ifAbsentErr := bucket.PutIfAbsent(t.Context(), key, []byte("x"))
		if !errors.Is(err, objectstore.ErrInvalidKey) || !errors.Is(ifAbsentErr, objectstore.ErrInvalidKey) {
			t.Errorf("%s beside a/b: %v, %v", key, err, ifAbsentErr)
		}
	}
}

// keys lists the whole bucket.
func keys(t *testing.T, bucket objectstore.Bucket) []string {
	t.Helper()
	keys := []string{}
	err := bucket.List(t.Context(), "", "", func(info objectstore.ObjectInfo) error {
		keys = append(keys, info.Key)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return keys
}

// readText reads an object; absence is "".
func readText(t *testing.T, bucket objectstore.Bucket, key string) string {
	t.Helper()
	info, err := bucket.Stat(t.Context(), key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return ""
	}
	data := make([]byte, info.Size)
	if err == nil {
		_, err = bucket.Get(t.Context(), key, 0, data)
	}
	if err != nil {
		t.Errorf("read %s: %v", key, err)
	}
	return string(data)
}
