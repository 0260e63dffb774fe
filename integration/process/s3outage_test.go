//go:build integration

package process

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTI13TI14TI22AStoreThatRefuses has a node meet 503s, then 500s, then refused deletions: nobody who produces notices,
// metrics say which operation met what, and everything that waited is done without a restart.
func TestTI13TI14TI22AStoreThatRefuses(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	proxy := ProxyS3(t, s3)
	node := Serve(t, Options{Env: s3.Environment(), Set: []string{
		"firn.object.store=" + proxy.URL("minio", testBucket, "firn"), "firn.tier.gc.grace.ms=0",
		"log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200",
		"firn.tier.checkpoint.interval.ms=1000",
	}})
	node.CreateTopic("events", 1, "segment.bytes=1048576", "remote.storage.enable=true", "local.retention.ms=1")
	load := startLoader(t, node, "events", kgo.NoCompression())
	load.waitFor(10_000)
	sunk(t, node, "events")
	for _, fault := range []Fault{{status: 503, code: "SlowDown"}, {status: 500, code: "InternalError"}} {
		proxy.Set(Some(1, 1<<30, Every, fault))
		began := time.Now()
		load.waitFor(load.acked.Load() + 20_000)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("20 000 records took %v while the store refuses", took)
		}
		awaitMetric(t, node, "firn_objectstore_errors_total", `operation="put"`, `bucket="minio://history"`, fault.code)
		awaitMetric(t, node, "kafka_server_brokertopicmetrics_remotecopylagbytes", `topic="events"`)
		awaitMetric(t, node, "firn_tier_upload_lag_seconds", `topic="events"`)
	}
	if log := node.Log(); !strings.Contains(log, `"operation":"put"`) || !strings.Contains(log, `"status":"503 SlowDown"`) {
		t.Error("the log does not say which operation was refused, and how")
	}
	proxy.Set(nil)
	load.finish()
	sunk(t, node, "events")
	expectAll(t, node, load)

	proxy.Set(func(r *http.Request) Fault {
		if r.Method == http.MethodDelete || r.URL.Query().Has("delete") {
			return Fault{status: 503, code: "SlowDown"}
		}
		return Fault{}
	})
	admin := kadm.NewClient(node.Client())
	if _, err := admin.DeleteTopic(t.Context(), "events"); err != nil {
		t.Fatal(err)
	}
	awaitMetric(t, node, "firn_objectstore_errors_total", `operation="delete"`, "SlowDown")
	proxy.Set(nil)
	Eventually(t, "the topic's objects are gone", func(context.Context) bool {
		return len(segmentObjects(t, s3)) == 0
	})
	node.Stop()
}

// segmentObjects are the files of segments in the bucket.
func segmentObjects(t *testing.T, s3 *S3) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(filepath.Join(s3.Dir, testBucket), func(path string, entry os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it went meanwhile
		}
		if err == nil && strings.HasSuffix(path, ".seg") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tokens plays the service that gives a container its credentials: for a few seconds each, and not always.
type tokens struct {
	refuse atomic.Bool
	given  atomic.Int64
}

// ServeHTTP implements http.Handler.
func (s *tokens) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if s.refuse.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	s.given.Add(1)
	_ = json.NewEncoder(w).Encode(map[string]string{
		"AccessKeyId": s3AccessKey, "SecretAccessKey": s3SecretKey, "Token": "",
		"Expiration": time.Now().Add(4 * time.Second).UTC().Format(time.RFC3339),
	})
}

// TestTI20CredentialsThatEnd has the credentials of a node end while nobody gives new ones, and then be called expired
// before their time.
func TestTI20CredentialsThatEnd(t *testing.T) {
	for _, scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			s3 := ServeS3(t, testBucket)
			proxy := ProxyS3(t, s3)
			service := &tokens{}
			server := httptest.NewServer(service)
			defer server.Close()
			node := Serve(t, Options{
				Env: []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_EC2_METADATA_DISABLED=true",
					"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + server.URL, "AWS_REGION=us-east-1", "HOME=" + t.TempDir()},
				Set: []string{"firn.object.store=" + proxy.URL(scheme, testBucket, "firn"),
					"log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200"},
			})
			node.CreateTopic("events", 1, "segment.bytes=1048576", "remote.storage.enable=true", "local.retention.ms=1")
			load := startLoader(t, node, "events", kgo.NoCompression())
			load.waitFor(10_000)
			sunk(t, node, "events")
			if service.given.Load() < 2 {
				load.waitFor(load.acked.Load() + 20_000)
				Eventually(t, "credentials are renewed", func(context.Context) bool { return service.given.Load() >= 2 })
			}
			service.refuse.Store(true)
			awaitMetric(t, node, "firn_objectstore_credentials_failures_total")
			awaitMetric(t, node, "firn_objectstore_errors_total", `status="credentials"`)
			load.waitFor(load.acked.Load() + 20_000)
			service.refuse.Store(false)
			sunk(t, node, "events")
			before := service.given.Load()
			proxy.Set(Some(1, 3, Every, Fault{status: 403, code: "ExpiredToken"}))
			load.waitFor(load.acked.Load() + 20_000)
			load.finish()
			sunk(t, node, "events")
			expectAll(t, node, load)
			if service.given.Load() == before {
				t.Error("credentials that the store called expired were not renewed")
			}
			node.Stop()
		})
	}
}

// TestObjectsThatGoUnderANode: what is gone or cut is told of, and what is not stays readable.
func TestObjectsThatGoUnderANode(t *testing.T) {
	s3 := ServeS3(t, testBucket)
	node := Serve(t, Options{Env: s3.Environment(), Set: []string{
		"firn.object.store=" + s3.URL(testBucket, "firn"), "firn.tier.cache.bytes=0",
		"log.retention.check.interval.ms=200", "remote.log.manager.task.interval.ms=200",
	}})
	topics := map[string]func(path string) error{
		"gone": os.Remove,
		"cut":  func(path string) error { return os.Truncate(path, 100_000) },
		"kept": nil,
	}
	for topic, harm := range topics {
		node.CreateTopic(topic, 1, "segment.bytes=1048576", "remote.storage.enable=true", "local.retention.ms=1")
		load := startLoader(t, node, topic, kgo.NoCompression())
		load.waitFor(10_000)
		load.finish()
		sunk(t, node, topic)
		entry := tierObjects(t, node, topic).Entries[1]
		if harm == nil {
			expectAll(t, node, load)
			continue
		}
		if err := harm(filepath.Join(s3.Dir, testBucket, "firn", filepath.FromSlash(entry.Key))); err != nil {
			t.Fatal(err)
		}
		reader := node.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			topic: {0: kgo.NewOffset().At(entry.BaseOffset)},
		}), kgo.KeepRetryableFetchErrors())
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		fetches := reader.PollFetches(ctx)
		cancel()
		if len(fetches.Errors()) == 0 || !fetches.Empty() {
			t.Errorf("%s: %d records, %v", topic, fetches.NumRecords(), fetches.Errors())
		}
	}
	awaitMetric(t, node, "firn_tier_missing_objects_total")
	awaitMetric(t, node, "firn_tier_corrupt_objects_total")
	node.Stop()
}
