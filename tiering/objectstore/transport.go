package objectstore

import (
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	dialTimeout    = 5 * time.Second  // a host that takes longer is taken for away; the next attempt asks DNS anew
	idleConnection = 90 * time.Second // less than what stores, and balancers before them, keep idle connections for
	bufferBytes    = 256 << 10        // of each connection and direction: fewer system calls, and less CPU, per byte
)

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxConnsPerHost:     maxRequestsInFlight, // as many as can be used
		MaxIdleConnsPerHost: maxRequestsInFlight,
		IdleConnTimeout:     idleConnection,
		WriteBufferSize:     bufferBytes,
		ReadBufferSize:      bufferBytes,
		DisableCompression:  true, // ranges of what is stored, not of what a proxy makes of it
		ForceAttemptHTTP2:   false,
	}
}

// closeIdle closes the connections that nothing is using.
type closeIdle struct{ transport *http.Transport }

// Close implements io.Closer.
func (c closeIdle) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// traffic watches the requests as they go out: what an operator is billed for, and what the store's clock says.
type traffic struct {
	next     http.RoundTripper
	requests *prometheus.CounterVec // by kind of request
	clock    atomic.Int64           // the store's clock less ours, in nanoseconds, as of the last answer
}

// skew is how far the store's clock is ahead of ours; it is good to a second or two, and 0 while nothing is known.
func (t *traffic) skew() time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.clock.Load())
}

// RoundTrip implements http.RoundTripper.
func (t *traffic) RoundTrip(request *http.Request) (*http.Response, error) {
	t.requests.WithLabelValues(requestKind(request)).Inc()
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.clock.Store(int64(time.Until(date)))
	}
	return response, nil
}

// requestKind names a request as price lists do. A path has a bucket and a key, or a host's name has the bucket.
func requestKind(request *http.Request) string {
	query := request.URL.Query()
	switch {
	case query.Has("uploads") && request.Method == http.MethodGet:
		return "list_uploads"
	case query.Has("uploads"):
		return "create_upload"
	case query.Has("uploadId"):
		return map[string]string{http.MethodPut: "upload_part", http.MethodPost: "complete_upload",
			http.MethodDelete: "abort_upload"}[request.Method]
	case query.Has("list-type"):
		return "list_objects"
	case query.Has("delete"):
		return "delete_objects"
	case query.Has("versioning"), query.Has("lifecycle"), query.Has("location"):
		return "get_bucket"
	}
	return strings.ToLower(request.Method) + "_object"
}
