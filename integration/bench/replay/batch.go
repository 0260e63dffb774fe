//go:build linux

package replay

import (
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/events"
)

// Shape is what a producer sends.
type Shape struct {
	RecordBytes int // of each value; there is no key
	// RequestBytes is about the size of the record batch in a request, after compression.
	RequestBytes int
	Codec        record.Codec
}

// Batch is a record batch as it is sent again and again.
type Batch struct {
	Data         []byte
	Records      int64
	Uncompressed int64 // bytes of the batch without its codec
}

// Events are what batches are made of.
type Events struct{ events.Events }

// LoadEvents reads lines from a file that gzip has packed.
func LoadEvents(name string) (Events, error) {
	file, err := os.Open(name)
	if err != nil {
		return Events{}, err
	}
	defer file.Close()
	lines, err := events.Read(file)
	if err != nil {
		return Events{}, fmt.Errorf("%s: %w", name, err)
	}
	return Events{lines}, nil
}

// largestBatch is Kafka's max.message.bytes less a little: a larger batch is refused.
const largestBatch = 1 << 20

// Encode builds a batch of a shape. The time of its records is given in milliseconds since 1970. The seed picks the
// events.
func (e Events) Encode(shape Shape, timestamp int64, seed uint64) (Batch, error) {
	if shape.RecordBytes <= 0 || shape.RequestBytes < shape.RecordBytes+record.HeaderSize {
		return Batch{}, fmt.Errorf("a request of %d bytes cannot hold a record of %d", shape.RequestBytes,
			shape.RecordBytes)
	}
	limit := min(shape.RequestBytes, largestBatch)
	batch := e.fill(shape, limit, timestamp, seed)
	if shape.Codec == record.None {
		return batch, nil
	}
	// How much fits is known once some has been compressed. More of the same compresses better, hence again.
	const margin, nearly, attempts = 0.97, 0.9, 8
	uncompressed, best := limit, Batch{}
	for range attempts {
		uncompressed = int(margin * float64(uncompressed) * float64(limit) / float64(len(batch.Data)))
		batch = e.fill(shape, uncompressed, timestamp, seed)
		if size := len(batch.Data); size <= limit && size > len(best.Data) {
			best = batch
		}
		if float64(len(best.Data)) > nearly*float64(limit) {
			break
		}
	}
	if best.Data == nil {
		return Batch{}, fmt.Errorf("records of %d bytes do not fit %d when they are compressed", shape.RecordBytes, limit)
	}
	return best, nil
}

// fill builds a batch of so many bytes before compression, with at least one record.
func (e Events) fill(shape Shape, uncompressed int, timestamp int64, seed uint64) Batch {
	options := record.PlainProducer()
	options.Codec = shape.Codec
	builder := record.NewBuilder(options)
	// A record's own fields take at most 12 bytes here: attributes, five lengths and deltas, no key, no headers.
	const around = 12
	count := max(1, (uncompressed-record.HeaderSize)/(shape.RecordBytes+around))
	for _, value := range e.Values(rand.New(rand.NewPCG(seed, uint64(shape.RecordBytes))), count, shape.RecordBytes) {
		builder.Append(timestamp, nil, value)
	}
	size := builder.Size()
	return Batch{Data: builder.Build(), Records: int64(count), Uncompressed: int64(size)}
}
