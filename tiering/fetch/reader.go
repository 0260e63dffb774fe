package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/tiering/cache"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// Metadata is the cluster's, as reads need it.
type Metadata interface {
	Image() *image.Image
}

// Options are what a Reader is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Bucket     segment.Getter
	Metadata   Metadata
	Manifests  *manifest.Manifests // say what is remote
	// Local finds the local log of a partition, which goes on where the remote part ends.
	Local func(tp kafka.TopicIDPartition) (*storage.Log, error)
	// Cache is the disk's; nil keeps nothing there.
	Cache *cache.Cache

	Concurrency    int   // requests to the bucket at a time
	Queue          int   // reads that may be under way beyond that
	MemoryBytes    int64 // chunks and tails that are kept or on their way
	ReadAheadBytes int64 // ahead of one reader

	// MaxTopicSeries is the number of topics above which the series of single ones are left out of the metrics.
	MaxTopicSeries int
}

// Reader reads the remote part of logs. Its methods may be called concurrently; they work while Run does.
type Reader struct {
	options Options
	metrics metrics
	tails   tails
	chunks  chunks
	ahead   readAhead
	slots   *slots
	answers *semaphore.Weighted // bytes of reads under way, and of answers that have not been given back
	// mostSlots: what is being downloaded cannot be evicted, so no more may be than there is room for.
	mostSlots int
	lookup    record.Lookup
	work      sync.WaitGroup // requests, downloads and look-ups under way
	warned    atomic.Int64   // when a failure was last logged, in Unix nanoseconds

	mu      sync.Mutex      // guards the fields below
	base    context.Context // Run's; nil while it does not run
	pending int             // requests under way
	// concurrency is how many requests run at a time, if there is memory for them.
	concurrency int
}

// New makes a reader.
func New(options Options) *Reader {
	r := &Reader{
		options: options, metrics: newMetrics(options.Registerer, options.MaxTopicSeries),
		concurrency: max(options.Concurrency, 1),
	}
	tailBytes := options.MemoryBytes / tailShare
	chunkBytes := options.MemoryBytes - tailBytes
	r.tails.init(r, tailBytes)
	r.chunks.init(r, chunkBytes)
	r.ahead.init(options.ReadAheadBytes, chunkBytes/aheadShare)
	r.mostSlots = int(max(chunkBytes/maxChunkBytes, 1))
	r.slots = newSlots(min(r.concurrency, r.mostSlots))
	r.answers = semaphore.NewWeighted(max(options.MemoryBytes, maxChunkBytes))
	return r
}

// SetConcurrency changes how many requests the bucket gets at a time. Those under way go on.
func (r *Reader) SetConcurrency(requests int) {
	r.mu.Lock()
	r.concurrency = max(requests, 1)
	r.mu.Unlock()
	r.slots.setCount(min(max(requests, 1), r.mostSlots))
}

// tailShare is the part of the memory that is for tails: one in eight. The tail of a segment of 1 GiB with dense
// indexes has a few MiB, that of a usual one some hundred KiB.
const tailShare = 8

// Run lets requests in until ctx ends, and then waits for what is under way.
func (r *Reader) Run(ctx context.Context) {
	r.mu.Lock()
	r.base = ctx
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.base = nil
	r.mu.Unlock()
	r.work.Wait()
}

var (
	errNotRunning = fmt.Errorf("the object store is not read yet, or not any more: %w", kafka.KafkaStorageError)
	errTooMany    = fmt.Errorf("too many reads wait for the object store: %w", kafka.KafkaStorageError)
)

// enter lets a request in, or says why not. Who was let in leaves.
func (r *Reader) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.base == nil:
		return errNotRunning
	case r.pending >= r.concurrency+r.options.Queue:
		return errTooMany
	}
	r.pending++
	r.metrics.queued.Inc()
	r.work.Add(1)
	return nil
}

func (r *Reader) leave() {
	r.mu.Lock()
	r.pending--
	r.mu.Unlock()
	r.metrics.queued.Dec()
	r.work.Done()
}

// background is the context of downloads: they do not end with the request that asked for them, since the next one will
// want them, too.
func (r *Reader) background() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.base == nil {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		return ended
	}
	return r.base
}

// await waits for a slot and gives the context of the download that it is for.
func (r *Reader) await(t *ticket) (ctx context.Context, leave func(), err error) {
	base := r.background()
	select {
	case <-t.granted:
	case <-base.Done():
		r.slots.withdraw(t)
		return nil, nil, errNotRunning
	}
	ctx, cancel := context.WithTimeout(base, downloadDeadline)
	return ctx, func() { cancel(); r.slots.leave() }, nil
}

// downloadDeadline ends a download, with all its retries: then the next reader tries anew.
const downloadDeadline = time.Minute

// StartRead begins a read and returns at once. done is called exactly once: from a goroutine of the reader's, or at
// once if the read is refused. When ctx ends the read is given up; what it has asked the bucket for still arrives.
func (r *Reader) StartRead(ctx context.Context, tp kafka.TopicIDPartition, req storage.RemoteReadRequest,
	done func(storage.RemoteReadResult, error),
) {
	if err := r.enter(); err != nil {
		done(storage.RemoteReadResult{}, err)
		return
	}
	go func() { // Run waits for it
		defer r.leave()
		topic := r.topicName(tp)
		r.metrics.requests.WithLabelValues(topic).Inc()
		result, err := r.readHeld(ctx, tp, req)
		if err != nil {
			err = r.judge(ctx, topic, fmt.Errorf("read %s from offset %d: %w", tp, req.Offset, err))
		}
		r.metrics.bytes.WithLabelValues(topic).Add(float64(result.Size()))
		done(result, err)
	}()
}

// readHeld is read, and waits for memory for what the answer holds if there is none. It waits for that only when the
// records are there, and without holding them: who is admitted and waits for records would keep out those who have
// theirs.
func (r *Reader) readHeld(ctx context.Context, tp kafka.TopicIDPartition, req storage.RemoteReadRequest) (
	storage.RemoteReadResult, error,
) {
	result, err := r.read(ctx, tp, req, false)
	if !errors.Is(err, errNotAdmitted) {
		return result.RemoteReadResult, err
	}
	if err := r.admit(ctx); err != nil {
		return storage.RemoteReadResult{}, err
	}
	result, err = r.read(ctx, tp, req, true)
	if !result.inMemory {
		r.answers.Release(maxChunkBytes)
	}
	return result.RemoteReadResult, err
}

// judge gives an error its code for clients, and counts it. Only what is known to be below the log start is out of
// range; whatever is unknown or fails may be asked for again. Somebody who has left is no error of ours.
func (r *Reader) judge(ctx context.Context, topic string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, kafka.OffsetOutOfRange), errors.Is(err, kafka.NotLeaderOrFollower):
		return err
	}
	r.metrics.errors.WithLabelValues(topic).Inc()
	r.warn(err)
	return &readError{err}
}

// warnEvery keeps an outage, in which every poll of every consumer fails, from filling the log.
const warnEvery = 10 * time.Second

func (r *Reader) warn(err error) {
	now, last := time.Now().UnixNano(), r.warned.Load()
	if now-last >= int64(warnEvery) && r.warned.CompareAndSwap(last, now) {
		r.options.Logger.Warn("reading from the object store has failed", "err", err)
	}
}

// readError is retriable for clients, whatever codes the causes carry.
type readError struct{ err error }

func (e *readError) Error() string   { return e.err.Error() }
func (e *readError) Unwrap() []error { return []error{kafka.KafkaStorageError, e.err} }

func (r *Reader) topicName(tp kafka.TopicIDPartition) string {
	if topic, found := r.options.Metadata.Image().TopicByID(tp.ID); found {
		return topic.Name
	}
	return ""
}

// ForgetTopic lets go of what is kept for a deleted topic's metrics.
func (r *Reader) ForgetTopic(topic string) { r.metrics.forget(topic) }
