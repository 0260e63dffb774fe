package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
)

func TestRequestsAreAnswered(t *testing.T) {
	for name, on := range map[string]func() network.Network{
		"over TCP":                  network.TCP,
		"over the network of tests": func() network.Network { return network.NewMemory() },
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, on(), echo)
			client := server.dial()
			client.send(request(1), requestOf(wire.KeyMetadata, 9, 2))
			client.expect(1)
			if body := client.expect(2); string(body) != "3/9" {
				t.Errorf("the handler saw %s", body)
			}
			versions := server.metrics.byAPI[wire.KeyMetadata].versions
			if one, nine := versions[1].Load(), versions[9].Load(); one != 1 || nine != 1 {
				t.Errorf("%d requests of version 1 and %d of version 9 were counted", one, nine)
			}
		})
	}
}

func TestListenersMayBeIPv6(t *testing.T) {
	if probe, err := network.TCP().Listen(t.Context(), "[::1]:0"); err != nil {
		t.Skipf("this machine has no IPv6 loopback: %v", err)
	} else if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	server := startOn(t, network.TCP(), "[::1]:0", echo)
	client := server.dial()
	client.send(request(1))
	client.expect(1)
	if !strings.HasPrefix(server.address, "[::1]:") {
		t.Errorf("the listener's address is %s", server.address)
	}
}

func TestListenersAreOpenedBeforeTheServerRuns(t *testing.T) {
	server := start(t, network.TCP(), echo)
	client := server.dial()
	client.send(request(1))
	client.expect(1)
	if _, err := server.Listen(t.Context(), "LATE", "127.0.0.1:0"); err == nil {
		t.Error("a listener was opened that nobody would serve")
	}
}

func TestAnswersKeepTheOrderOfTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The first request is ready last.
		delays := []time.Duration{30 * time.Second, 10 * time.Second, 0, 20 * time.Second, 0}
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			delay := delays[req.CorrelationID]
			if delay == 0 {
				return wire.Reply{Response: text(req, "at once")}
			}
			wait := make(chan struct{})
			time.AfterFunc(delay, func() { close(wait) })
			return wire.Reply{Wait: wait, Finish: func() *wire.Response { return text(req, "later") }}
		})
		client := server.dial()
		began := time.Now()
		for i := range delays {
			client.send(request(int32(i)))
		}
		for i := range delays {
			client.expect(int32(i))
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %v: the requests did not wait together", took)
		}
	})
}

func TestRequestsWithoutAnAnswerWriteNothing(t *testing.T) {
	server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
		if req.CorrelationID%2 == 1 {
			return wire.Reply{None: true}
		}
		return wire.Reply{Response: text(req, "answer")}
	})
	client := server.dial()
	client.send(request(1), request(2), request(3), request(4))
	client.expect(2)
	client.expect(4)
}

var errTest = errors.New("the handler closes the connection")

func TestClosingReplyIsObeyedAfterEarlierAnswers(t *testing.T) {
	for name, closing := range map[string]func(req *wire.Request) wire.Reply{
		"with an answer": func(req *wire.Request) wire.Reply {
			return wire.Reply{Response: text(req, "last"), Close: errTest}
		},
		"without an answer": func(*wire.Request) wire.Reply { return wire.Reply{None: true, Close: errTest} },
		"and nothing else":  func(*wire.Request) wire.Reply { return wire.Reply{Close: errTest} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wait := make(chan struct{})
				var handled atomic.Int64
				server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
					handled.Add(1)
					if req.CorrelationID == 1 {
						return wire.Reply{Wait: wait, Response: text(req, "first")}
					}
					return closing(req)
				})
				client := server.dial()
				client.send(request(1), request(2), request(3))
				synctest.Wait()
				close(wait)
				client.expect(1)
				if name == "with an answer" {
					client.expect(2)
				}
				client.expectClosed()
				if handled.Load() != 2 {
					t.Errorf("%d requests were handled: the one after the close must not be", handled.Load())
				}
			})
		})
	}
}

func TestFramesAreGivenBackWhenTheHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		var inHandler atomic.Int64
		var server *running
		server = start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			inHandler.Store(server.pool.InUseBytes())
			return wire.Reply{Wait: wait, Response: text(req, "answer")}
		})
		client := server.dial()
		client.send(requestOf(wire.KeyProduce, 9, 1, make([]byte, 300_000)...))
		synctest.Wait()
		if inHandler.Load() < 300_000 {
			t.Errorf("%d bytes were in use in the handler", inHandler.Load())
		}
		if got := server.pool.InUseBytes(); got != 0 {
			t.Errorf("%d bytes are in use while the answer waits", got)
		}
		close(wait)
		client.expect(1)
	})
}

func TestRequestsOfAConnectionAreNotReadBeyondTheRepliesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		gate := make(chan struct{})
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			handled.Add(1)
			return wire.Reply{Wait: gate, Response: text(req, "answer")}
		}, func(c *Config) { c.MaxInFlightReplies = 3 })
		client := server.dial()
		for i := range int32(10) {
			client.send(request(i))
		}
		synctest.Wait()
		// Three are in flight; the reader has run the handler of a fourth and waits for its place.
		if handled.Load() != 4 {
			t.Errorf("%d requests were handled", handled.Load())
		}
		close(gate)
		for i := range int32(10) {
			client.expect(i)
		}
	})
}

func TestRequestsOfAConnectionAreNotReadBeyondTheBytesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		gate := make(chan struct{})
		big := strings.Repeat("x", 10_000)
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			handled.Add(1)
			return wire.Reply{Wait: gate, Response: text(req, big)}
		}, func(c *Config) { c.MaxInFlightBytesPerConnection = 25_000 })
		client, other := server.dial(), server.dial()
		for i := range int32(10) {
			client.send(request(i))
		}
		synctest.Wait()
		if handled.Load() != 3 {
			t.Errorf("%d requests were handled, two answers fit", handled.Load())
		}
		other.send(request(100))
		synctest.Wait()
		if handled.Load() != 4 {
			t.Error("one connection's limit held up another connection")
		}
		close(gate)
		for i := range int32(10) {
			client.expect(i)
		}
		other.expect(100)
	})
}

func TestReadingWaitsWhileTooManyBytesOfAllAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var handling, most atomic.Int64
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			most.Store(max(most.Load(), handling.Add(1)))
			<-gate
			handling.Add(-1)
			return wire.Reply{Response: text(req, "answer")}
		}, func(c *Config) { c.MaxInFlightBytes = 250_000 })
		var clients []*client
		for i := range int32(6) {
			client := server.dial()
			client.send(requestOf(wire.KeyProduce, 9, i, make([]byte, 100_000)...))
			clients = append(clients, client)
		}
		synctest.Wait()
		close(gate)
		for i, client := range clients {
			client.expect(int32(i))
		}
		if most.Load() != 2 {
			t.Errorf("%d requests of 100 kB were in memory at once, 250 kB are allowed", most.Load())
		}
	})
}

func TestFinishOrCancelIsCalledExactlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished, cancelled atomic.Int64
		gate := make(chan struct{})
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			reply := wire.Reply{
				Wait:   gate,
				Finish: func() *wire.Response { finished.Add(1); return text(req, "answer") },
				Cancel: func() { cancelled.Add(1) },
			}
			if req.CorrelationID > 2 {
				reply.Wait = make(chan struct{}) // for ever
			}
			return reply
		})
		client := server.dial()
		for i := range int32(6) {
			client.send(request(i + 1))
		}
		synctest.Wait()
		close(gate)
		client.expect(1)
		client.expect(2)
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		server.stop()
		if finished.Load() != 2 || cancelled.Load() != 4 {
			t.Errorf("%d finished, %d cancelled; want 2 and 4", finished.Load(), cancelled.Load())
		}
	})
}

func TestAPanicCostsOneConnectionAndNoOther(t *testing.T) {
	for name, panicking := range map[string]func() wire.Reply{
		"in the handler": func() wire.Reply { panic("a mistake") },
		"in Finish":      func() wire.Reply { return wire.Reply{Finish: func() *wire.Response { panic("a mistake") }} },
		"no answer":      func() wire.Reply { return wire.Reply{} },
		"no answer of Finish": func() wire.Reply {
			return wire.Reply{Finish: func() *wire.Response { return nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
				if req.CorrelationID == 13 {
					return panicking()
				}
				return wire.Reply{Finish: func() *wire.Response { return text(req, "answer") }}
			})
			good, bad := server.dial(), server.dial()
			bad.send(request(1), request(13))
			bad.expect(1) // what stands before the mistake is still answered
			bad.expectClosed()
			good.send(request(2))
			good.expect(2)
			if panics := testutil.ToFloat64(server.metrics.panics); strings.HasPrefix(name, "in") != (panics == 1) {
				t.Errorf("%v panics were counted", panics)
			}
		})
	}
}

func TestSoftwareIsRememberedPerConnection(t *testing.T) {
	server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
		if req.CorrelationID == 1 {
			req.Conn.SetSoftware(wire.Software{Name: "client", Version: "1"})
		}
		return wire.Reply{Response: text(req, fmt.Sprint(req.Conn.Software(), req.ClientID, req.Conn.Listener))}
	})
	client, other := server.dial(), server.dial()
	client.send(request(1), request(2))
	other.send(request(3))
	client.expect(1)
	if body := client.expect(2); string(body) != "{client 1}cPLAINTEXT" {
		t.Errorf("got %s", body)
	}
	if body := other.expect(3); string(body) != "{ }cPLAINTEXT" {
		t.Errorf("got %s", body)
	}
}
