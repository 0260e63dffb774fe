package fetch

import (
	"context"
	"fmt"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// found is an answer with the memory that is kept because of it.
type found struct {
	storage.RemoteReadResult
	holds int64
}

// smallAnswer is what is copied out of its chunk, which it would keep in memory otherwise, however slowly a client takes
// it.
const smallAnswer = 64 << 10

// answer gives a range of the data to whoever sends it: a range of a file of the cache, a part of a chunk, which is kept
// then, or a copy where it crosses chunks.
func (o *object) answer(ctx context.Context, position, size int64) (result found, kept *chunk, err error) {
	if err := o.load(ctx, position, size); err != nil {
		return result, nil, err
	}
	in := o.chunk(o.index(position))
	start := position - in.id.index*o.chunkBytes
	switch {
	case start+size <= in.size && in.file != nil:
		result.Region = vfs.NewRegion(in.file.File(), start, size, nil)
		if err := result.Region.Load(); err != nil {
			return result, nil, fmt.Errorf("read the cache: %w", err)
		}
		result.Release = func() { o.reader.chunks.release(in) }
		return result, in, nil
	case start+size <= in.size && size > smallAnswer:
		result.Data = in.data[start : start+size : start+size]
		result.holds = o.reader.chunks.answered(in)
		result.Release = func() {
			o.reader.letGo(o.reader.chunks.sent(in))
			o.reader.chunks.release(in)
		}
		return result, in, nil
	}
	result.Data, err = o.copyOf(ctx, position, size)
	if err != nil {
		return result, nil, err
	}
	result.holds = min(size, maxChunkBytes) // a larger batch is alone in its answer
	result.Release = func() { o.reader.letGo(result.holds) }
	return result, nil, nil
}

// answersWait is how long a read waits for others' answers to be given back. A client that takes nothing loses its
// connection after half a minute; until then a client that asks once more is better off than one that hangs.
const answersWait = 10 * time.Second

var errTooMuchHeld = fmt.Errorf("answers that clients do not take fill the memory for reads of the object store "+
	"(firn.tier.fetch.memory.bytes): %w", kafka.KafkaStorageError)

// admit waits until there is memory for one more answer. Chunks that answers lie in cannot be evicted in truth, and
// clients decide how long that is: so answers may hold as much again as the cache, and no more. Until it is known what
// this one holds it counts as a chunk.
func (r *Reader) admit(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, answersWait)
	defer cancel()
	stop := context.AfterFunc(r.background(), cancel)
	defer stop()
	if r.answers.Acquire(waiting, maxChunkBytes) != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errTooMuchHeld
	}
	return nil
}

// hold counts what an answer holds, in the place of the chunk that it was admitted for.
func (r *Reader) hold(bytes int64) {
	r.metrics.held.Add(float64(bytes))
	r.answers.Release(maxChunkBytes - bytes)
}

// letGo is the end of it.
func (r *Reader) letGo(bytes int64) {
	r.metrics.held.Sub(float64(bytes))
	r.answers.Release(bytes)
}
