package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/network"
	"github.com/firnlog/firn/internal/vfs"
)

func TestMemoryMakesThoseWaitWhoWouldNeedTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100)
		take := func(n int64) <-chan error {
			done := make(chan error, 1)
			go func() { done <- m.take(t.Context(), n, nil) }()
			synctest.Wait()
			return done
		}
		if err := m.take(t.Context(), 70, nil); err != nil {
			t.Fatal(err)
		}
		large, small := take(40), take(20)
		if len(large) != 0 || len(small) != 0 || !m.contended() {
			t.Error("whoever comes later overtakes, or nobody waits")
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- m.take(ctx, 10, nil) }()
		synctest.Wait()
		cancel()
		if err := <-gone; err == nil {
			t.Error("a wait outlived its context")
		}
		m.adjust(-10)
		if err := <-large; err != nil {
			t.Error(err)
		}
		m.adjust(-60)
		if err := <-small; err != nil {
			t.Error(err)
		}
		m.adjust(1000) // an answer that is there already
		if m.tryTake(1) {
			t.Error("there is room beyond the limit")
		}
		m.adjust(-1060)
		if err := m.take(t.Context(), 500, nil); err != nil { // more than there may ever be
			t.Error(err)
		}
		m.adjust(-500)
		if used := m.used.Load(); used != 0 || m.contended() {
			t.Errorf("%d bytes are left, contended: %v", used, m.contended())
		}
	})
}

// heap answers each request with memory of its own, at once or from the writer, and remembers the most there was.
type heap struct {
	counted
	server *running
	size   int
	most   atomic.Int64
}

func (h *heap) dispatch(_ context.Context, req *wire.Request) wire.Reply {
	correlationID := req.CorrelationID
	answer := func() *wire.Response {
		h.hold()
		h.most.Store(max(h.most.Load(), h.held.Load()-h.released.Load()))
		return chunks(correlationID, wire.Chunk{Bytes: make([]byte, h.size), Hold: h})
	}
	if correlationID%2 == 1 {
		return wire.Reply{Response: answer()}
	}
	return wire.Reply{Finish: answer}
}

// Answers that nobody takes are what hostile clients hold most with: here each is 1 MB, whether it was made at once,
// in the waiting phase, or lies in memory that a cache would hold.
func TestAnswersThatAreNotTakenStayWithinTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, clients = 10, 200
		h := &heap{size: 1 << 20}
		h.server = start(t, network.NewMemory(), h.dispatch, func(c *Config) { c.MaxInFlightBytes = limit << 20 })
		for range clients {
			client := h.server.dial()
			for i := range int32(6) {
				client.send(request(i))
			}
		}
		synctest.Wait()
		// Each is a few bytes larger than what is taken before it is known, and who holds one may make others.
		if most := h.most.Load(); most < limit-1 || most > limit+limit/2 {
			t.Errorf("%d answers were in memory, %d have room", most, limit)
		}
		if used := h.server.answers.used.Load(); used < (limit-1)<<20 {
			t.Errorf("%d bytes are accounted for", used)
		}
		good := h.server.dial()
		began := time.Now()
		good.send(request(1))
		good.expect(1)
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("somebody who takes his answer got it after %v", waited)
		}
		producer := h.server.dial()
		producer.send(produceFrame(100 << 10))
		began = time.Now()
		producer.expect(1)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("who sends records waits for %v for memory that answers hold", waited)
		}
		time.Sleep(time.Hour)
		if open := h.server.open(); open != 0 {
			t.Errorf("%v connections are open", open)
		}
		h.check(t)
	})
}

// Without the rule, who takes nothing could hold the memory that others wait for as long as a connection may be idle.
func TestAnswersInMemoryMustBeTakenSoonerThanRegionsOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		file, err := mem.Create("segment")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(make([]byte, 8<<20), 0); err != nil {
			t.Fatal(err)
		}
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			if req.CorrelationID == 1 {
				return wire.Reply{Response: chunks(1, wire.Chunk{Bytes: make([]byte, 8<<20)})}
			}
			return wire.Reply{Response: chunks(2, wire.Chunk{Region: vfs.NewRegion(file, 0, 8<<20, nil)})}
		})
		inMemory, inFile := server.dial(), server.dial()
		inMemory.send(request(1))
		inFile.send(request(2))
		// What was taken at the very beginning is only known at the first deadline, so it takes two.
		time.Sleep(61 * time.Second)
		if open := server.open(); open != 1 {
			t.Errorf("%v connections are open after a minute", open)
		}
		time.Sleep(20 * time.Minute)
		if open := server.open(); open != 0 {
			t.Errorf("%v connections are open after twenty minutes more", open)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A request that is drawn out may take its time, but not while others wait for the memory it has been given.
func TestDrawnOutRequestsGiveWayWhenMemoryIsShort(t *testing.T) {
	for name, test := range map[string]struct {
		limit int64
		cut   bool
	}{"there is enough": {100 << 20, false}, "others wait": {3 << 20, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := start(t, network.NewMemory(), echo, func(c *Config) { c.MaxInFlightBytes = test.limit })
				slow := server.dial()
				frame := requestOf(wire.KeyProduce, 9, 1, make([]byte, 2<<20)...)
				slow.send(frame[:8<<10]) // enough to be given the memory for all of it
				synctest.Wait()
				other := server.dial()
				began := time.Now()
				go func() { _, _ = other.Write(frame) }()
				drawn := make(chan struct{})
				go func() {
					defer close(drawn)
					for rest := frame[8<<10:]; len(rest) > 0; rest = rest[min(len(rest), 10<<10):] {
						if _, err := slow.Write(rest[:min(len(rest), 10<<10)]); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
				other.expect(1)
				if waited := time.Since(began); (waited > time.Second) != test.cut || waited > 32*time.Second {
					t.Errorf("the other waited for %v", waited)
				}
				if test.cut {
					slow.expectClosed()
				} else {
					slow.expect(1)
				}
				<-drawn
			})
		})
	}
}

func TestManySmallRegionsAreNotCopiedAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		file, err := mem.Create("segment")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(make([]byte, smallRegion), 0); err != nil {
			t.Fatal(err)
		}
		server := start(t, network.NewMemory(), func(_ context.Context, req *wire.Request) wire.Reply {
			regions := make([]wire.Chunk, 1000)
			for i := range regions {
				regions[i] = wire.Chunk{Region: vfs.NewRegion(file, 0, smallRegion, nil)}
			}
			return wire.Reply{Response: chunks(req.CorrelationID, regions...)}
		})
		client := server.dial()
		client.send(request(1))
		synctest.Wait()
		if inUse := server.pool.InUseBytes(); inUse > maxCopied+smallRegion {
			t.Errorf("%d bytes are in memory for a client that takes nothing", inUse)
		}
		if body := client.expect(1); len(body) != 1000*smallRegion {
			t.Errorf("%d bytes arrived", len(body))
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
}
