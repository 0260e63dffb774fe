package server

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
)

// endless is a connection that yields the same bytes again and again.
type endless struct {
	net.Conn
	data   []byte
	unread []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.unread) == 0 {
		e.unread = e.data
	}
	n := copy(p, e.unread)
	e.unread = e.unread[n:]
	return n, nil
}

func (e *endless) Write(p []byte) (int, error) { return len(p), nil }

func (e *endless) SetReadDeadline(time.Time) error  { return nil }
func (e *endless) SetWriteDeadline(time.Time) error { return nil }
func (e *endless) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (e *endless) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

func produceFrame(recordsSize int) []byte {
	body := kmsg.NewPtrProduceRequest()
	body.SetVersion(9)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "topic"
	for i := range int32(4) {
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition, partition.Records = i, make([]byte, recordsSize/4)
		topic.Partitions = append(topic.Partitions, partition)
	}
	body.Topics = append(body.Topics, topic)
	return requestOf(wire.KeyProduce, 9, 1, body.AppendTo(nil)...)
}

// A request costs its handle and its buffer's handle, whatever its size; the handler here looks at every partition.
func TestReadingARequestAllocatesAFixedNumberOfTimes(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of the program under the race detector")
	}
	response := func(req *wire.Request) *wire.Response { return text(req, "answer") }
	for _, size := range []int{100, 16 << 10, 1 << 20, 3 << 20} {
		seen := 0
		s := New(discard(), newRegistry(), network.NewMemory(), Defaults(),
			func(_ context.Context, req *wire.Request) wire.Reply {
				view, err := wire.ParseProduce(req.Version, req.Body)
				if err != nil {
					t.Error(err)
				}
				for topics := view.Topics(); topics.Next(); {
					for partitions := topics.Partitions(); partitions.Next(); {
						seen += len(partitions.Records())
					}
				}
				return wire.Reply{Response: response(req)}
			})
		c := newConnection(t.Context(), s, "PLAINTEXT", &endless{data: produceFrame(size)})
		one := func() {
			f, err := c.frames.next()
			if err == nil {
				err = c.handle(f)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ofTheAnswer := testing.AllocsPerRun(100, func() { response(&wire.Request{}).Release() })
		allocations := testing.AllocsPerRun(100, one) - ofTheAnswer
		// The request and the handle of its buffer; large frames take two buffers more on the way.
		if limit := 4.0; allocations > limit {
			t.Errorf("%d bytes: %v allocations", size, allocations)
		}
		if seen == 0 {
			t.Error("the handler saw no records")
		}
		c.cancel()
	}
}

// BenchmarkServing is what the server itself costs: a request is read, handed to a handler that does nothing, counted
// and answered, without a network.
func BenchmarkServing(b *testing.B) {
	s := New(discard(), newRegistry(), network.NewMemory(), Defaults(),
		func(_ context.Context, req *wire.Request) wire.Reply {
			return wire.Reply{Response: wire.EncodeProduceResponse(9, req.CorrelationID, &wire.ProduceResponse{})}
		})
	c := newConnection(b.Context(), s, "PLAINTEXT", &endless{data: produceFrame(100)})
	defer c.cancel()
	b.ReportAllocs()
	for b.Loop() {
		f, err := c.frames.next()
		if err == nil {
			err = c.handle(f)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProduceRequests(b *testing.B) {
	for name, size := range map[string]int{"16 KiB": 16 << 10, "1 MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			server := start(b, network.TCP(), echo)
			client := server.dial()
			frame := produceFrame(size)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				client.send(frame)
				client.expect(1)
			}
		})
	}
}

func BenchmarkFetchBySendfile(b *testing.B) {
	s := newSegment(b, 64<<20)
	for name, size := range map[string]int64{"64 KiB": 64 << 10, "1 MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			var references counted
			server := start(b, network.TCP(), regionServer(s, &references, [][2]int64{{1 << 20, size}}))
			client := server.dial()
			sink := make([]byte, 8+2+size)
			ask := request(0)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				client.send(ask)
				for filled := 0; filled < len(sink); {
					n, err := client.Read(sink[filled:])
					if err != nil {
						b.Fatal(err)
					}
					filled += n
				}
			}
			if !bytes.Equal(sink[9:100], s.data[1<<20:1<<20+91]) {
				b.Error("other bytes arrived")
			}
		})
	}
}
