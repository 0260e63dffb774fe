//go:build integration

package process

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// FaultProxy stands before an S3 server and does to requests what networks and stores do. The requests keep the name of
// the host that they were signed for.
type FaultProxy struct {
	Endpoint string

	transport http.RoundTripper
	server    *url.URL

	mu      sync.Mutex // guards the fields below
	rule    func(*http.Request) Fault
	struck  int               // requests that were not let pass
	listing map[string][]byte // the first answer to each listing, for those that are to be stale
}

// Fault is what happens to a request; the zero value lets it pass.
type Fault struct {
	status     int    // what is answered in the server's place, or after it has done what was asked
	code       string // of the protocol
	performed  bool   // the server does what was asked, before anything goes wrong
	reset      bool   // the connection is reset
	stale      bool   // a listing is answered as it was the first time
	cut        int64  // the answer's body ends after so many bytes; 0 does not
	perSecond  int64  // the answer's body comes with so many bytes a second; 0 is as fast as it can
	clockAhead time.Duration
}

// ProxyS3 starts a proxy that lets everything pass.
func ProxyS3(t testing.TB, s3 *S3) *FaultProxy {
	t.Helper()
	server, err := url.Parse(s3.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	p := &FaultProxy{transport: transport, server: server, listing: map[string][]byte{}}
	listener := httptest.NewServer(p)
	p.Endpoint = listener.URL
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
		transport.CloseIdleConnections()
	})
	return p
}

// URL names a folder in a bucket, as firn.object.store does, behind the proxy.
func (p *FaultProxy) URL(scheme, bucket, prefix string) string {
	return fmt.Sprintf("%s://%s/%s?endpoint=%s", scheme, bucket, prefix, p.Endpoint)
}

// Set decides from now on what happens to requests; nil lets all pass.
func (p *FaultProxy) Set(rule func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule, p.struck = rule, 0
}

// Struck counts the requests that have not passed since Set.
func (p *FaultProxy) Struck() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.struck
}

func (p *FaultProxy) decide(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rule == nil {
		return Fault{}
	}
	fault := p.rule(r)
	if fault != (Fault{}) {
		p.struck++
	}
	return fault
}

// ServeHTTP implements http.Handler.
func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.decide(r)
	if fault.performed {
		p.perform(r)
	}
	switch {
	case fault.reset:
		resetConnection(w, r)
	case fault.status != 0:
		if fault.clockAhead != 0 {
			w.Header().Set("Date", time.Now().Add(fault.clockAhead).UTC().Format(http.TimeFormat))
		}
		w.WriteHeader(fault.status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>by the proxy</Message></Error>", fault.code)
	default:
		p.forward(w, r, fault)
	}
}

// perform has the server do what was asked, and keeps its answer from whoever asked.
func (p *FaultProxy) perform(r *http.Request) {
	hidden := httptest.NewRecorder()
	p.forward(hidden, r, Fault{})
}

func (p *FaultProxy) forward(w http.ResponseWriter, r *http.Request, fault Fault) {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(p.server)
			out.Out.Host = out.In.Host // it is signed
		},
		Transport: p.transport,
		ModifyResponse: func(answer *http.Response) error {
			if r.URL.Query().Has("list-type") {
				return p.remember(answer, fault.stale)
			}
			if fault.cut > 0 || fault.perSecond > 0 {
				answer.Body = &slowBody{ReadCloser: answer.Body, left: fault.cut, endless: fault.cut == 0,
					perSecond: fault.perSecond}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) { resetConnection(w, r) }, // the server is gone
	}
	proxy.ServeHTTP(w, r)
}

// remember keeps the first answer to a listing, and gives it again where it is to be stale.
func (p *FaultProxy) remember(answer *http.Response, stale bool) error {
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	p.mu.Lock()
	key := answer.Request.URL.RawQuery
	if first, found := p.listing[key]; !found {
		p.listing[key] = body
	} else if stale {
		body = first
	}
	p.mu.Unlock()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// resetConnection reads a part of what comes and then ends the connection the hard way.
func resetConnection(w http.ResponseWriter, r *http.Request) {
	_, _ = io.CopyN(io.Discard, r.Body, 64<<10)
	if hijacker, ok := w.(http.Hijacker); ok {
		if conn, _, err := hijacker.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
	}
}

// slowBody ends early, or takes its time.
type slowBody struct {
	io.ReadCloser
	left      int64
	endless   bool
	perSecond int64
}

// Read implements io.Reader.
func (b *slowBody) Read(p []byte) (int, error) {
	if !b.endless {
		if b.left == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		p = p[:min(int64(len(p)), b.left)]
	}
	if b.perSecond > 0 {
		p = p[:min(int64(len(p)), max(1, b.perSecond/20))]
		<-time.After(time.Second / 20)
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// Some gives a fault to the requests first to last, counted from 1, of those that match selects.
func Some(first, last int, match func(*http.Request) bool, fault Fault) func(*http.Request) Fault {
	seen := 0 // the proxy's lock is held
	return func(r *http.Request) Fault {
		if !match(r) {
			return Fault{}
		}
		if seen++; seen < first || seen > last {
			return Fault{}
		}
		return fault
	}
}

// On selects the requests of a method, and of objects if they have a key.
func On(method string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 0
	}
}

// Every selects all requests.
func Every(*http.Request) bool { return true }
