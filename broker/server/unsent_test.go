//go:build linux

package server

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
)

// TestWhichAnswersWaitForOthers sends two requests at once. The handler of the second looks whether the first has been
// answered.
func TestWhichAnswersWaitForOthers(t *testing.T) {
	small := request(2)
	for name, c := range map[string]struct {
		first  func(*wire.Request) wire.Reply
		second []byte
		waits  bool
	}{
		"small":                       {func(r *wire.Request) wire.Reply { return wire.Reply{Response: text(r, "1")} }, small, true},
		"before a large request":      {func(r *wire.Request) wire.Reply { return wire.Reply{Response: text(r, "1")} }, large(2), false},
		"large":                       {func(r *wire.Request) wire.Reply { return wire.Reply{Response: text(r, longText)} }, small, false},
		"after a handler that waited": {slow, small, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent func() float64
			var before float64 // used by the connection's goroutine only
			var waited atomic.Int64
			server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
				if req.CorrelationID == 1 {
					before = sent()
					return c.first(req)
				}
				if sent() == before {
					waited.Add(1)
				}
				return wire.Reply{Response: text(req, "2")}
			})
			sent = func() float64 { return testutil.ToFloat64(server.metrics.listener("PLAINTEXT").sent) }
			client := server.dial()
			for range 20 { // a busy machine may stop us for longer than an answer may wait
				client.send(bytes.Join([][]byte{request(1), c.second}, nil))
				client.expect(1)
				client.expect(2)
			}
			if waited := waited.Load(); waited > 0 != c.waits {
				t.Errorf("%d answers waited for the second request to be handled", waited)
			}
		})
	}
}

var longText = string(make([]byte, countedFrom))

func large(correlationID int32) []byte {
	return requestOf(wire.KeyProduce, 9, correlationID, make([]byte, directFrame)...)
}

func slow(req *wire.Request) wire.Reply {
	<-time.After(2 * maxUnsentWait)
	return wire.Reply{Response: text(req, "1")}
}

func TestNoAnswerWaitsForWhatDoesNotCome(t *testing.T) {
	server := start(t, network.TCP(), echo)
	client := server.dial()
	second := request(2)
	for cut := range second {
		client.send(bytes.Join([][]byte{request(1), second[:cut]}, nil))
		client.expect(1)
		client.send(second[cut:])
		client.expect(2)
	}
}

func TestAnAnswerThatWaitsIsSentBeforeTheConnectionEnds(t *testing.T) {
	server := start(t, network.TCP(), echo)
	client := server.dial()
	client.send(bytes.Join([][]byte{request(1), requestOf(-1, 0, 2)}, nil))
	client.expect(1)
	client.expectClosed()
}

func TestAnAnswerThatWaitsIsSentBeforeOneThatIsNotReady(t *testing.T) {
	answered := make(chan struct{})
	server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
		if req.CorrelationID == 2 {
			return wire.Reply{Wait: answered, Finish: func() *wire.Response { return text(req, "2") }}
		}
		return wire.Reply{Response: text(req, "1")}
	})
	client := server.dial()
	client.send(bytes.Join([][]byte{request(1), request(2), request(3)}, nil))
	client.expect(1)
	close(answered)
	client.expect(2)
	client.expect(3)
}
