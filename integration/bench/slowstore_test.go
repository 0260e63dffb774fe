//go:build linux

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTheSlowStoreIsAsFarAwayAsItSaysAndPassesThingsOn(t *testing.T) {
	const size = 4 << 20
	var host string
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host = r.Host
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPut {
			return
		}
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", size)))
	}))
	defer store.Close()
	slow, err := newSlowStore(t.Context(), strings.TrimPrefix(store.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+slow.address+"/object", nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(response.Body)
	if err != nil || len(data) != size {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	least := slowRequest + time.Duration(float64(size)/slowBytesPerSecond*float64(time.Second)) - leastWait
	if took := time.Since(began); took < least {
		t.Errorf("it takes %v, less than %v", took, least)
	}
	if host != slow.address {
		t.Errorf("the store is told that it is %q: signatures would not fit", host)
	}
	_ = response.Body.Close()
	began = time.Now()
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+slow.address+"/object",
		strings.NewReader(strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	if response, err = transport.RoundTrip(put); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if took := time.Since(began); took < least {
		t.Errorf("a put takes %v, less than %v", took, least)
	}
	if err := slow.close(); err != nil {
		t.Error(err)
	}
}

func TestAPaceIsSharedAndForgetsWhatNobodyUsed(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &pace{bytesPerSecond: 1e6}
	for i, want := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond} {
		if got := p.take(10_000, now); got != want {
			t.Errorf("%d: %v", i, got)
		}
	}
	now = now.Add(time.Hour)
	if got := p.take(100, now); got != 0 {
		t.Errorf("after a pause: %v", got)
	}
	if got := p.take(10_000, now); got != 10*time.Millisecond+100*time.Microsecond {
		t.Errorf("after a little: %v", got)
	}
}
