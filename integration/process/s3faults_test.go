//go:build integration

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/objectstore"
)

var schemes = []string{"s3", "minio"}

// setS3Environment gives this process the credentials of the server.
func setS3Environment(t *testing.T, s3 *S3) {
	for _, setting := range s3.Environment() {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
}

func openBucket(t *testing.T, location string, log io.Writer) (*objectstore.Store, error) {
	t.Helper()
	policy := objectstore.DefaultRetryPolicy()
	policy.BackoffBase, policy.BackoffMax = 5*time.Millisecond, 100*time.Millisecond // nobody else waits for the server
	store, err := objectstore.Open(t.Context(), location, objectstore.Dependencies{
		Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: prometheus.NewRegistry(), FS: vfs.NewMem(),
		Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), Policy: policy, // no two use the same probe
	})
	if err == nil {
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return store, err
}

// TestFaultsBetweenAStoreAndItsClient has each operation meet what networks and servers do, over both libraries.
func TestFaultsBetweenAStoreAndItsClient(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	setS3Environment(t, s3)
	for _, scheme := range schemes {
		proxy := ProxyS3(t, s3)
		store, err := openBucket(t, proxy.URL(scheme, testBucket, "faults/"+scheme), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		withBody := func(r *http.Request) bool { return r.Method != http.MethodHead } // whose answers have a code
		for name, fault := range map[string]struct {
			times int
			match func(*http.Request) bool
			fault Fault
		}{
			"TI-13 a storm of 503":     {4, Every, Fault{status: 503, code: "SlowDown"}},
			"resets":                   {3, Every, Fault{reset: true}},
			"500 after the commit":     {2, Every, Fault{performed: true, status: 500}},
			"an answer that is lost":   {1, Every, Fault{performed: true, reset: true}},
			"bodies that are cut":      {3, On(http.MethodGet), Fault{cut: 70_000}},
			"bodies that come slowly":  {1, On(http.MethodGet), Fault{perSecond: 1 << 20}},
			"TI-20 an expired token":   {2, withBody, Fault{status: 400, code: "ExpiredToken"}},
			"bytes damaged on the way": {1, On(http.MethodPut), Fault{status: 400, code: "BadDigest"}},
		} {
			rule := func() func(*http.Request) Fault { return Some(1, fault.times, fault.match, fault.fault) }
			t.Run(scheme+" "+name, func(t *testing.T) { useEachOperation(t, proxy, store, rule) })
		}
	}
}

// useEachOperation performs each operation once under a rule of its own.
func useEachOperation(t *testing.T, proxy *FaultProxy, store *objectstore.Store, rule func() func(*http.Request) Fault) {
	defer proxy.Set(nil)
	ctx, folder := t.Context(), strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	data := bytes.Repeat([]byte("0123456789abcdef"), 20<<10)
	struck := 0
	step := func(what string, do func() error) {
		t.Helper()
		proxy.Set(rule())
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		struck += proxy.Struck()
	}
	step("put", func() error {
		return store.Put(ctx, folder+"/object", bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{})
	})
	for _, mine := range []bool{true, false} {
		step("put if absent", func() error {
			created, err := store.PutIfAbsent(ctx, folder+"/claim", fmt.Appendf(nil, "mine: %v", mine))
			if err == nil && created != mine {
				err = fmt.Errorf("created: %v", created)
			}
			return err
		})
	}
	step("get", func() error {
		read := make([]byte, len(data)-10)
		_, err := store.Get(ctx, folder+"/object", 10, read)
		if err == nil && !bytes.Equal(read, data[10:]) {
			err = errors.New("other bytes than were put")
		}
		return err
	})
	step("stat", func() error {
		info, err := store.Stat(ctx, folder+"/object")
		if err == nil && info.Size != int64(len(data)) {
			err = fmt.Errorf("%d bytes", info.Size)
		}
		return err
	})
	step("list", func() error {
		var keys []string
		err := store.List(ctx, folder+"/", "", func(info objectstore.ObjectInfo) error {
			keys = append(keys, strings.TrimPrefix(info.Key, folder+"/"))
			return nil
		})
		if err == nil && strings.Join(keys, " ") != "claim object" {
			err = fmt.Errorf("listed %q", keys)
		}
		return err
	})
	step("delete", func() error { return store.Delete(ctx, folder+"/object", folder+"/claim") })
	if struck == 0 {
		t.Error("no request met the fault")
	}
	proxy.Set(nil)
	if _, err := store.Stat(ctx, folder+"/object"); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
}

// TestALargeObjectSurvivesWhatHappensToItsParts has a multipart upload meet a lifecycle rule that aborts it, a lost
// answer to its completion, and resets of its parts.
func TestALargeObjectSurvivesWhatHappensToItsParts(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	setS3Environment(t, s3)
	data := bytes.Repeat([]byte("0123456789abcdef"), 65<<16) // above what is put with one request
	part := func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Has("partNumber") }
	complete := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") }
	for name, test := range map[string]struct {
		scheme string
		rule   func(*http.Request) Fault
	}{
		"a lifecycle rule aborts it":        {"minio", Some(3, 3, part, Fault{status: 404, code: "NoSuchUpload"})},
		"the completion's answer is lost":   {"s3", Some(1, 1, complete, Fault{performed: true, reset: true})},
		"an error after the completion":     {"minio", Some(1, 1, complete, Fault{performed: true, status: 500})},
		"the connections of parts are lost": {"s3", Some(2, 4, part, Fault{reset: true})},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := ProxyS3(t, s3)
			store, err := openBucket(t, proxy.URL(test.scheme, testBucket, "large"), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			proxy.Set(test.rule)
			key := strings.ReplaceAll(name, " ", "-")
			if err := store.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if proxy.Struck() == 0 {
				t.Error("no request met the fault")
			}
			got, err := os.ReadFile(filepath.Join(s3.Dir, testBucket, "large", key))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			// A part that is on its way when its upload is given up may bring that back; it goes as stale.
			for _, most := range []int{1, 0} {
				if left, err := store.AbortStaleUploads(t.Context(), 0); err != nil || left > most {
					t.Errorf("%d uploads were left behind, %v", left, err)
				}
			}
		})
	}
}

// TestAStoreThatIsNotAsItShouldBe: objects that go or are cut under us, listings of yesterday, clocks.
func TestAStoreThatIsNotAsItShouldBe(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	setS3Environment(t, s3)
	for _, scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			proxy := ProxyS3(t, s3)
			store, err := openBucket(t, proxy.URL(scheme, testBucket, "odd/"+scheme), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			data := bytes.Repeat([]byte("x"), 100_000)
			for _, key := range []string{"cut", "gone"} {
				if err := store.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), objectstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			folder := filepath.Join(s3.Dir, testBucket, "odd", scheme)
			if err := os.Truncate(filepath.Join(folder, "cut"), 60_000); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(folder, "gone")); err != nil {
				t.Fatal(err)
			}
			read := make([]byte, len(data))
			if n, err := store.Get(t.Context(), "cut", 0, read); n != 60_000 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("of an object that was cut %d bytes were read, %v", n, err)
			}
			if _, err := store.Get(t.Context(), "gone", 0, read); !errors.Is(err, objectstore.ErrNotFound) {
				t.Errorf("an object that is gone: %v", err)
			}

			proxy.Set(Some(1, 1<<30, Every, Fault{stale: true}))
			_, err = openBucket(t, proxy.URL(scheme, testBucket, "odd/"+scheme), io.Discard)
			if err == nil || !strings.Contains(err.Error(), "is not listed after it was put") {
				t.Errorf("with listings that are stale: %v", err)
			}
			var log bytes.Buffer
			proxy.Set(Some(1, 1<<30, Every, Fault{status: 403, code: "RequestTimeTooSkewed", clockAhead: 3600e9}))
			if _, err := openBucket(t, proxy.URL(scheme, testBucket, "odd/"+scheme), &log); err != nil ||
				!strings.Contains(log.String(), "behind the store's); set the clocks") {
				t.Errorf("with another clock: %v, logged:\n%s", err, log.String())
			}
		})
	}
}

// TestTheMinioServerPassesTheAcceptanceOfABucket is the same of a bucket where the machine has MinIO's binary (FIRN_TEST_MINIO).
func TestTheMinioServerPassesTheAcceptanceOfABucket(t *testing.T) {
	path := os.Getenv("FIRN_TEST_MINIO")
	if path == "" {
		t.Skip("FIRN_TEST_MINIO names no binary of MinIO: its protocol is tested with versitygw only")
	}
	minio := ServeMinio(t, path)
	setS3Environment(t, minio)
	acceptance(t, minio, schemes...)
}

func metricsOf(node *Node, metric string) (found []string) {
	_, page := node.Get("/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, metric) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func has(lines []string, parts ...string) bool {
	for _, line := range lines {
		fits := !strings.HasSuffix(line, " 0")
		for _, part := range parts {
			fits = fits && strings.Contains(line, part)
		}
		if fits {
			return true
		}
	}
	return false
}

// awaitMetric waits until a metric whose line has all the parts is above 0.
func awaitMetric(t *testing.T, node *Node, metric string, parts ...string) {
	t.Helper()
	Eventually(t, metric+" is told", func(context.Context) bool { return has(metricsOf(node, metric), parts...) })
}
