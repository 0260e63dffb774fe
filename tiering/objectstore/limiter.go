package objectstore

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// maxRequestsInFlight is where the limiter begins and what it never exceeds. Four streams fill a local network and
	// about ten times as many one with the latency of a far region; the rest is for small requests in between.
	maxRequestsInFlight = 64
	// cutInterval is how long one reduction counts for: the answers to requests that were under way when it was made
	// say nothing new.
	cutInterval = time.Second
)

// Limiter bounds the requests in flight of one process. A store that asks to slow down halves the bound; each success
// raises it by a fraction, so that as many successes as the bound raise it by one (AIMD, as in TCP). Requests wait
// their turn in the order they came.
type Limiter struct {
	mu       sync.Mutex // guards the fields below
	limit    float64
	inFlight int
	waiting  []chan struct{} // closed when it is the waiter's turn
	lastCut  time.Time
}

// NewLimiter makes a limiter that lets the most through that it ever will.
func NewLimiter() *Limiter { return &Limiter{limit: maxRequestsInFlight} }

// Limit is how many requests may be in flight now.
func (l *Limiter) Limit() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit)
}

// Acquire waits until a request may start. Each success is followed by one Release.
func (l *Limiter) Acquire(ctx context.Context) error {
	l.mu.Lock()
	if l.inFlight < int(l.limit) && len(l.waiting) == 0 {
		l.inFlight++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		l.leave(turn)
		return context.Cause(ctx)
	}
}

// leave gives up waiting. A turn that came at the same moment goes to the next one.
func (l *Limiter) leave(turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, waiting := range l.waiting {
		if waiting == turn {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return
		}
	}
	l.inFlight--
	l.admit()
}

// outcome is what an answer says about the store's load.
type outcome int

const (
	outcomeUnknown  outcome = iota // no answer, or one that says nothing about load
	outcomeSuccess                 // the store keeps up
	outcomeSlowDown                // the store asks for less
)

// Release ends a request.
func (l *Limiter) Release(result outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch result {
	case outcomeSuccess:
		l.limit = min(maxRequestsInFlight, l.limit+1/l.limit)
	case outcomeSlowDown:
		if now := time.Now(); now.Sub(l.lastCut) >= cutInterval {
			l.limit, l.lastCut = max(1, l.limit/2), now
		}
	}
	l.inFlight--
	l.admit()
}

func (l *Limiter) admit() {
	for len(l.waiting) > 0 && l.inFlight < int(l.limit) {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.inFlight++
	}
}

// Transport lets the requests of next through as the limiter allows. A request is in flight until its answer's body has
// been closed.
func (l *Limiter) Transport(next http.RoundTripper) http.RoundTripper {
	return limitedTransport{limiter: l, next: next}
}

type limitedTransport struct {
	limiter *Limiter
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.limiter.Acquire(request.Context()); err != nil {
		if request.Body != nil {
			err = joinClose(err, request.Body)
		}
		return nil, err
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		t.limiter.Release(outcomeUnknown)
		return nil, err
	}
	result := outcomeSuccess
	switch {
	case response.StatusCode == http.StatusServiceUnavailable, response.StatusCode == http.StatusTooManyRequests:
		result = outcomeSlowDown
	case response.StatusCode >= http.StatusInternalServerError:
		result = outcomeUnknown
	}
	response.Body = &releasingBody{ReadCloser: response.Body, release: sync.OnceFunc(func() { t.limiter.Release(result) })}
	return response, nil
}

// releasingBody ends a request when its body is closed.
type releasingBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *releasingBody) Close() error {
	b.release()
	return b.ReadCloser.Close()
}
