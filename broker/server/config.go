package server

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config sets the server's limits. Each field names the broker setting it comes from, where Kafka has one.
type Config struct {
	// MaxRequestBytes is the largest frame accepted (socket.request.max.bytes, 100 MiB).
	MaxRequestBytes int32
	// ConnectionLimits bound how many connections there are; Server.SetConnectionLimits changes them later.
	ConnectionLimits
	// MaxInFlightReplies is how many requests of one connection may wait for their answer before the next is read (15).
	MaxInFlightReplies int
	// MaxInFlightBytes bounds the memory of all requests being read or handled, and, apart from that, of all answers
	// waiting to be sent (queued.max.request.bytes; 1 GiB each). At the bound, reading or handling waits.
	MaxInFlightBytes int64
	// MaxInFlightBytesPerConnection is the same for the waiting answers of one connection (128 MiB).
	MaxInFlightBytesPerConnection int64
	// MaxPooledBytes bounds the idle memory kept for coming requests (64 MiB).
	MaxPooledBytes int64
	// IdleTimeout closes a connection on which nothing moves (connections.max.idle.ms, 10 min), also one whose client does
	// not take what it is owed.
	IdleTimeout time.Duration
	// FrameTimeout is how long a request that has begun may pause before the rest of it comes, and how long a client may
	// take nothing of an answer that holds memory (30 s).
	FrameTimeout time.Duration
	// GracePeriod bounds how long a stop waits for requests in flight (30 s).
	GracePeriod time.Duration
	// SendBuffer and ReceiveBuffer are the sockets' buffer sizes in bytes (socket.send.buffer.bytes,
	// socket.receive.buffer.bytes); −1 leaves them to the operating system.
	SendBuffer    int
	ReceiveBuffer int
}

// ConnectionLimits bound how many connections there are.
type ConnectionLimits struct {
	// MaxConnections bounds the connections of all listeners (max.connections, unlimited). At the bound new ones wait to
	// be accepted.
	MaxConnections int
	// MaxConnectionsPerIP bounds those of one address (max.connections.per.ip, unlimited); more are closed at once.
	MaxConnectionsPerIP int
	// MaxConnectionsPerIPOverrides replaces that bound for some addresses (max.connections.per.ip.overrides).
	MaxConnectionsPerIPOverrides map[string]int
	// MaxConnectionCreationRate bounds how many connections of all listeners are accepted a second
	// (max.connection.creation.rate, unlimited); more wait to be accepted.
	MaxConnectionCreationRate int
}

// Defaults returns a configuration that serves.
func Defaults() Config {
	return Config{
		MaxRequestBytes: 100 << 20,
		ConnectionLimits: ConnectionLimits{
			MaxConnections: math.MaxInt32, MaxConnectionsPerIP: math.MaxInt32, MaxConnectionCreationRate: math.MaxInt32,
		},
		MaxInFlightReplies:            15, // three times the clients' default of 5
		MaxInFlightBytes:              1 << 30,
		MaxInFlightBytesPerConnection: 128 << 20,
		MaxPooledBytes:                64 << 20,
		IdleTimeout:                   10 * time.Minute,
		FrameTimeout:                  30 * time.Second,
		GracePeriod:                   30 * time.Second,
		SendBuffer:                    -1,
		ReceiveBuffer:                 -1,
	}
}

// Validate names the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.MaxRequestBytes < 1:
		return errors.New("the largest request must have at least one byte")
	case c.MaxConnections < 1 || c.MaxConnectionsPerIP < 0:
		return errors.New("the bounds on connections must not be negative, and at least one must be allowed")
	case c.MaxInFlightReplies < 1:
		return errors.New("at least one request per connection must be allowed in flight")
	case c.MaxInFlightBytes < 1 || c.MaxInFlightBytesPerConnection < 1 || c.MaxPooledBytes < 0:
		return errors.New("the bounds on memory in flight must be positive")
	case c.IdleTimeout <= 0 || c.FrameTimeout <= 0 || c.GracePeriod < 0:
		return errors.New("time-outs must be positive")
	}
	for address, limit := range c.MaxConnectionsPerIPOverrides {
		if limit < 0 {
			return fmt.Errorf("the bound on connections of %s must not be negative", address)
		}
	}
	return nil
}
