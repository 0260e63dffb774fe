package server

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/internal/vfs"
)

// segment is a file of random bytes and what is in it.
type segment struct {
	file vfs.File
	data []byte
}

func newSegment(t testing.TB, size int) segment {
	data := make([]byte, size)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	file, err := vfs.OS().Open(tempFile(t, data))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return segment{file, data}
}

func (s segment) chunk(position, size int64, hold vfs.Holder) wire.Chunk {
	return wire.Chunk{Region: vfs.NewRegion(s.file, position, size, hold)}
}

// regionServer answers request n with region n of the table between two markers.
func regionServer(s segment, references *counted, regions [][2]int64) Dispatch {
	return func(_ context.Context, req *wire.Request) wire.Reply {
		region := regions[req.CorrelationID]
		return wire.Reply{Response: chunks(req.CorrelationID,
			wire.Chunk{Bytes: []byte("<")}, s.chunk(region[0], region[1], references.hold()), wire.Chunk{Bytes: []byte(">")})}
	}
}

func (s segment) check(t testing.TB, body []byte, region [2]int64) {
	t.Helper()
	want := append([]byte("<"), s.data[region[0]:region[0]+region[1]]...)
	if !bytes.Equal(body, append(want, '>')) {
		t.Errorf("region %v arrived as other bytes", region)
	}
}

func TestRegionsOnPlainTCPAreSentWithoutBeingRead(t *testing.T) {
	s := newSegment(t, 10<<20)
	regions := [][2]int64{{0, 1 << 20}, {12345, 4<<20 + 17}, {9 << 20, 1 << 20}, {5, smallRegion + 1}}
	var references counted
	server := start(t, network.TCP(), regionServer(s, &references, regions))
	client := server.dial()
	total := int64(0)
	for i, region := range regions {
		client.send(request(int32(i)))
		s.check(t, client.expect(int32(i)), region)
		total += region[1]
	}
	_ = client.Close()
	server.stop()
	if got := testutil.ToFloat64(server.metrics.listener("PLAINTEXT").bytesSendfile); got != float64(total) && sendfileSupported {
		t.Errorf("%v of %d bytes were sent without being read", got, total)
	}
	if got := testutil.ToFloat64(server.metrics.listener("PLAINTEXT").sent); got != float64(total+int64(len(regions))*10) {
		t.Errorf("%v bytes are counted as sent", got)
	}
	references.check(t)
}

func TestSmallRegionsAreReadAndSentWithTheirSurroundings(t *testing.T) {
	s := newSegment(t, 100_000)
	regions := [][2]int64{{0, 1}, {50_000, smallRegion}, {99_999, 1}}
	var references counted
	server := start(t, network.TCP(), regionServer(s, &references, regions))
	client := server.dial()
	for i, region := range regions {
		client.send(request(int32(i)))
		s.check(t, client.expect(int32(i)), region)
	}
	_ = client.Close()
	server.stop()
	if got := testutil.ToFloat64(server.metrics.listener("PLAINTEXT").bytesSendfile); got != 0 {
		t.Errorf("%v bytes went by sendfile", got)
	}
	references.check(t)
}

func TestRegionsOnOtherConnectionsAreRead(t *testing.T) {
	s := newSegment(t, 2<<20)
	regions := [][2]int64{{0, 2 << 20}, {1, copyBuffer}, {1, copyBuffer + 1}, {7, 100}}
	var references counted
	server := start(t, network.NewMemory(), regionServer(s, &references, regions))
	client := server.dial()
	for i, region := range regions {
		client.send(request(int32(i)))
		s.check(t, client.expect(int32(i)), region)
	}
	_ = client.Close()
	server.stop()
	if got := testutil.ToFloat64(server.metrics.listener("PLAINTEXT").bytesSendfile); got != 0 {
		t.Errorf("%v bytes went by sendfile", got)
	}
	references.check(t)
}

func TestRegionsOfFilesWithoutADescriptorAreReadEvenForTCP(t *testing.T) {
	file, err := vfs.NewMem().Create("segment")
	if err != nil {
		t.Fatal(err)
	}
	s := segment{file, bytes.Repeat([]byte("firn"), 100_000)}
	if _, err := file.WriteAt(s.data, 0); err != nil {
		t.Fatal(err)
	}
	regions := [][2]int64{{4, 300_000}}
	var references counted
	server := start(t, network.TCP(), regionServer(s, &references, regions))
	client := server.dial()
	client.send(request(0))
	s.check(t, client.expect(0), regions[0])
	_ = client.Close()
	server.stop()
	references.check(t)
}

// Two readers of one file must not share its position, as they did with io.Copy.
func TestReadersOfOneFileDoNotDisturbEachOther(t *testing.T) {
	s := newSegment(t, 8<<20)
	regions := make([][2]int64, 32)
	for i := range regions {
		regions[i] = [2]int64{int64(i) * 200_000, 1 << 20}
	}
	var references counted
	server := start(t, network.TCP(), regionServer(s, &references, regions))
	var reading sync.WaitGroup
	for range 4 {
		client := server.dial()
		reading.Go(func() {
			for i, region := range regions {
				if _, err := client.Write(request(int32(i))); err != nil {
					t.Error(err)
					return
				}
				frame, err := client.frame()
				if err != nil {
					t.Error(err)
					return
				}
				s.check(t, frame[4:], region)
			}
		})
	}
	reading.Wait()
	server.stop()
	references.check(t)
}

func TestSlowReadersGetEveryByteInOrder(t *testing.T) {
	s := newSegment(t, 16<<20)
	regions := [][2]int64{{0, 16 << 20}, {1000, 8 << 20}}
	var references counted
	server := start(t, network.TCP(), regionServer(s, &references, regions))
	client := server.dial()
	client.send(request(0), request(1))
	for i, region := range regions {
		frame := make([]byte, 8+2+region[1])
		for filled := 0; filled < len(frame); { // in small pieces, so that the socket is full most of the time
			n, err := client.Read(frame[filled:min(filled+50_000, len(frame))])
			if err != nil {
				t.Fatal(err)
			}
			filled += n
		}
		s.check(t, frame[8:], regions[i])
	}
	server.stop()
	references.check(t)
}

func TestAFileShorterThanItsRegionClosesTheConnection(t *testing.T) {
	s := newSegment(t, 100_000)
	for name, on := range map[string]network.Network{"sendfile": network.TCP(), "read": network.NewMemory()} {
		for _, size := range []int64{100_001, 200_000, 10_000} {
			t.Run(name, func(t *testing.T) {
				position := int64(100_000) - size + 1 // one byte too far
				if size > 100_000 {
					position = 0
				}
				var references counted
				server := start(t, on, regionServer(s, &references, [][2]int64{{position, size}}))
				client := server.dial()
				client.send(request(0))
				if frame, err := client.frame(); err == nil {
					t.Errorf("an answer of %d bytes came", len(frame))
				}
				server.stop()
				references.check(t)
			})
		}
	}
}

func TestReferencesAreGivenBackWhenTheClientLeavesMeanwhile(t *testing.T) {
	s := newSegment(t, 8<<20)
	for name, on := range map[string]network.Network{"sendfile": network.TCP(), "read": network.NewMemory()} {
		t.Run(name, func(t *testing.T) {
			regions := make([][2]int64, 20)
			for i := range regions {
				regions[i] = [2]int64{0, 8 << 20}
			}
			var references counted
			answer := regionServer(s, &references, regions)
			server := start(t, on, func(ctx context.Context, req *wire.Request) wire.Reply {
				reply := answer(ctx, req)
				if req.CorrelationID%2 == 1 { // half of them pass through the queue
					ready := make(chan struct{})
					close(ready)
					reply.Wait = ready
				}
				return reply
			})
			for range 5 {
				client := server.dial()
				for i := range int32(10) {
					client.send(request(i))
				}
				if _, err := io.ReadFull(client, make([]byte, 3<<20)); err != nil {
					t.Fatal(err)
				}
				_ = client.Close()
			}
			server.stop()
			references.check(t)
			if references.held.Load() == 0 {
				t.Error("no answer was made")
			}
		})
	}
}

func TestAnAnswerBeyondTheProtocolsLimitClosesTheConnection(t *testing.T) {
	var references counted
	s := newSegment(t, 10)
	server := start(t, network.TCP(), regionServer(s, &references, [][2]int64{{0, 3 << 30}}))
	client := server.dial()
	client.send(request(0))
	client.expectClosed()
	server.stop()
	references.check(t)
}

func TestReadyAnswersAreSentTogether(t *testing.T) {
	s := New(discard(), newRegistry(), network.NewMemory(), Defaults(), echo)
	c := newConnection(t.Context(), s, "PLAINTEXT", &endless{})
	defer c.cancel()
	ready := make(chan struct{})
	close(ready)
	waits := []<-chan struct{}{nil, ready, make(chan struct{}), nil}
	for _, wait := range waits {
		c.queue <- pendingReply{Reply: wire.Reply{Wait: wait}}
	}
	batch, held := c.readyReplies(make([]pendingReply, 1, 10))
	if len(batch) != 3 {
		t.Errorf("%d replies are sent together, want the first and the two that are ready", len(batch))
	}
	if held == nil || held.Wait != waits[2] || len(c.queue) != 1 {
		t.Errorf("the reply that is not ready is not held, or one behind it was taken")
	}
}
