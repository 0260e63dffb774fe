package bulk

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/firnlog/firn/tiering/segment"
)

// Delivered says what of the log a value is made from.
type Delivered struct {
	Split Split
	// Next is the offset with which the partition goes on: everything of its range that comes before has been delivered.
	Next int64
}

// Read reads ranges of the snapshot, in order: partition after partition as they are given, offsets ascending. Splits
// are read and decoded several at a time, whichever partition they are of, and visited one by one. decode runs
// concurrently; what it returns must not alias the chunk, whose memory is used again. An error from decode or visit, of
// the bucket, or the end of ctx ends the read, and all goroutines have ended when it returns. Whatever comes before an
// error in the order has been visited. Errors that say where to go on are *GoneError and *DamagedError.
//
// Memory holds at most Options.Concurrency chunks, and twice as many decoded values.
func Read[T any](ctx context.Context, r *Reader, ranges []Range, decode func(*Chunk) (T, error),
	visit func(Delivered, T) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	p := &pipeline[T]{
		reader: r, decode: decode, window: semaphore.NewWeighted(int64(2 * r.concurrency)),
		ahead: semaphore.NewWeighted(r.aheadBytes()), tails: make(chan *pendingObject, r.concurrency),
		work: make(chan *job[T], 2*r.concurrency), order: make(chan *job[T], 2*r.concurrency),
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { p.find(ctx, ranges, &running) })
	running.Go(func() { p.plan(ctx) })
	for range r.concurrency {
		running.Go(func() { p.decodeAll(ctx) })
	}
	return p.deliver(ctx, visit)
}

// aheadBytes is for how much data tails are read ahead: as much as is read meanwhile.
func (r *Reader) aheadBytes() int64 { return int64(r.concurrency) * r.splitBytes }

// pipeline is a read under way: find walks the manifests and has tails read ahead, plan cuts objects into splits,
// decodeAll reads and decodes them, deliver puts them in order.
type pipeline[T any] struct {
	reader *Reader
	decode func(*Chunk) (T, error)
	window *semaphore.Weighted // splits between plan and the end of their visit
	ahead  *semaphore.Weighted // bytes of data whose tails are read
	tails  chan *pendingObject
	work   chan *job[T]
	order  chan *job[T]
}

// pendingObject is an object whose tail is on its way.
type pendingObject struct {
	object
	bytes int64         // of ahead that it holds
	ready chan struct{} // closed when the next two are set
	tail  *segment.Tail // nil if it is not needed
	err   error
}

// job is a split on its way.
type job[T any] struct {
	split Split
	ready chan struct{} // closed when the next four are set
	next  int64
	value T
	err   error
	// head and edge are those of the chunk.
	head, edge uint32
}

// find walks the manifests, ahead of plan.
func (p *pipeline[T]) find(ctx context.Context, ranges []Range, running *sync.WaitGroup) {
	defer close(p.tails)
	for o, err := range p.reader.objects(ctx, ranges) {
		pending := &pendingObject{object: o, ready: make(chan struct{}), err: err}
		if err == nil && !p.reader.small(o) {
			pending.bytes = min(o.entry.DataBytes, p.reader.aheadBytes())
			if p.ahead.Acquire(ctx, pending.bytes) != nil {
				return
			}
			running.Go(func() {
				defer close(pending.ready)
				pending.tail, pending.err = p.reader.readTail(ctx, o.key, o.entry)
			})
		} else {
			close(pending.ready)
		}
		select {
		case p.tails <- pending:
		case <-ctx.Done():
			return
		}
	}
}

// plan cuts objects into splits, as many as there is room for.
func (p *pipeline[T]) plan(ctx context.Context) {
	defer close(p.work)
	defer close(p.order)
	for pending := range p.tails {
		select {
		case <-pending.ready:
		case <-ctx.Done():
			return
		}
		if pending.err != nil {
			failed := &job[T]{split: Split{
				Partition: pending.wanted.Partition, Key: pending.key, From: pending.wanted.From,
			}, ready: make(chan struct{}), err: pending.err}
			close(failed.ready)
			select {
			case p.order <- failed:
			case <-ctx.Done():
			}
			return
		}
		for _, split := range p.reader.cut(pending.object, pending.tail) {
			if p.window.Acquire(ctx, 1) != nil {
				return
			}
			next := &job[T]{split: split, ready: make(chan struct{})}
			p.work <- next // there is room for the whole window
			p.order <- next
		}
		p.ahead.Release(pending.bytes)
	}
}

// decodeAll reads and decodes split after split.
func (p *pipeline[T]) decodeAll(ctx context.Context) {
	var memory buffer
	for next := range p.work {
		next.err = p.decodeOne(ctx, next, &memory)
		close(next.ready)
	}
}

func (p *pipeline[T]) decodeOne(ctx context.Context, next *job[T], memory *buffer) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	chunk, err := p.reader.readSplit(ctx, next.split, memory)
	if err != nil {
		return err
	}
	next.next, next.head, next.edge = chunk.Next, chunk.head, chunk.edge
	next.value, err = p.decode(chunk)
	if err != nil && next.split.chained { // its last batches have not been checked
		next.split.chained = false
		return p.decodeOne(ctx, next, memory)
	}
	return err
}

// deliver visits the values in the order of their splits.
func (p *pipeline[T]) deliver(ctx context.Context, visit func(Delivered, T) error) error {
	next := map[int32]int64{} // by partition, of those that something was delivered of
	var held *job[T]          // a chained one, until the split that follows is there
	for job := range p.order {
		select {
		case <-job.ready:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		due := job
		if held != nil {
			due = held
		}
		at := place{due.split.Partition, max(due.split.From, next[due.split.Partition]), due.split.Key}
		if held != nil && job.err == nil {
			if err := p.compare(ctx, held, job); err != nil {
				return judge(at, err)
			}
			if err := p.hand(held, visit); err != nil {
				return err
			}
			next[at.partition], at.next, held = held.next, held.next, nil
		}
		switch {
		case job.err != nil:
			return judge(at, job.err)
		case job.split.chained:
			held = job
			continue
		}
		if err := p.hand(job, visit); err != nil {
			return err
		}
		next[job.split.Partition] = job.next
	}
	return ctx.Err()
}

// compare tells whether two splits that follow each other have seen the same bytes where they meet. If not, the first
// one is read once more, and checked by itself.
func (p *pipeline[T]) compare(ctx context.Context, first, second *job[T]) error {
	if first.edge == second.head {
		return nil
	}
	first.split.chained = false
	return p.decodeOne(ctx, first, &buffer{})
}

func (p *pipeline[T]) hand(job *job[T], visit func(Delivered, T) error) error {
	if err := visit(Delivered{Split: job.split, Next: job.next}, job.value); err != nil {
		return err
	}
	p.window.Release(1)
	return nil
}
