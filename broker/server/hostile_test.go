package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
)

func lengthPrefix(length uint32, rest ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), rest...)
}

// PR-01: a length prefix alone must not cost memory, and bad ones close the connection at once.
func TestPR01LengthsOutOfBoundsCloseTheConnectionBeforeAnythingIsReserved(t *testing.T) {
	server := start(t, network.TCP(), echo)
	lengths := []uint32{0xffffffff, 0, 3, 7, 0x7fffffff, 0x80000000, 100<<20 + 1}
	var clients []*client
	for i := range 200 {
		client := server.dial()
		client.send(lengthPrefix(lengths[i%len(lengths)], []byte("0123456789")...))
		clients = append(clients, client)
	}
	for _, client := range clients {
		client.expectClosed()
	}
	if idle := server.pool.IdleBytes(); idle != 0 {
		t.Errorf("%d bytes were reserved", idle)
	}
	if got := testutil.ToFloat64(server.metrics.frameSize); got != 200 {
		t.Errorf("%v connections were counted", got)
	}
	client := server.dial()
	client.send(request(1))
	client.expect(1)
}

// PR-01: a length that is allowed, claimed by many who send next to nothing.
func TestPR01ClaimsOfLargeFramesReserveNextToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t, network.NewMemory(), echo)
		var clients []*client
		for range 200 {
			client := server.dial()
			client.send(lengthPrefix(100<<20, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0))
			clients = append(clients, client)
		}
		synctest.Wait()
		if got := server.pool.InUseBytes(); got > 200*firstStep {
			t.Errorf("%d bytes are reserved for 200 claims", got)
		}
		other := server.dial()
		other.send(request(1))
		other.expect(1)
		for _, client := range clients { // each is closed after FrameTimeout
			client.expectClosed()
		}
		if got := testutil.ToFloat64(server.metrics.timeout); got != 200 {
			t.Errorf("%v time-outs were counted", got)
		}
	})
}

func TestGrowingFramesTakeMemoryAsTheirBytesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t, network.NewMemory(), echo)
		client := server.dial()
		const size = 20 << 20
		frame := requestOf(wire.KeyProduce, 9, 1, make([]byte, size)...)
		sent := 0
		for _, step := range []struct{ sent, reserved int }{
			{2 << 10, 4 << 10}, {5 << 10, 128 << 10}, {200 << 10, 4 << 20}, {5 << 20, len(frame) + wire.PrefixSize}, // and what may come of the next frame
		} {
			client.send(frame[sent:step.sent])
			sent = step.sent
			synctest.Wait()
			if got := server.pool.InUseBytes(); got > int64(step.reserved) {
				t.Errorf("after %d bytes %d are reserved, want at most %d", sent, got, step.reserved)
			}
		}
		client.send(frame[sent:])
		client.expect(1)
	})
}

func TestGarbageClosesTheConnection(t *testing.T) {
	server := start(t, network.TCP(), echo)
	random := rand.New(rand.NewPCG(7, 7))
	noise := make([]byte, 100)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for name, garbage := range map[string][]byte{
		"an HTTP request":                         []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"a TLS greeting":                          {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc},
		"noise":                                   append([]byte{0x7f}, noise...),
		"an unknown API key":                      requestOf(999, 0, 1),
		"an internal API":                         requestOf(4, 0, 1),
		"Produce version 0, as PR-07 wants":       requestOf(wire.KeyProduce, 0, 1, make([]byte, 50)...),
		"PR-04 a client id of length -7530":       lengthPrefix(12, 0, 3, 0, 1, 0, 0, 0, 1, 0xe2, 0x96, 0, 0),
		"PR-04 a client id past the frame":        lengthPrefix(12, 0, 3, 0, 1, 0, 0, 0, 1, 0x10, 0, 0, 0),
		"a DescribeCluster request of a megabyte": requestOf(wire.KeyDescribeCluster, 0, 1, make([]byte, 1<<20)...),
	} {
		t.Run(name, func(t *testing.T) {
			client := server.dial()
			_, _ = client.Write(garbage) // may fail half-way: the server does not read it all
			client.expectClosed()
		})
	}
	client := server.dial()
	client.send(request(1))
	client.expect(1)
}

func TestFrameSizeErrorsGuessWhoIsAsking(t *testing.T) {
	for prefix, want := range map[string]string{
		"GET ": "HTTP", "POST": "HTTP", "\x16\x03\x01\x02": "TLS", "\x7f\xff\xff\xff": "",
	} {
		err := &frameSizeError{int32(binary.BigEndian.Uint32([]byte(prefix))), 100}
		guessed := err.Error()
		if !strings.Contains(guessed, want) || (want == "") == strings.Contains(guessed, "is this") {
			t.Errorf("%q: %s", prefix, guessed)
		}
	}
}

// PR-06: what follows a request that is refused is not taken for a request.
func TestPR06RequestsBehindAnUnsupportedOneAreNotRead(t *testing.T) {
	var handled atomic.Int64
	server := start(t, network.TCP(), func(ctx context.Context, req *wire.Request) wire.Reply {
		handled.Add(1)
		return echo(ctx, req)
	})
	client := server.dial()
	unsupported := requestOf(wire.KeyMetadata, 200, 2, requestOf(wire.KeyApiVersions, 0, 3)...)
	client.send(append(append(request(1), unsupported...), requestOf(wire.KeyApiVersions, 0, 4)...))
	client.expect(1)
	client.expectClosed()
	if handled.Load() != 1 {
		t.Errorf("%d requests were handled", handled.Load())
	}
	if got := testutil.ToFloat64(server.metrics.unsupportedVersion); got != 1 {
		t.Errorf("%v were counted", got)
	}
}

func TestApiVersionsOfTheFutureIsAnsweredAndTheConnectionStays(t *testing.T) {
	server := start(t, network.TCP(), echo)
	client := server.dial()
	client.send(requestOf(wire.KeyApiVersions, 77, 1, 0xff, 0xff, 0xff), request(2))
	body := client.expect(1)
	if code := int16(binary.BigEndian.Uint16(body)); code != 35 {
		t.Errorf("error code %d", code)
	}
	client.expect(2)
}

func TestSlowRequestsAreCutOff(t *testing.T) {
	for name, test := range map[string]struct {
		pause time.Duration
		data  []byte
		cut   bool
	}{
		"a byte every 20 s of a small request":         {20 * time.Second, request(1), true},
		"a pause of 40 s":                              {40 * time.Second, request(1), true},
		"a request that comes in pieces within limits": {time.Second, request(1), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := start(t, network.NewMemory(), echo)
				client := server.dial()
				for _, b := range test.data {
					if _, err := client.Write([]byte{b}); err != nil {
						break
					}
					time.Sleep(test.pause)
				}
				if test.cut {
					client.expectClosed()
				} else {
					client.expect(1)
				}
			})
		})
	}
}

func TestLargeRequestsMayTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t, network.NewMemory(), echo)
		client := server.dial()
		frame := requestOf(wire.KeyProduce, 9, 1, make([]byte, 2<<20)...)
		for len(frame) > 0 { // 100 kB every ten seconds: three minutes and a half
			n := min(100_000, len(frame))
			client.send(frame[:n])
			frame = frame[n:]
			time.Sleep(10 * time.Second)
		}
		client.expect(1)
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		server := start(t, network.NewMemory(), func(ctx context.Context, req *wire.Request) wire.Reply {
			if req.CorrelationID == 100 {
				return wire.Reply{Wait: wait, Response: text(req, "late")}
			}
			return echo(ctx, req)
		})
		silent, active, waiting := server.dial(), server.dial(), server.dial()
		began := time.Now()
		waiting.send(request(100))
		done := make(chan struct{})
		go func() { // active for 25 minutes
			defer close(done)
			for i := range int32(5) {
				time.Sleep(5 * time.Minute)
				active.send(request(i))
				active.expect(i)
			}
		}()
		var b [1]byte
		if _, err := silent.Read(b[:]); err == nil {
			t.Error("a byte on the silent connection")
		}
		if took := time.Since(began); took < 10*time.Minute || took > 10*time.Minute+time.Second {
			t.Errorf("the silent connection was closed after %v", took)
		}
		<-done
		if _, err := active.Read(b[:]); err == nil {
			t.Error("a byte on the active connection")
		}
		if took := time.Since(began); took < 35*time.Minute || took > 35*time.Minute+time.Second {
			t.Errorf("the active connection was closed after %v", took)
		}
		// Whoever waits for an answer is not idle, however long it takes.
		close(wait)
		waiting.expect(100)
	})
}

func TestClientsThatDoNotTakeTheirAnswersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var references counted
		big := make([]byte, 8<<20)
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			return wire.Reply{Response: chunks(req.CorrelationID, wire.Chunk{Bytes: big, Hold: references.hold()})}
		})
		client := server.dial()
		client.send(request(1), request(2))
		time.Sleep(25 * time.Minute)
		if got := server.open(); got != 0 {
			t.Errorf("%v connections are open", got)
		}
		references.check(t)
	})
}

func TestConnectionsThatComeAndGoLeaveNothing(t *testing.T) {
	server := start(t, network.TCP(), echo)
	var dialling sync.WaitGroup
	for range 10 {
		dialling.Go(func() {
			for i := range 100 {
				conn, err := network.TCP().Dial(t.Context(), server.address)
				if err != nil {
					t.Error(err)
					return
				}
				if i%3 == 0 { // some send half a request
					_, _ = conn.Write(request(1)[:7])
				}
				if i%2 == 0 { // and some leave without a farewell
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				_ = conn.Close()
			}
		})
	}
	dialling.Wait()
	server.stop() // which checks that nothing is left
}

// SE-17: connections whose clients are gone are given up, with and without a FIN.
func TestSE17ConnectionsOfClientsThatAreGoneAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := network.NewMemory()
		server := start(t, memory.Host("broker"), echo)
		for i := range 100 {
			if c := server.dialFrom(memory, "far"); i%2 == 0 {
				_ = c.Close()
			}
		}
		synctest.Wait()
		if got := server.open(); got != 50 {
			t.Errorf("%v connections are open after half of the clients closed theirs", got)
		}
		memory.Partition("far", "broker") // the others vanish without a word
		time.Sleep(11 * time.Minute)
		if got := server.open(); got != 0 {
			t.Errorf("%v connections are open", got)
		}
	})
}

// SE-14: slots of an address are given back however a connection ends.
func TestSE14SlotsOfAnAddressDoNotLeak(t *testing.T) {
	server := start(t, network.TCP(), echo, func(c *Config) { c.MaxConnectionsPerIP = 5 })
	for round := range 100 {
		var clients []*client
		for i := range int32(5) {
			client := server.dialUntilServed(i)
			clients = append(clients, client)
		}
		sixth := server.dial()
		sixth.expectClosed()
		for i, client := range clients {
			if (round+i)%2 == 0 {
				_ = client.Conn.(*net.TCPConn).SetLinger(0)
			}
			_ = client.Close()
		}
	}
	if got := testutil.ToFloat64(server.metrics.refused); got < 100 {
		t.Errorf("%v connections were refused", got)
	}
}

// dialUntilServed connects and makes sure that the connection was admitted: the slots of connections just closed may
// take a moment to come back.
func (r *running) dialUntilServed(correlationID int32) *client {
	r.t.Helper()
	for range 1000 {
		c := r.dial()
		if _, err := c.Write(request(correlationID)); err == nil {
			if _, err := c.frame(); err == nil {
				return c
			}
		}
		_ = c.Close()
	}
	r.t.Fatal("no connection was admitted")
	return nil
}

func TestOverridesReplaceTheBoundOfAnAddress(t *testing.T) {
	memory := network.NewMemory()
	server := start(t, memory.Host("broker"), echo, func(c *Config) {
		c.MaxConnectionsPerIP, c.MaxConnectionsPerIPOverrides = 0, map[string]int{"friend": 2}
	})
	for _, test := range []struct {
		host     string
		admitted bool
	}{{"friend", true}, {"friend", true}, {"friend", false}, {"stranger", false}} {
		c := server.dialFrom(memory, test.host)
		if !test.admitted {
			c.expectClosed()
			continue
		}
		c.send(request(1))
		c.expect(1)
	}
}

func TestConnectionsBeyondTheBoundOfAllWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := start(t, network.NewMemory(), echo, func(c *Config) { c.MaxConnections = 2 })
		first, second, third := server.dial(), server.dial(), server.dial()
		for _, c := range []*client{first, second, third} {
			c.send(request(1))
		}
		first.expect(1)
		second.expect(1)
		synctest.Wait()
		_ = third.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := third.frame(); err == nil {
			t.Error("the third connection was served")
		}
		_ = third.SetReadDeadline(time.Time{})
		_ = first.Close()
		third.expect(1)
	})
}

// scarce is a network whose listener fails a few times, as it does when descriptors run out.
type scarce struct {
	network.Network
	failures atomic.Int64
}

type scarceListener struct {
	net.Listener
	network *scarce
}

func (s *scarce) Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := s.Network.Listen(ctx, address)
	return &scarceListener{l, s}, err
}

func (l *scarceListener) Accept() (net.Conn, error) {
	if l.network.failures.Add(-1) >= 0 {
		return nil, fmt.Errorf("accept: %w", syscall.EMFILE)
	}
	return l.Listener.Accept()
}

func TestALackOfDescriptorsIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := &scarce{Network: network.NewMemory()}
		on.failures.Store(10)
		began := time.Now()
		server := start(t, on, echo)
		client := server.dial()
		client.send(request(1))
		client.expect(1)
		if waited := time.Since(began); waited < time.Second || waited > 10*time.Second {
			t.Errorf("ten failures were waited out in %v", waited)
		}
		if got := testutil.ToFloat64(server.metrics.acceptErrors); got != 10 {
			t.Errorf("%v failures were counted", got)
		}
	})
}

func TestAListenerThatClosesByItselfEndsTheServer(t *testing.T) {
	server := start(t, network.TCP(), echo)
	_ = server.listeners[0].Listener.Close()
	<-server.ended
	if !errors.Is(server.err, net.ErrClosed) {
		t.Errorf("Run returned %v", server.err)
	}
	server.err = nil
}

func TestLogLinesThatClientsProvokeAreBounded(t *testing.T) {
	var limiter logLimiter
	now := time.Unix(1000, 0)
	lines := 0
	for range 1000 {
		if allowed, _ := limiter.allow(now); allowed {
			lines++
		}
	}
	if lines != maxLinesPerSecond {
		t.Errorf("%d lines in one second", lines)
	}
	allowed, suppressed := limiter.allow(now.Add(time.Second))
	if !allowed || suppressed != 1000-maxLinesPerSecond {
		t.Errorf("a second later: allowed %v, %d suppressed", allowed, suppressed)
	}
}
