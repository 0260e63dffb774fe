package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server under test.
type running struct {
	*Server
	t        testing.TB
	registry *prometheus.Registry
	network  network.Network
	address  string
	cancel   context.CancelFunc
	ended    chan struct{}
	err      error
}

// start runs a server with one listener until the test ends. Configure changes the defaults.
func start(t testing.TB, on network.Network, dispatch Dispatch, configure ...func(*Config)) *running {
	t.Helper()
	return startOn(t, on, "127.0.0.1:0", dispatch, configure...)
}

func startOn(
	t testing.TB, on network.Network, listenOn string, dispatch Dispatch, configure ...func(*Config),
) *running {
	t.Helper()
	config := Defaults()
	for _, change := range configure {
		change(&config)
	}
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	registry := newRegistry()
	s := New(discard(), registry, on, config, dispatch)
	ctx, cancel := context.WithCancel(t.Context())
	address, err := s.Listen(ctx, "PLAINTEXT", listenOn)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, t: t, registry: registry, network: on, address: address.String(), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = s.Run(ctx)
	}()
	t.Cleanup(func() { r.stop() })
	return r
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }

// stop ends the server and checks that nothing is left of it.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	<-r.ended
	if r.err != nil {
		r.t.Errorf("Run returned %v", r.err)
	}
	if inUse := r.pool.InUseBytes(); inUse != 0 {
		r.t.Errorf("%d bytes of pooled memory were not given back", inUse)
	}
	if len(r.connections) != 0 || len(r.slots.byAddress) != 0 {
		r.t.Errorf("%d connections and %d addresses are left", len(r.connections), len(r.slots.byAddress))
	}
	if used := r.requests.used.Load() + r.answers.used.Load(); used != 0 {
		r.t.Errorf("%d bytes in flight were not given back", used)
	}
	if open := r.open(); open != 0 {
		r.t.Errorf("the gauge shows %v connections", open)
	}
}

// open is how many connections the gauge shows.
func (r *running) open() float64 { return testutil.ToFloat64(r.metrics.listener("PLAINTEXT").open) }

// client is a bare connection to the server.
type client struct {
	net.Conn
	t testing.TB
}

func (r *running) dial() *client {
	r.t.Helper()
	conn, err := r.network.Dial(r.t.Context(), r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, r.t}
}

// dialFrom connects from another host of a memory network.
func (r *running) dialFrom(memory *network.Memory, host string) *client {
	r.t.Helper()
	conn, err := memory.Host(host).Dial(r.t.Context(), r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, r.t}
}

// request builds a Metadata v1 request for all topics: any request does, what it means is up to the dispatch function.
func request(correlationID int32) []byte {
	return requestOf(wire.KeyMetadata, 1, correlationID, 0xff, 0xff, 0xff, 0xff)
}

func requestOf(key, version int16, correlationID int32, body ...byte) []byte {
	b := make([]byte, 4)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlationID))
	b = append(b, 0, 1, 'c')
	if api, ok := wire.LookupAPI(key); ok && api.Flexible(version) {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (c *client) send(data ...[]byte) {
	c.t.Helper()
	for _, d := range data {
		if _, err := c.Write(d); err != nil {
			c.t.Fatal(err)
		}
	}
}

// receive reads one response and returns its correlation id and body.
func (c *client) receive() (correlationID int32, body []byte) {
	c.t.Helper()
	frame, err := c.frame()
	if err != nil {
		c.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(frame)), frame[4:]
}

func (c *client) frame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c, frame)
	return frame, err
}

// expect reads one response and checks which request it answers.
func (c *client) expect(correlationID int32) []byte {
	c.t.Helper()
	got, body := c.receive()
	if got != correlationID {
		c.t.Fatalf("the answer is for request %d, want %d", got, correlationID)
	}
	return body
}

// expectClosed checks that the server closes the connection without another byte.
func (c *client) expectClosed() {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		c.t.Fatal(err)
	}
	var b [1]byte
	n, err := c.Read(b[:])
	if n != 0 || err == nil {
		c.t.Fatalf("got a byte (%x), the connection should be closed", b[:n])
	}
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		c.t.Fatal("the connection stays open")
	}
}

// text is an answer whose body is some text.
func text(req *wire.Request, body string) *wire.Response {
	return chunks(req.CorrelationID, wire.Chunk{Bytes: []byte(body)})
}

// chunks is an answer made of chunks.
func chunks(correlationID int32, body ...wire.Chunk) *wire.Response {
	size := int64(4)
	for _, chunk := range body {
		size += chunk.Size()
	}
	header := binary.BigEndian.AppendUint32(nil, uint32(size))
	header = binary.BigEndian.AppendUint32(header, uint32(correlationID))
	response := wire.NewResponse()
	response.AppendChunk(wire.Chunk{Bytes: header})
	for _, chunk := range body {
		response.AppendChunk(chunk)
	}
	return response
}

// echo answers each request at once with its API key and version.
func echo(_ context.Context, req *wire.Request) wire.Reply {
	if req.UnsupportedVersion {
		body := kmsg.NewPtrApiVersionsResponse()
		body.ErrorCode = 35
		return wire.Reply{Response: wire.EncodeResponse(0, req.CorrelationID, body)}
	}
	return wire.Reply{Response: text(req, fmt.Sprintf("%d/%d", req.Key, req.Version))}
}

// counted counts the references on something: held ones and those given back.
type counted struct{ held, released atomic.Int64 }

func (c *counted) hold() *counted {
	c.held.Add(1)
	return c
}

func (c *counted) Release() { c.released.Add(1) }

func (c *counted) check(t testing.TB) {
	t.Helper()
	if held, released := c.held.Load(), c.released.Load(); held != released {
		t.Errorf("%d references were taken, %d given back", held, released)
	}
}

func tempFile(t testing.TB, data []byte) string {
	t.Helper()
	name := t.TempDir() + "/segment"
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
