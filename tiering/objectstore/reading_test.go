package objectstore

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/vfs"
)

func readWith(t *testing.T, location string, deps Dependencies) (*Store, error) {
	t.Helper()
	store, err := OpenForReading(t.Context(), location, deps)
	if err == nil {
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return store, err
}

func TestAReaderOnlyReads(t *testing.T) {
	setCredentials(t)
	for _, scheme := range []string{schemeS3, schemeMinio} {
		network := newStandIn(t)
		writer, _, err := openWith(t, scheme+"://bucket/a?endpoint=http://store:9000", network)
		if err != nil {
			t.Fatal(err)
		}
		if err := putString(t.Context(), writer, "key", "text"); err != nil {
			t.Fatal(err)
		}
		network.took()
		store, err := readWith(t, scheme+"://bucket/a?endpoint=http://store:9000",
			testDependencies(&lines{}, network, prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 4)
		if _, err := store.Get(t.Context(), "key", 0, data); err != nil || string(data) != "text" {
			t.Errorf("%s: read %q, %v", scheme, data, err)
		}
		refuseWrites(t, store)
		for _, request := range network.took() {
			if !strings.HasPrefix(request, http.MethodGet+" ") {
				t.Errorf("%s: a reader asked for %s", scheme, request)
			}
		}
	}
}

func refuseWrites(t *testing.T, store *Store) {
	t.Helper()
	_, absent := store.PutIfAbsent(t.Context(), "other", []byte("x"))
	for _, err := range []error{
		putString(t.Context(), store, "other", "x"), absent, store.Delete(t.Context(), "key"),
	} {
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "for reading only") {
			t.Errorf("a write through a reader: %v", err)
		}
	}
	if err := store.Delete(t.Context()); err != nil {
		t.Errorf("nothing to delete: %v", err)
	}
}

func TestAReaderIsToldWhatIsWrong(t *testing.T) {
	setCredentials(t)
	for want, response := range map[string]*http.Response{
		"404 NoSuchBucket":                                   refusal(404, "NoSuchBucket", "The specified bucket does not exist"),
		"may list the bucket and read in it":                 refusal(403, "AccessDenied", "Access Denied"),
		"set region=us-west-2 in the store's URL (firn.obje": refusal(400, "AuthorizationHeaderMalformed", "expecting 'us-west-2'"),
	} {
		network, requests := newStandIn(t), 0
		network.intercept = func(*http.Request, []byte) *http.Response {
			requests++
			return response
		}
		_, err := readWith(t, "s3://events/x?region=eu-west-1", testDependencies(&lines{}, network, prometheus.NewRegistry()))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
		if requests != 1 {
			t.Errorf("asked %d times", requests)
		}
	}
}

func TestAReaderMakesNoFolder(t *testing.T) {
	fsys := vfs.NewMem()
	deps := testDependencies(&lines{}, nil, prometheus.NewRegistry())
	deps.FS = fsys
	if _, err := readWith(t, "file:///data/missing", deps); err == nil {
		t.Error("a missing folder is read as an empty bucket")
	}
	if _, err := fsys.Stat("/data"); err == nil {
		t.Error("a reader has made a folder")
	}
	if err := fsys.MkdirAll("/data/bucket/a"); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(fsys, "/data/bucket/a/key", []byte("text")); err != nil {
		t.Fatal(err)
	}
	deps.Registerer = prometheus.NewRegistry()
	store, err := readWith(t, "file:///data/bucket", deps)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 2)
	if _, err := store.Get(t.Context(), "a/key", 2, data); err != nil || string(data) != "xt" {
		t.Errorf("read %q, %v", data, err)
	}
	refuseWrites(t, store)
	if names, err := fsys.List("/data/bucket"); err != nil || len(names) != 1 {
		t.Errorf("the folder holds %q, %v", names, err)
	}
}
