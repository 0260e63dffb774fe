package server

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/firnlog/firn/internal/network"
)

func TestBoundsOnConnectionsChangeWhileTheServerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := network.NewMemory()
		server := start(t, memory.Host("broker"), echo, func(c *Config) { c.MaxConnections = 1 })
		first, second := server.dialFrom(memory, "friend"), server.dialFrom(memory, "friend")
		for _, c := range []*client{first, second} {
			c.send(request(1))
		}
		first.expect(1)
		synctest.Wait() // the second waits to be admitted
		server.SetConnectionLimits(ConnectionLimits{
			MaxConnections: 5, MaxConnectionsPerIP: math.MaxInt32, MaxConnectionCreationRate: math.MaxInt32,
		})
		second.expect(1)

		server.SetConnectionLimits(ConnectionLimits{
			MaxConnections: 5, MaxConnectionsPerIP: 0, MaxConnectionsPerIPOverrides: map[string]int{"friend": 2},
			MaxConnectionCreationRate: math.MaxInt32,
		})
		server.dialFrom(memory, "stranger").expectClosed()
		server.dialFrom(memory, "friend").expectClosed()
		first.send(request(2)) // who was there before stays
		first.expect(2)
	})
}
