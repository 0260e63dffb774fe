// Package yield lets long computations give way to what waits for the network. The log cleaner uses it. It never waits
// for time to pass: with nothing else to do the caller goes on at once.
//
// The scheduler of Go looks at the network only when nothing else can run, and every 10 ms. A goroutine that computes
// without end is therefore in the way of every request on a machine with few processors, and runtime.Gosched does not
// help, since it leaves the goroutine ready to run.
package yield

import (
	"fmt"
	"os"
	"time"
)

// quantum is how long a computation goes on before it gives way: a request passes several goroutines and may wait that
// long before each, while giving way costs some 5 µs.
const quantum = 100 * time.Microsecond

// Point is where one goroutine gives way. Its methods must not be called concurrently.
type Point struct {
	reader, writer *os.File
	last           time.Time
	one            [1]byte
}

// New makes a point; an error says that the process has no descriptors left.
func New() (*Point, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return &Point{reader: reader, writer: writer, last: time.Now()}, nil
}

// Often gives way if the last time was a while ago. It is cheap enough for every few records.
func (p *Point) Often() {
	if time.Since(p.last) >= quantum {
		p.Now()
	}
}

// Now gives way: it waits for a byte that comes by way of the network poller, together with whatever else has come.
func (p *Point) Now() {
	go p.write()                   // ends at once; it must not run before this goroutine waits, so it cannot be this one
	_, _ = p.reader.Read(p.one[:]) // a point that is closed does not wait
	p.last = time.Now()
}

func (p *Point) write() {
	_, _ = p.writer.Write([]byte{0}) // fails only when the point is closed
}

// Close releases the point.
func (p *Point) Close() {
	_ = p.reader.Close() // nothing was written that anybody wants
	_ = p.writer.Close()
}
