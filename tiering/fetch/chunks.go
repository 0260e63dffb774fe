package fetch

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/firnlog/firn/internal/invariant"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/tiering/cache"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// maxChunkBytes is how much is read at once. Ranges of 4 MiB reach three quarters of a store's throughput, and a reader
// of one record does not pay for much more than it wants.
const maxChunkBytes = 4 << 20

// chunkBytesOf is the size of an object's chunks: whole numbers of what has a checksum.
func chunkBytesOf(tail *segment.Tail) int64 {
	return max(maxChunkBytes/tail.ChunkBytes*tail.ChunkBytes, tail.ChunkBytes)
}

// chunkID names a chunk for ever, since an upload id does.
type chunkID struct {
	upload kafka.UUID
	index  int64
}

func (id chunkID) cached() cache.ID { return cache.ID{Upload: id.upload, Index: id.index} }

// chunk is a part of an object's data, in memory, in a file of the cache, or on its way.
type chunk struct {
	id    chunkID
	size  int64
	asked time.Time
	ready chan struct{} // closed when the next three are set
	data  []byte
	file  *cache.Handle // instead of data
	err   error

	// The fields below are guarded by chunks.mu.

	place    *list.Element // in order of eviction; nil while it is on its way, when it has been evicted, and of a file
	live     time.Time     // until then nothing takes its place
	passed   bool          // its reader has all of it
	ticket   *ticket       // while it is on its way
	reserved bool          // its size counts
	loaded   bool          // it is ready
	ahead    bool          // it was read ahead, and nobody has asked for it yet
	holders  int           // reads and answers
	answers  int           // those of them that are answers in memory
}

// chunks is a bounded cache in memory, above the one on the disk. Memory is reserved before a download begins. Evicted
// chunks that somebody still holds are the holder's memory; it ends with the answer they are part of.
type chunks struct {
	reader *Reader
	limit  int64 // bytes

	mu         sync.Mutex // guards the fields below
	known      map[chunkID]*chunk
	used       *list.List    // loaded chunks: those that readers have passed first, then the least recently used
	bytes      int64         // loaded or being downloaded
	aheadBytes int64         // of chunks that were read ahead and that nobody has asked for yet
	freed      chan struct{} // closed when something can be evicted sooner than was thought; nil while nobody waits
}

func (c *chunks) init(reader *Reader, limit int64) {
	c.reader, c.limit = reader, limit
	c.known, c.used = map[chunkID]*chunk{}, list.New()
}

// acquire gives a chunk to somebody who waits for it until it is ready, and who releases it. The download begins at
// once if nobody else has begun it.
func (c *chunks) acquire(o *object, index int64) *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted, found := c.known[chunkID{o.entry.UploadID, index}]
	if found {
		c.reader.metrics.hits.Inc()
	} else {
		wanted = c.load(o, index, true)
	}
	if wanted.ticket != nil {
		c.reader.slots.urge(wanted.ticket)
	}
	c.take(wanted)
	return wanted
}

// peek is acquire for somebody who does not wait: nil if the chunk is not there.
func (c *chunks) peek(o *object, index int64) *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, found := c.known[chunkID{o.entry.UploadID, index}]
	if !found || !known.loaded {
		return nil
	}
	c.reader.metrics.hits.Inc()
	c.take(known)
	return known
}

// take needs mu.
func (c *chunks) take(wanted *chunk) {
	if wanted.ahead {
		wanted.ahead = false
		c.aheadBytes -= wanted.size
	}
	wanted.live, wanted.passed = time.Now().Add(liveFor), false
	if wanted.place != nil {
		c.used.MoveToBack(wanted.place)
	}
	wanted.holders++
}

func (c *chunks) release(held *chunk) {
	c.mu.Lock()
	held.holders--
	invariant.Check(held.holders >= 0, "chunk %d of upload %s is released more often than acquired",
		held.id.index, held.id.upload)
	idle := c.idleFile(held)
	c.mu.Unlock()
	if idle != nil {
		idle.Release()
	}
}

// idleFile forgets a chunk in a file that nobody holds any more, and returns the file for being given back; nil if it
// is none. It needs mu.
func (c *chunks) idleFile(held *chunk) *cache.Handle {
	if !held.loaded || held.file == nil || held.holders > 0 {
		return nil
	}
	delete(c.known, held.id)
	return held.file
}

// answer counts one more answer that lies in a chunk, if there is room for what it holds: the first one holds the
// chunk's memory, others nothing more.
func (c *chunks) answer(in *chunk, admitted bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes := int64(0)
	if in.answers == 0 {
		bytes = in.size
	}
	if !c.reader.hold(bytes, admitted) {
		return false
	}
	in.answers++
	return true
}

// sent is the end of such an answer, and tells how much memory is held no longer.
func (c *chunks) sent(in *chunk) (bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.answers--; in.answers == 0 {
		return in.size
	}
	return 0
}

// aheadShare is the part of the memory for what was read ahead and not asked for: more would evict itself.
const aheadShare = 2

// readAhead begins a download that nobody waits for yet, unless what has been read ahead and not asked for fills its
// share of the memory. What is on the disk is near enough.
func (c *chunks) readAhead(o *object, index int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := chunkID{o.entry.UploadID, index}
	if _, found := c.known[id]; found || c.reader.options.Cache.Has(id.cached()) {
		return
	}
	size := o.chunkSize(index)
	if c.aheadBytes+size > c.limit/aheadShare {
		c.forgetAbandoned(time.Now())
	}
	if c.aheadBytes+size > c.limit/aheadShare {
		return
	}
	c.aheadBytes += size
	c.load(o, index, false).ahead = true
}

// forgetAbandoned evicts what was read ahead of readers that have not come. Others would not evict it: who goes on in
// order takes the place of what he has passed, and has nothing read ahead as long as this counts. It needs mu.
func (c *chunks) forgetAbandoned(now time.Time) {
	for at := c.used.Front(); at != nil; {
		old, following := at.Value.(*chunk), at.Next()
		if old.ahead && !old.live.After(now) {
			c.evict(old)
		}
		at = following
	}
}

// load begins to bring in a chunk, from the disk if it is there; it needs mu.
func (c *chunks) load(o *object, index int64, urgent bool) *chunk {
	next := &chunk{
		id: chunkID{o.entry.UploadID, index}, size: o.chunkSize(index), asked: time.Now(), ready: make(chan struct{}),
	}
	c.known[next.id] = next
	if file := c.reader.options.Cache.Get(next.id.cached()); file != nil {
		c.reader.work.Go(func() { c.open(o, next, file) })
		return next
	}
	ticket := c.reader.slots.enter(urgent)
	next.ticket = ticket
	c.reader.work.Go(func() { c.fetch(o, next, ticket) })
	return next
}

// open takes a chunk from the disk, or from the bucket if the file is no good.
func (c *chunks) open(o *object, next *chunk, file *cache.Handle) {
	if err := file.Open(); err != nil {
		file.Release()
		c.reader.options.Logger.Warn("a file of the cache is dropped", "err", err)
		ticket := c.reader.slots.enter(true)
		c.mu.Lock()
		next.ticket = ticket
		c.mu.Unlock()
		c.fetch(o, next, ticket)
		return
	}
	c.mu.Lock()
	next.file, next.loaded = file, true
	idle := c.idleFile(next) // whoever wanted it has left
	c.mu.Unlock()
	close(next.ready)
	if idle != nil {
		idle.Release()
	}
}

// fetch downloads a chunk, and lets the disk have it, too, once it has been given to whoever waits.
func (c *chunks) fetch(o *object, next *chunk, ticket *ticket) {
	ctx, leave, err := c.reader.await(ticket)
	if err != nil {
		next.err = err
		c.settle(next)
		close(next.ready)
		return
	}
	keep := c.reader.options.Cache.Reserve(next.id.cached(), next.size)
	next.data, next.err = c.download(ctx, o, next)
	c.settle(next)
	leave() // only now: until it is settled, it cannot be evicted for the sake of the next one
	data, failed := next.data, next.err != nil
	close(next.ready)
	if failed {
		keep.Cancel()
	} else if keep.Fill(data) {
		c.written(next)
	}
}

// written lets a chunk leave memory before all others: the disk has it.
func (c *chunks) written(next *chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(next)
}

func (c *chunks) download(ctx context.Context, o *object, next *chunk) ([]byte, error) {
	if err := c.reserve(ctx, next); err != nil {
		return nil, err
	}
	data := make([]byte, next.size)
	position := next.id.index * o.chunkBytes
	for attempt := 1; ; attempt++ {
		c.reader.metrics.gets.WithLabelValues("chunk").Inc()
		if _, err := c.reader.options.Bucket.Get(ctx, o.key, position, data); err != nil {
			return nil, fmt.Errorf("chunk %d of %s: %w", next.id.index, o.key, err)
		}
		err := o.tail.VerifyChunks(position, data)
		if err == nil {
			return data, nil
		}
		if attempt == maxVerifyAttempts {
			c.reader.metrics.corrupt.Inc()
			return nil, fmt.Errorf("chunk %d of %s: %w", next.id.index, o.key, err)
		}
	}
}

// maxVerifyAttempts is how often a chunk is read that does not fit its checksums: what was damaged on the way comes
// right the second time, what is damaged in the bucket does not.
const maxVerifyAttempts = 2

// evict needs mu.
func (c *chunks) evict(old *chunk) {
	c.used.Remove(old.place)
	old.place = nil
	delete(c.known, old.id)
	c.bytes -= old.size
	if old.ahead {
		old.ahead = false
		c.aheadBytes -= old.size
		c.reader.metrics.wasted.Inc()
	}
}

// settle takes in what has arrived, or forgets what has failed so that the next reader tries again.
func (c *chunks) settle(arrived *chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arrived.ticket = nil
	if arrived.err == nil {
		arrived.loaded = true
		arrived.place = c.used.PushBack(arrived)
		switch {
		case arrived.passed:
			c.retire(arrived)
		case arrived.ahead:
			arrived.live = time.Now().Add(aheadFor)
		default:
			arrived.live = time.Now().Add(liveFor)
		}
		return
	}
	c.forget(arrived)
	if arrived.reserved {
		c.bytes -= arrived.size
		c.reader.metrics.cached.Set(float64(c.bytes))
		c.notify()
	}
}

// forget takes what has not arrived out of the books; it needs mu.
func (c *chunks) forget(gone *chunk) {
	if c.known[gone.id] == gone {
		delete(c.known, gone.id)
	}
	if gone.ahead {
		gone.ahead = false
		c.aheadBytes -= gone.size
	}
}

// wait waits until a chunk is there.
func (c *chunk) wait(ctx context.Context) error {
	if err := objectstore.Await(ctx, c.ready, c.asked); err != nil {
		return err
	}
	return c.err
}
