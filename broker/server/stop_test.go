package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
)

func TestAStopFinishesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := network.NewMemory()
		server := start(t, memory, func(_ context.Context, req *wire.Request) wire.Reply {
			wait := make(chan struct{})
			time.AfterFunc(5*time.Second, func() { close(wait) })
			return wire.Reply{Wait: wait, Finish: func() *wire.Response { return text(req, "answer") }}
		})
		client, idle := server.dial(), server.dial()
		client.send(request(1), request(2))
		synctest.Wait()
		server.cancel()
		began := time.Now()
		idle.expectClosed() // nothing is owed on it
		if took := time.Since(began); took > time.Second {
			t.Errorf("the idle connection was closed after %v", took)
		}
		if _, err := memory.Dial(t.Context(), server.address); err == nil {
			t.Error("a connection was accepted after the stop")
		}
		client.expect(1)
		client.expect(2)
		client.expectClosed()
		<-server.ended
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}

func TestAStopWakesLongPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			return wire.Reply{Wait: req.Conn.Draining, Finish: func() *wire.Response { return text(req, "what there is") }}
		})
		client := server.dial()
		client.send(request(1))
		synctest.Wait()
		began := time.Now()
		server.cancel()
		client.expect(1)
		<-server.ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}

func TestAStopReadsNoFurtherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		gate := make(chan struct{})
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			handled.Add(1)
			<-gate
			return wire.Reply{Response: text(req, "answer")}
		})
		client := server.dial()
		client.send(request(1), request(2), request(3)[:10])
		synctest.Wait()
		server.cancel()
		synctest.Wait()
		close(gate)
		client.expect(1)
		client.expectClosed()
		if handled.Load() != 1 {
			t.Errorf("%d requests were handled", handled.Load())
		}
	})
}

func TestAStopIsBoundedByTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancelled atomic.Int64
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			return wire.Reply{
				Wait:   make(chan struct{}), // for ever
				Finish: func() *wire.Response { return text(req, "never") },
				Cancel: func() { cancelled.Add(1) },
			}
		}, func(c *Config) { c.GracePeriod = 7 * time.Second })
		client := server.dial()
		client.send(request(1), request(2))
		synctest.Wait()
		began := time.Now()
		server.cancel()
		<-server.ended
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if cancelled.Load() != 2 {
			t.Errorf("%d replies were cancelled", cancelled.Load())
		}
		client.expectClosed()
	})
}

func TestAStopDoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var references counted
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			return wire.Reply{Response: chunks(req.CorrelationID,
				wire.Chunk{Bytes: make([]byte, 8<<20), Hold: references.hold()})}
		}, func(c *Config) { c.GracePeriod = 7 * time.Second })
		client := server.dial()
		client.send(request(1))
		synctest.Wait()
		began := time.Now()
		server.cancel()
		<-server.ended
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the stop took %v", took)
		}
		references.check(t)
	})
}

// A client that pipelines loses no answer it was owed because the server closes with requests unread in the socket.
func TestAnswersSurviveACloseWithUnreadRequests(t *testing.T) {
	for range 20 {
		server := start(t, network.TCP(), func(_ context.Context, req *wire.Request) wire.Reply {
			reply := wire.Reply{Response: text(req, "answer")}
			if req.CorrelationID == 5 {
				reply.Close = errTest
			}
			return reply
		})
		client := server.dial()
		var all []byte
		for i := range int32(200) {
			all = append(all, request(i)...)
		}
		client.send(all)
		for i := range int32(6) {
			client.expect(i)
		}
		client.expectClosed()
		_ = client.Close()
		server.stop()
	}
}

func TestAServerThatNeverRanCanBeClosed(t *testing.T) {
	s := New(discard(), newRegistry(), network.TCP(), Defaults(), echo)
	address, err := s.Listen(t.Context(), "PLAINTEXT", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if conn, err := network.TCP().Dial(t.Context(), address.String()); err == nil {
		_ = conn.Close()
		t.Error("the listener is still open")
	}
	if _, err := s.Listen(t.Context(), "PLAINTEXT", "127.0.0.1:0"); err == nil {
		t.Error("a closed server listens")
	}
}

func TestConfigIsValidated(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for name, change := range map[string]func(*Config){
		"no request allowed":     func(c *Config) { c.MaxRequestBytes = 0 },
		"no connection allowed":  func(c *Config) { c.MaxConnections = 0 },
		"negative per address":   func(c *Config) { c.MaxConnectionsPerIP = -1 },
		"negative override":      func(c *Config) { c.MaxConnectionsPerIPOverrides = map[string]int{"::1": -1} },
		"no reply in flight":     func(c *Config) { c.MaxInFlightReplies = 0 },
		"no byte in flight":      func(c *Config) { c.MaxInFlightBytes = 0 },
		"no time to be idle":     func(c *Config) { c.IdleTimeout = 0 },
		"no time for a request":  func(c *Config) { c.FrameTimeout = 0 },
		"negative grace period":  func(c *Config) { c.GracePeriod = -1 },
		"negative pooled memory": func(c *Config) { c.MaxPooledBytes = -1 },
	} {
		config := Defaults()
		change(&config)
		if config.Validate() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
