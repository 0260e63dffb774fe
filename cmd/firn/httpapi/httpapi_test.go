package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/admin/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"a document", http.StatusOK, `{"partitions":[{"topic":"flights","end":7}]}`, ""},
		{"a document with fields of a later version", http.StatusOK, `{"partitions":[],"later":1}`, ""},
		{"a refusal with a reason", http.StatusNotFound, `{"error":"there is no topic \"x\""}`, `there is no topic "x"`},
		{"another program", http.StatusNotFound, `<html>`, "answers 404 Not Found; check that it is firn's HTTP listener"},
		{"another program that answers", http.StatusOK, `<html>`, "does not answer as firn does"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != view.PathTier {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			for _, address := range []string{server.URL, strings.TrimPrefix(server.URL, "http://")} {
				var status view.TierStatus
				err := Get(t.Context(), address, view.PathTier, &status)
				if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: error %v, want %q", address, err, test.want)
				}
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"a node that serves", http.StatusOK, "ready\n", ""},
		{"one that does not", http.StatusServiceUnavailable, "recovering\n", "is not ready: recovering"},
		{"another program", http.StatusNotFound, "404 page not found", "answers 404 Not Found; check that it is firn's"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			err := Ready(t.Context(), server.URL)
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	err := Get(t.Context(), server.URL, view.PathTier, &view.TierStatus{})
	if err == nil || !strings.Contains(err.Error(), "is `firn serve` running, or give --http HOST:PORT") {
		t.Errorf("error %v", err)
	}
}
