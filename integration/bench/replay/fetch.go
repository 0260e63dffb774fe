//go:build linux

package replay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/latency"
)

// Fetch is what is read from a topic that Produce has filled with copies of one batch. Consumer i reads partition i,
// again from the start when it has come to the end.
type Fetch struct {
	Address   string
	Topic     string
	Consumers int
	Batch     Batch
	Batches   int64 // in each partition
	MaxBytes  int32 // of a response
	// Bytes that each consumer reads, at least. 0 is until the context ends.
	Bytes int64
	// Patient consumers ask again when nothing has come, as what is far away may take longer than a fetch waits.
	Patient bool
	// Random, if it is not nil, picks where each fetch begins. The consumers' own are seeded by it.
	Random *rand.Rand
}

// Fetched is what came of it.
type Fetched struct {
	Bytes   int64         // of record batches
	Elapsed time.Duration // from the first request to the last answer
	Latency *latency.Histogram
}

// Run reads with all consumers.
func (f Fetch) Run(ctx context.Context) (Fetched, error) {
	until := ctx // ends the run when there is no number of bytes
	group, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	consumers := make([]*consumer, f.Consumers)
	for i := range consumers {
		c, release, err := newConsumer(ctx, f.Address, f.Topic, int32(i), f.MaxBytes)
		if err != nil {
			return Fetched{}, errors.Join(err, group.Wait())
		}
		defer release()
		c.batch, c.latency = f.Batch, latency.NewHistogram()
		consumers[i] = c
	}
	began := time.Now()
	for _, c := range consumers {
		var random *rand.Rand
		if f.Random != nil {
			random = rand.New(rand.NewPCG(f.Random.Uint64(), uint64(c.partition)))
		}
		group.Go(func() error { return c.loop(until, f, random) })
	}
	if err := group.Wait(); err != nil {
		return Fetched{}, fmt.Errorf("fetch from %s: %w", f.Topic, err)
	}
	result := Fetched{Elapsed: time.Since(began), Latency: latency.NewHistogram()}
	for _, c := range consumers {
		result.Bytes += c.bytes
		result.Latency.Add(c.latency)
	}
	return result, nil
}

// consumer reads one partition over one connection, one fetch at a time.
type consumer struct {
	conn      *net.TCPConn
	partition int32
	request   []byte
	offsetAt  int    // in request
	headSize  int    // of an answer, up to its records
	head      []byte // room for it and the size of the records
	batch     Batch
	latency   *latency.Histogram
	bytes     int64
}

func newConsumer(ctx context.Context, address, topic string, partition, maxBytes int32) (*consumer, func(), error) {
	conn, release, err := dial(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	request := fetchFrame(topic, partition, maxBytes, 1)
	headSize := beforeFetchedName + len(topic) + behindFetchedName
	offsetAt := bytes.Index(request, binary.BigEndian.AppendUint64(nil, offsetMark))
	return &consumer{
		conn: conn, partition: partition, request: request, offsetAt: offsetAt,
		headSize: headSize, head: make([]byte, headSize+binary.MaxVarintLen32),
	}, release, nil
}

func (c *consumer) loop(until context.Context, f Fetch, random *rand.Rand) error {
	end := f.Batches * f.Batch.Records
	offset := int64(0)
	for f.Bytes == 0 || c.bytes < f.Bytes {
		if f.Bytes == 0 && until.Err() != nil {
			return nil
		}
		if random != nil {
			offset = random.Int64N(end)
		}
		began := time.Now()
		size, err := c.fetch(offset)
		for err == nil && size == 0 && f.Patient && (f.Bytes > 0 || until.Err() == nil) {
			size, err = c.fetch(offset)
		}
		if err != nil {
			return fmt.Errorf("partition %d at %d: %w", c.partition, offset, err)
		}
		c.latency.Record(time.Since(began))
		c.bytes += int64(size)
		// A response may end within a batch, as Kafka sends what fits; what it ends with is read again.
		batches := int64(size / len(c.batch.Data))
		if batches == 0 && random == nil && !f.Patient {
			return fmt.Errorf("partition %d at %d: %d bytes and no whole batch", c.partition, offset, size)
		}
		if offset += batches * c.batch.Records; offset >= end {
			offset = 0
		}
	}
	return nil
}

// What stands in an answer before and behind the topic's name: size, correlation id, no tags, throttle time, error,
// session, one topic, the name's length; then one partition, its index, its error, high watermark, last stable offset,
// log start offset, no aborted transactions, preferred replica.
const (
	beforeFetchedName = 4 + 4 + 1 + 4 + 2 + 4 + 1 + 1
	fetchErrorAt      = 1 + 4
	behindFetchedName = fetchErrorAt + 2 + 3*8 + 1 + 4
	sessionErrorAt    = 4 + 4 + 1 + 4
)

// fetch returns how many bytes of batches came.
func (c *consumer) fetch(offset int64) (int, error) {
	binary.BigEndian.PutUint64(c.request[c.offsetAt:], uint64(offset))
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	head := c.head
	filled, err := io.ReadAtLeast(c.conn, head, 4)
	if err != nil {
		return 0, err
	}
	size := 4 + int(binary.BigEndian.Uint32(head))
	if wanted := min(size, len(head)); filled < wanted {
		n, err := io.ReadFull(c.conn, head[filled:wanted])
		if err != nil {
			return 0, err
		}
		filled += n
	}
	records, err := c.parse(head[:filled])
	if err != nil {
		return 0, err
	}
	return records, discard(c.conn, size-filled)
}

func (c *consumer) parse(head []byte) (records int, err error) {
	if len(head) < sessionErrorAt+2 {
		return 0, fmt.Errorf("an answer of %d bytes", len(head))
	}
	if code := kafka.Errno(binary.BigEndian.Uint16(head[sessionErrorAt:])); code != 0 {
		return 0, code
	}
	if len(head) <= c.headSize {
		return 0, fmt.Errorf("an answer of %d bytes", len(head))
	}
	if code := kafka.Errno(binary.BigEndian.Uint16(head[c.headSize-behindFetchedName+fetchErrorAt:])); code != 0 {
		return 0, code
	}
	n, width := binary.Uvarint(head[c.headSize:])
	if width <= 0 {
		return 0, errors.New("an answer without records")
	}
	return max(int(n)-1, 0), nil // a compact length is one more; 0 is null
}
