package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/firnlog/firn/broker/admin/view"
)

// adminServer answers as firn's HTTP listener does, for one tiered topic.
func adminServer(t *testing.T) string {
	t.Helper()
	answer := func(w http.ResponseWriter, status int, document any) {
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(document); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+view.PathTier, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, view.TierStatus{Partitions: []view.TierPartition{
			{Topic: "flights", Start: 0, End: 900, LocalStart: 900, LogEnd: 1000, HighWatermark: 1000, Segments: 9,
				Bytes: 5 << 20, LocalBytes: 1 << 20},
			{Topic: "flights", Partition: 1, LogStart: -1, LocalStart: -1, LogEnd: -1, LocalBytes: -1, UploadLagBytes: -1},
			{Topic: "other", LogEnd: 5},
		}})
	})
	mux.HandleFunc("GET "+view.PathTier+"/{topic}", func(w http.ResponseWriter, r *http.Request) {
		if topic := r.PathValue("topic"); topic != "flights" {
			answer(w, http.StatusNotFound, view.Error{Error: "there is no topic " + topic})
			return
		}
		answer(w, http.StatusOK, view.TierObjects{Topic: "flights", Entries: []view.TierEntry{
			{Topic: "flights", BaseOffset: 0, EndOffset: 100, LeaderEpoch: 2, Bytes: 2048, MaxTimestamp: 1357035300000,
				Key: "a.seg"},
			{Topic: "flights", Partition: 1, EndOffset: 7, MaxTimestamp: -1, Key: "b.seg"},
		}})
	})
	asked := 0
	verification := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("depth") == "deep" {
			answer(w, http.StatusConflict, view.Error{Error: "there is no depth deep"})
			return
		}
		asked++
		answer(w, http.StatusOK, view.Verification{
			Depth: "listing", Running: r.Method == http.MethodPost, Partitions: 3, Verified: asked, Objects: 9, StartedAt: 1,
			Found:    map[string]int64{"missing": 1},
			Findings: []view.Finding{{Kind: "missing", Topic: r.URL.Query().Get("topic"), EndOffset: 5, Key: "a.seg", Detail: "gone"}},
		})
	}
	for _, method := range []string{"GET ", "POST ", "DELETE "} {
		mux.HandleFunc(method+view.PathVerify, verification)
	}
	mux.HandleFunc("GET "+view.PathGarbage, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, view.Garbage{Grace: 4, Checkpoints: 3, Pins: 2, Due: 1})
	})
	mux.HandleFunc("POST "+view.PathGarbage, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, view.Garbage{Error: "the store is away"})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestTierCommands(t *testing.T) {
	address := adminServer(t)
	for _, test := range []struct {
		line, want, failed string
	}{
		{line: "tier status", want: `TOPIC PARTITION LOG START REMOTE OBJECTS BYTES LOCAL BYTES TO UPLOAD
flights 0 0 0–900 9 5.0 MiB 900–1000 1.0 MiB 0 B
flights 1 - 0–0 0 0 B offline - -
other 0 0 0–0 0 0 B 0–5 0 B 0 B
`},
		{line: "tier status other", want: `TOPIC PARTITION LOG START REMOTE OBJECTS BYTES LOCAL BYTES TO UPLOAD
other 0 0 0–0 0 0 B 0–5 0 B 0 B
`},
		{line: "tier status nope", failed: "topic nope is not tiered here"},
		{line: "tier ls flights", want: `PARTITION START END EPOCH BYTES NEWEST KEY
0 0 100 2 2.0 KiB 2013-01-01T10:15:00Z a.seg
1 0 7 0 0 B - b.seg
`},
		{line: "tier ls flights -p 1", want: `PARTITION START END EPOCH BYTES NEWEST KEY
1 0 7 0 0 B - b.seg
`},
		{line: "tier ls nope", failed: "there is no topic nope"},
		{line: "tier verify --status", want: `depth listing: 1 of 3 partitions, 9 objects, 0 B read, 1 findings
FINDING TOPIC PARTITION START END KEY DETAIL
missing 0 0 5 a.seg gone
`},
		{line: "tier verify flights --depth listing", failed: "1 objects are not as they should be"},
		{line: "tier verify --depth deep", failed: "there is no depth deep"},
		{line: "tier gc", want: `WAITS FOR PIECES
grace time 4
checkpoints 3
pins 2
nothing 1
`},
		{line: "tier gc --now", failed: "the store is away"},
	} {
		got := firn(t, "", append(strings.Fields(test.line), "--http", address)...)
		if test.failed != "" {
			if got.status != exitFailed || !strings.Contains(got.err, test.failed) {
				t.Errorf("%s: status %d, error %q, want %q", test.line, got.status, got.err, test.failed)
			}
			continue
		}
		if got.status != 0 || squeeze(got.out) != test.want {
			t.Errorf("%s: status %d, error %q, printed\n%swant\n%s", test.line, got.status, got.err, squeeze(got.out), test.want)
		}
	}
	var status view.TierStatus
	got := firn(t, "", "tier", "status", "-f", "json", "--http", address)
	if err := json.Unmarshal([]byte(got.out), &status); err != nil || len(status.Partitions) != 3 {
		t.Errorf("%q, error %v", got.out, err)
	}
}
