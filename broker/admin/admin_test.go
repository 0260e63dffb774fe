package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/admin/view"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeMetadata is a cluster with one tiered topic of two partitions and one that is not tiered.
type fakeMetadata struct{ entriesErr error }

func (f *fakeMetadata) Image() *image.Image {
	return image.Empty().WithTopic(&image.Topic{
		ID: kafka.UUID{1}, Name: "cold",
		Partitions: []image.Partition{{Epoch: 3, Tier: &image.TierState{Start: 5, End: 20, Segments: 2, Bytes: 300}}, {}},
	}).WithTopic(&image.Topic{ID: kafka.UUID{2}, Name: "hot", Partitions: []image.Partition{{}}})
}

func (f *fakeMetadata) segments(_ context.Context, tp kafka.TopicIDPartition) iter.Seq2[command.SegmentEntry, error] {
	entry := command.SegmentEntry{BaseOffset: 5, EndOffset: 10, UploadID: kafka.UUID{7}, ObjectBytes: 120, MaxTimestamp: 9}
	return func(yield func(command.SegmentEntry, error) bool) {
		if tp.Partition == 0 && yield(entry, nil) && f.entriesErr != nil {
			yield(command.SegmentEntry{}, f.entriesErr)
		}
	}
}

func newServer(metadata *fakeMetadata, ready error, profiles bool) *Server {
	return New(Options{
		Logger: slog.New(slog.DiscardHandler), Gatherer: prometheus.NewRegistry(), Metadata: metadata,
		Logs:     func(kafka.TopicPartition) (*storage.Log, error) { return nil, kafka.KafkaStorageError },
		Segments: metadata.segments,
		ObjectKey: func(tp kafka.TopicIDPartition, entry command.SegmentEntry) string {
			return tp.ID.Hex() + "/" + entry.UploadID.Hex()
		},
		Ready: func() error { return ready }, Profiles: profiles,
	})
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	s.routes().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return recorder.Code, recorder.Body.String()
}

func TestHealthAndReadiness(t *testing.T) {
	starting := newServer(&fakeMetadata{}, errors.New("the node is starting"), false)
	if status, _ := get(t, starting, "/healthz"); status != http.StatusOK {
		t.Errorf("a node that starts is alive: %d", status)
	}
	if status, body := get(t, starting, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
		t.Errorf("a node that starts is not ready: %d %q", status, body)
	}
	if status, _ := get(t, newServer(&fakeMetadata{}, nil, false), "/readyz"); status != http.StatusOK {
		t.Errorf("ready: %d", status)
	}
	if status, _ := get(t, starting, "/metrics"); status != http.StatusOK {
		t.Errorf("metrics: %d", status)
	}
}

func TestProfilesAreServedOnDemandOnly(t *testing.T) {
	for profiles, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		if status, _ := get(t, newServer(&fakeMetadata{}, nil, profiles), "/debug/pprof/"); status != want {
			t.Errorf("with profiles %v: %d", profiles, status)
		}
	}
}

func TestTierStatusListsTieredPartitionsAndKnowsTheBucketWithoutTheLog(t *testing.T) {
	status, body := get(t, newServer(&fakeMetadata{}, nil, false), view.PathTier)
	var answer view.TierStatus
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || len(answer.Partitions) != 1 {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	got := answer.Partitions[0]
	if got.Topic != "cold" || got.Start != 5 || got.End != 20 || got.Segments != 2 || got.Bytes != 300 ||
		got.LeaderEpoch != 3 || got.LocalStart != -1 {
		t.Errorf("partition: %+v", got)
	}
}

func TestTierObjects(t *testing.T) {
	status, body := get(t, newServer(&fakeMetadata{}, nil, false), view.PathTier+"/cold")
	var answer view.TierObjects
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || len(answer.Entries) != 1 {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	got := answer.Entries[0]
	if got.BaseOffset != 5 || got.EndOffset != 10 || got.Bytes != 120 || got.MaxTimestamp != 9 ||
		got.Key != (kafka.UUID{1}).Hex()+"/"+(kafka.UUID{7}).Hex() {
		t.Errorf("entry: %+v", got)
	}
}

func TestFailuresAreJSONThatSaysWhat(t *testing.T) {
	s := newServer(&fakeMetadata{entriesErr: errors.New("the database is closed")}, nil, false)
	for path, want := range map[string]int{
		view.PathTier + "/nope": http.StatusNotFound, view.PathTier + "/cold": http.StatusInternalServerError,
		"/elsewhere": http.StatusNotFound,
	} {
		status, body := get(t, s, path)
		var failure view.Error
		if err := json.Unmarshal([]byte(body), &failure); err != nil || status != want || failure.Error == "" {
			t.Errorf("%s: %d %q, %v", path, status, body, err)
		}
	}
}

func TestRunServesUntilItIsStopped(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- newServer(&fakeMetadata{}, nil, false).Run(ctx, listener) }()
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Get("http://" + listener.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil || string(body) != "ok\n" {
		t.Errorf("body %q, %v", body, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
