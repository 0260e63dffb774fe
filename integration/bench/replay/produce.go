//go:build linux

package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/latency"
)

// Produce is what is sent to a topic that exists. Request i goes to partition i modulo Partitions, over connection i
// modulo Connections.
type Produce struct {
	Address    string
	Topic      string
	Partitions int
	Acks       Acks
	Batch      Batch
	// Connections divides Partitions or is a multiple of it, so that a partition's requests keep their order in the
	// first case.
	Connections int
	InFlight    int // requests that a connection has sent and not got answered, at most
	Requests    int64
	// PerSecond is the rate of an open loop; 0 is as fast as the broker answers.
	PerSecond float64
}

// Produced is what came of it.
type Produced struct {
	Requests int64
	Elapsed  time.Duration // from the first request to the last answer
	// Latency is from a request's intended start (of an open loop) or its write to its answer.
	Latency *latency.Histogram
}

// Bytes of record batches that were acknowledged.
func (p Produced) Bytes(batch Batch) int64 { return p.Requests * int64(len(batch.Data)) }

// Run sends all requests and waits for all answers.
func (p Produce) Run(ctx context.Context) (Produced, error) {
	return p.run(ctx, latency.NewSchedule(time.Now(), max(p.PerSecond, 1)))
}

func (p Produce) run(ctx context.Context, schedule latency.Schedule) (Produced, error) {
	if p.Partitions%p.Connections != 0 && p.Connections%p.Partitions != 0 {
		return Produced{}, fmt.Errorf("%d connections do not fit %d partitions", p.Connections, p.Partitions)
	}
	frames := make([][]byte, p.Partitions)
	for i := range frames {
		frames[i] = produceFrame(p.Topic, int32(i), p.Acks, p.Batch.Data)
	}
	group, ctx := errgroup.WithContext(ctx)
	connections := make([]*producing, p.Connections)
	for i := range connections {
		conn, release, err := dial(ctx, p.Address)
		if err != nil {
			return Produced{}, errors.Join(err, group.Wait())
		}
		defer release()
		connections[i] = p.connection(i, conn, frames, schedule)
	}
	began := time.Now()
	for _, c := range connections {
		c.began = began
		group.Go(func() error { return c.write(ctx) })
		group.Go(c.read)
	}
	if err := group.Wait(); err != nil {
		return Produced{}, fmt.Errorf("produce to %s: %w", p.Topic, err)
	}
	result := Produced{Elapsed: time.Since(began), Latency: latency.NewHistogram()}
	for _, c := range connections {
		result.Requests += c.count
		result.Latency.Add(c.latency)
	}
	return result, nil
}

func (p Produce) connection(i int, conn *net.TCPConn, frames [][]byte, schedule latency.Schedule) *producing {
	return &producing{
		conn: conn, frames: frames, schedule: schedule, open: p.PerSecond > 0,
		first: int64(i), step: int64(p.Connections),
		count:  (p.Requests - int64(i) + int64(p.Connections) - 1) / int64(p.Connections),
		window: newWindow(p.InFlight), starts: make([]atomic.Int64, p.InFlight),
		latency: latency.NewHistogram(), errorAt: beforeProducedName + len(p.Topic) + behindProducedName,
	}
}

// producing is one connection of a run.
type producing struct {
	conn        *net.TCPConn
	frames      [][]byte // a request for each partition
	first, step int64    // request k of the connection is first + k·step of the run
	count       int64
	schedule    latency.Schedule
	open        bool
	began       time.Time
	window      *window
	starts      []atomic.Int64 // nanoseconds since began, of the requests in flight; request k is at k modulo their number
	errorAt     int            // where an answer has its error code
	latency     *latency.Histogram
}

// largestWrite bounds how many requests go into one system call: more do not make it cheaper.
const largestWrite = 64

func (c *producing) write(ctx context.Context) error {
	var buffers, list net.Buffers
	for sent := int64(0); sent < c.count; {
		most := min(c.count-sent, largestWrite)
		if c.open {
			if err := c.schedule.Wait(ctx, c.first+sent*c.step); err != nil {
				return err
			}
			most = 1
		}
		taken := c.window.take(int(most))
		if taken == 0 {
			return nil // the reader has failed
		}
		list = list[:0]
		now := time.Since(c.began)
		for range taken {
			i := c.first + sent*c.step
			start := now
			if c.open {
				start = c.schedule.At(i).Sub(c.began)
			}
			c.starts[sent%int64(len(c.starts))].Store(int64(start))
			list = append(list, c.frames[i%int64(len(c.frames))])
			sent++
		}
		buffers = list // WriteTo consumes its receiver
		if _, err := buffers.WriteTo(c.conn); err != nil {
			return err
		}
	}
	return nil
}

// read takes as many answers as there are with one system call.
func (c *producing) read() error {
	defer c.window.close()
	buffer := make([]byte, 64<<10)
	filled := 0
	for answered := int64(0); answered < c.count; {
		n, err := c.conn.Read(buffer[filled:])
		if err != nil {
			return err
		}
		filled += n
		now := time.Since(c.began)
		rest, before := buffer[:filled], answered
		for len(rest) >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(rest))
			if size > len(buffer) {
				return fmt.Errorf("an answer of %d bytes", size)
			}
			if size > len(rest) {
				break
			}
			if err := c.check(rest[:size]); err != nil {
				return err
			}
			c.latency.Record(now - time.Duration(c.starts[answered%int64(len(c.starts))].Load()))
			answered++
			rest = rest[size:]
		}
		filled = copy(buffer, rest)
		if answered > before {
			c.window.give(int(answered - before))
		}
	}
	return nil
}

func (c *producing) check(answer []byte) error {
	if len(answer) < c.errorAt+2 {
		return fmt.Errorf("an answer of %d bytes", len(answer))
	}
	if code := kafka.Errno(binary.BigEndian.Uint16(answer[c.errorAt:])); code != 0 {
		return code
	}
	return nil
}
