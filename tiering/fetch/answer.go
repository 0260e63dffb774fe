package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// found is an answer.
type found struct {
	storage.RemoteReadResult
	inMemory bool // it holds memory
}

// smallAnswer is what is copied out of its chunk, which it would keep in memory otherwise, however slowly a client
// takes it.
const smallAnswer = 64 << 10

// answer gives a range of the data to whoever sends it: a range of a file of the cache, a part of a chunk, which is
// kept then, or a copy where it crosses chunks. Memory is held only as far as there is some, or for who has been
// admitted.
func (o *object) answer(
	ctx context.Context, position, size int64, admitted bool,
) (result found, kept *chunk, err error) {
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
		if !o.reader.chunks.answer(in, admitted) {
			return result, nil, errNotAdmitted
		}
		result.Data, result.inMemory = in.data[start:start+size:start+size], true
		result.Release = func() {
			o.reader.letGo(o.reader.chunks.sent(in))
			o.reader.chunks.release(in)
		}
		return result, in, nil
	}
	holds := min(size, maxChunkBytes) // a larger batch is alone in its answer
	if !o.reader.hold(holds, admitted) {
		return result, nil, errNotAdmitted
	}
	result.inMemory = true
	result.Release = func() { o.reader.letGo(holds) }
	result.Data, err = o.copyOf(ctx, position, size)
	if err != nil {
		result.Release()
	}
	return result, nil, err
}

// answersWait is how long a read waits for others' answers to be given back. A client that takes nothing loses its
// connection after half a minute; until then a client that asks once more is better off than one that hangs.
const answersWait = 10 * time.Second

var errTooMuchHeld = fmt.Errorf("answers that clients do not take fill the memory for reads of the object store "+
	"(firn.tier.fetch.memory.bytes): %w", kafka.KafkaStorageError)

// errNotAdmitted: there is no memory for one more answer.
var errNotAdmitted = errors.New("answers fill the memory for reads of the object store")

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

// hold counts what an answer holds, and tells whether there is room for it. Who has been admitted has room for a chunk,
// and gives back the rest of it.
func (r *Reader) hold(bytes int64, admitted bool) bool {
	if admitted {
		r.answers.Release(maxChunkBytes - bytes)
	} else if bytes > 0 && !r.answers.TryAcquire(bytes) {
		return false
	}
	r.metrics.held.Add(float64(bytes))
	return true
}

// letGo is the end of it.
func (r *Reader) letGo(bytes int64) {
	r.metrics.held.Sub(float64(bytes))
	r.answers.Release(bytes)
}
