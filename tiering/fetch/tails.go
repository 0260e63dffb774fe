package fetch

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// tailEntry is a decoded tail, in memory or on its way.
type tailEntry struct {
	upload kafka.UUID
	bytes  int64
	asked  time.Time
	ready  chan struct{} // closed when the next two are set
	tail   *segment.Tail
	err    error
	place  *list.Element // in order of use; nil while it is on its way. Guarded by tails.mu.
}

// tails is a bounded cache of decoded tails. They are apart from chunks, so that a scan of data does not evict what
// finds the data.
type tails struct {
	reader *Reader
	limit  int64 // bytes; the newest one stays even if it has more

	mu    sync.Mutex // guards the fields below
	known map[kafka.UUID]*tailEntry
	used  *list.List // the least recently used first
	bytes int64
}

func (t *tails) init(reader *Reader, limit int64) {
	t.reader, t.limit = reader, limit
	t.known, t.used = map[kafka.UUID]*tailEntry{}, list.New()
}

// get gives the tail of an object, with one request if it is not known.
func (t *tails) get(ctx context.Context, key string, entry command.SegmentEntry) (*segment.Tail, error) {
	wanted := t.lookup(key, entry)
	if err := objectstore.Await(ctx, wanted.ready, wanted.asked); err != nil {
		return nil, err
	}
	return wanted.tail, wanted.err
}

func (t *tails) lookup(key string, entry command.SegmentEntry) *tailEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, found := t.known[entry.UploadID]; found {
		if known.place != nil {
			t.used.MoveToBack(known.place)
		}
		return known
	}
	next := &tailEntry{
		upload: entry.UploadID, bytes: int64(entry.TailBytes), asked: time.Now(), ready: make(chan struct{}),
	}
	t.known[entry.UploadID] = next
	t.reader.work.Go(func() {
		defer close(next.ready)
		next.tail, next.err = t.download(key, entry)
		t.settle(next)
	})
	return next
}

func (t *tails) download(key string, entry command.SegmentEntry) (*segment.Tail, error) {
	ctx, leave, err := t.reader.await(t.reader.slots.enter(true))
	if err != nil {
		return nil, err
	}
	defer leave()
	t.reader.metrics.gets.WithLabelValues("tail").Inc()
	tail, err := segment.ReadTail(ctx, t.reader.options.Bucket, key, entry.ObjectBytes, entry.TailBytes)
	if err == nil && (tail.BaseOffset != entry.BaseOffset || tail.EndOffset != entry.EndOffset) {
		err = fmt.Errorf("%s has the range [%d, %d), the manifest says [%d, %d)",
			key, tail.BaseOffset, tail.EndOffset, entry.BaseOffset, entry.EndOffset)
	}
	if segment.IsCorrupt(err) || errors.Is(err, io.ErrUnexpectedEOF) { // the object is shorter than it was
		t.reader.metrics.corrupt.Inc()
	}
	return tail, err
}

// settle takes in what has arrived, or forgets what has failed so that the next reader tries again.
func (t *tails) settle(arrived *tailEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if arrived.err != nil {
		delete(t.known, arrived.upload)
		return
	}
	arrived.place = t.used.PushBack(arrived)
	t.bytes += arrived.bytes
	for t.bytes > t.limit && t.used.Len() > 1 {
		old := t.used.Remove(t.used.Front()).(*tailEntry)
		delete(t.known, old.upload)
		t.bytes -= old.bytes
	}
}
