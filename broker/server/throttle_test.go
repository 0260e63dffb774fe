package server

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
)

// throttling answers each request at once, or from the writer if its number is even, and tells the client to wait for
// half a minute.
func throttling(handled *atomic.Int64) Dispatch {
	return func(_ context.Context, req *wire.Request) wire.Reply {
		handled.Add(1)
		correlationID := req.CorrelationID
		answer := func() *wire.Response {
			return wire.EncodeProduceResponse(9, correlationID, &wire.ProduceResponse{ThrottleMs: 30_000})
		}
		if correlationID%2 == 1 {
			return wire.Reply{Response: answer()}
		}
		return wire.Reply{Finish: answer}
	}
}

// KIP-219: the answer goes out at once and tells how long to wait; nobody gains by not waiting.
func TestAConnectionIsMutedForAsLongAsItsClientWasToldToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		memory := network.NewMemory()
		server := start(t, memory, throttling(&handled))
		client, other := server.dial(), server.dial()
		began := time.Now()
		for i := int32(1); i <= 4; i++ { // the first is answered by the reader, the next by the writer, and so on
			client.send(request(i))
			client.expect(i)
			if waited := time.Since(began); waited != time.Duration(i-1)*30*time.Second {
				t.Errorf("answer %d came after %v", i, waited)
			}
			synctest.Wait()
		}
		other.send(request(1))
		other.expect(1)
		if waited := time.Since(began); waited != 90*time.Second {
			t.Errorf("the other connection had its answer after %v", waited)
		}
		synctest.Wait() // an answer is counted when it has gone out
		if got := server.metrics.byAPI[wire.KeyMetadata].throttle.sum.Load(); got != 5*30_000_000 {
			t.Errorf("%d µs of throttling were counted", got)
		}
	})
}

func TestAMutedConnectionIsNotIdleAndStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		server := start(t, network.NewMemory(), throttling(&handled), func(c *Config) { c.IdleTimeout = 10 * time.Second })
		client := server.dial()
		client.send(request(1))
		client.expect(1)
		time.Sleep(31 * time.Second) // longer than it may be idle
		client.send(request(2))
		client.expect(2)
		began := time.Now()
		server.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}

func TestAMutedConnectionWhoseClientHasGoneIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		server := start(t, network.NewMemory(), throttling(&handled))
		client := server.dial()
		client.send(request(1), request(2), request(3))
		client.expect(1)
		_ = client.Close()
		time.Sleep(time.Minute)
		if got := server.open(); got != 0 {
			t.Errorf("%v connections are open", got)
		}
	})
}

func TestConnectionsAreAcceptedAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t, network.NewMemory(), echo, func(c *Config) { c.MaxConnectionCreationRate = 10 })
		began := time.Now()
		for i := range int32(50) {
			client := server.dial()
			client.send(request(i))
			client.expect(i)
		}
		// The first ten come out of what was saved up in the second before.
		if took := time.Since(began); took < 4*time.Second || took > 4100*time.Millisecond {
			t.Errorf("50 connections took %v", took)
		}
		last := server.dial()
		server.SetConnectionLimits(ConnectionLimits{
			MaxConnections: 1000, MaxConnectionsPerIP: 1000, MaxConnectionCreationRate: 0,
		})
		time.Sleep(time.Minute)
		if got := server.open(); got != 50 && got != 51 {
			t.Errorf("%v connections are open at a rate of 0", got)
		}
		server.SetConnectionLimits(ConnectionLimits{
			MaxConnections: 1000, MaxConnectionsPerIP: 1000, MaxConnectionCreationRate: math.MaxInt32,
		})
		last.send(request(1))
		last.expect(1)
	})
}
