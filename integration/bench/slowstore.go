//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// An object store across a network is slower than one on this machine, and further away.
const (
	slowBytesPerSecond = 200e6
	slowRequest        = 30 * time.Millisecond
)

// slowStore stands before an object store and makes it slow: each request waits, and all answers together have a rate,
// as have all that is put.
type slowStore struct {
	address string
	server  *http.Server
	served  chan error
}

func newSlowStore(ctx context.Context, store string) (*slowStore, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	answers, puts := &pace{bytesPerSecond: slowBytesPerSecond}, &pace{bytesPerSecond: slowBytesPerSecond}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: store})
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
		ModifyResponse: func(r *http.Response) error {
			r.Body = &pacedBody{ReadCloser: r.Body, pace: answers, done: r.Request.Context().Done()}
			return nil
		},
		BufferPool: &copyBuffers{},
	}
	s := &slowStore{address: listener.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			wait(r.Context().Done(), slowRequest)
			r.Body = &pacedBody{ReadCloser: r.Body, pace: puts, done: r.Context().Done()}
			proxy.ServeHTTP(w, r)
		}),
	}
	go func() { s.served <- s.server.Serve(listener) }() // close waits for it
	return s, nil
}

func (s *slowStore) close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func wait(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

// pace shares a rate among all that use it.
type pace struct {
	bytesPerSecond float64

	mu   sync.Mutex // guards the field below
	next time.Time  // when what was taken until now will have gone
}

// leastWait is what timers are good for.
const leastWait = 2 * time.Millisecond

// take tells how long to wait before so many bytes may go.
func (p *pace) take(bytes int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(bytes) / p.bytesPerSecond * float64(time.Second)))
	if ahead := p.next.Sub(now); ahead >= leastWait {
		return ahead
	}
	return 0
}

// pacedBody is the body of an answer or of what is put.
type pacedBody struct {
	io.ReadCloser
	pace *pace
	done <-chan struct{}
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if ahead := b.pace.take(n, time.Now()); ahead > 0 {
		wait(b.done, ahead)
	}
	return n, err
}

// copyBuffers are what the proxy copies with: large ones, since it shares a processor with the clients.
type copyBuffers struct{ pool sync.Pool }

func (c *copyBuffers) Get() []byte {
	if buffer, ok := c.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 256<<10)
}

func (c *copyBuffers) Put(buffer []byte) { c.pool.Put(&buffer) }
