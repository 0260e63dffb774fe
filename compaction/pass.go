package compaction

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/firnlog/firn/broker/record"
)

// passOptions are what one pass is told beside the log.
type passOptions struct {
	Now int64 // ms since 1970
	// Throttle waits until so many bytes more may be read or written; nil never waits. What it returns ends the pass.
	Throttle func(ctx context.Context, bytes int) error
	// Progress is told after each segment that was mapped or written; it may be nil.
	Progress func(Stats)
}

// Stats are what a pass has done so far.
type Stats struct {
	StartOffset   int64   // the first dirty offset
	EndOffset     int64   // below it the log is cleaned now
	TargetOffset  int64   // the first offset that may not be cleaned; above EndOffset if the map could not hold all keys
	BytesToRead   int64   // by both phases together
	MapBytesRead  int64   // of the dirty part, for the map
	BytesRead     int64   // of the segments that were written anew
	BytesWritten  int64   // of them
	RecordsRead   int64   // of them
	RecordsKept   int64   // of them
	WithoutKey    int64   // records that had none, and went
	GroupsWritten int64   // groups of segments that were replaced by one
	BufferUsed    float64 // of the key map, 0 to 1
}

// workspace is the memory of a worker, for one pass after the other.
type workspace struct {
	keys    *keyMap
	records record.Iterator
	filter  record.Filter
	out     []byte // batches on their way into a sink
	shown   [record.ChooserRecords]shownRecord
	hashes  [record.ChooserRecords]keyHash // of those that have a key
}

// shownRecord is a record whose key is about to be looked up, or put, together with others.
type shownRecord struct {
	offset    int64
	hasKey    bool
	tombstone bool
}

// newWorkspace makes a workspace whose key map takes so much memory (its part of log.cleaner.dedupe.buffer.size) and is
// filled up to a load factor (log.cleaner.io.buffer.load.factor).
func newWorkspace(bufferBytes int64, loadFactor float64) *workspace {
	return &workspace{keys: newKeyMap(bufferBytes, loadFactor)}
}

const (
	// writeBytes is how much is written at once.
	writeBytes = 256 << 10
	// throttleBytes is how often the throttle is asked: at small budgets a pass must not go in leaps.
	throttleBytes = 64 << 10
)

// pass is one run over one log: the keys of its dirty part are mapped, as many as the map holds, and all segments up to
// there are written anew.
type pass struct {
	*workspace
	log         Log
	opts        passOptions
	view        View
	stats       Stats
	mapped      int64 // what lies below is in the map; what does not is kept
	unthrottled int
	writing     writing
}

// clean makes one pass over a log, if any of it is dirty. When the map could not hold all keys another pass goes on
// from there: the stats say so. After an error the log holds the old or the new segments, which mean the same.
func clean(ctx context.Context, log Log, work *workspace, opts passOptions) (Stats, error) {
	p := &pass{workspace: work, log: log, opts: opts}
	err := p.run(ctx)
	return p.stats, err
}

func (p *pass) run(ctx context.Context) (err error) {
	if p.view, err = p.log.View(); err != nil {
		return err
	}
	dirty := assess(p.view, p.opts.Now)
	p.stats = Stats{
		StartOffset:  dirty.StartOffset,
		EndOffset:    dirty.StartOffset,
		TargetOffset: dirty.EndOffset,
		BytesToRead:  dirty.CleanBytes + 2*dirty.CleanableBytes,
	}
	if !dirty.HasWork() {
		return nil
	}
	if err := p.mapKeys(ctx, dirty.CleanableBytes); err != nil {
		return err
	}
	p.stats.BufferUsed = p.keys.load()
	if err := p.rewrite(ctx); err != nil {
		return err
	}
	if err := p.log.SetCleaned(p.mapped); err != nil {
		return err
	}
	p.stats.EndOffset = p.mapped
	return nil
}

// mapKeys fills the map with the keys of the dirty part. A small part gets a small map; if that was too small after
// all, since records that compress well are smaller than any in clear, it begins again with all the memory.
func (p *pass) mapKeys(ctx context.Context, dirtyBytes int64) error {
	p.keys.reset(dirtyBytes / minRecordBytes)
	full, err := p.mapSegments(ctx)
	if full && err == nil && p.keys.hasMore() {
		p.stats.MapBytesRead = 0
		p.keys.reset(maxKeys)
		_, err = p.mapSegments(ctx)
	}
	return err
}

// mapSegments moves mapped to the end of what the map could take.
func (p *pass) mapSegments(ctx context.Context) (full bool, err error) {
	p.mapped = p.stats.StartOffset
	aborted, err := p.log.AbortedTransactions(p.stats.StartOffset, p.stats.TargetOffset)
	if err != nil {
		return false, err
	}
	tracked := newTransactions(aborted, p.stats.StartOffset)
	for _, s := range p.view.Segments {
		if s.EndOffset <= p.stats.StartOffset || s.BaseOffset >= p.stats.TargetOffset {
			continue
		}
		full, err := p.mapSegment(ctx, s, tracked)
		if full || err != nil {
			return full, err
		}
		p.mapped = s.EndOffset
		p.progress()
	}
	return false, nil
}

func (p *pass) mapSegment(ctx context.Context, s Segment, tracked *transactions) (full bool, err error) {
	err = p.eachBatch(ctx, s, func(b record.Batch) error {
		p.stats.MapBytesRead += int64(len(b))
		if b.LastOffset() < p.stats.StartOffset {
			return nil
		}
		if full, err = p.mapBatch(b, tracked); full {
			return errStop
		}
		return err
	})
	return full, err
}

// errStop ends a walk over batches early, without being an error.
var errStop = errors.New("the map is full")

// mapBatch puts the keys of a batch into the map, unless its transaction was aborted.
func (p *pass) mapBatch(b record.Batch, tracked *transactions) (full bool, err error) {
	if b.IsControl() {
		_, err := tracked.control(b)
		return false, err
	}
	if !tracked.data(b) {
		if err := p.records.Reset(b); err != nil {
			return false, err
		}
		for known := len(p.hashes); known == len(p.hashes); {
			known = p.hashKeys()
			p.keys.touch(p.hashes[:known])
			for i, hash := range p.hashes[:known] {
				if offset := p.shown[i].offset; !p.keys.put(hash, offset) {
					p.mapped = offset
					return true, nil
				}
			}
		}
		if err := p.records.Err(); err != nil {
			return false, err
		}
	}
	p.mapped = b.NextOffset()
	return false, nil
}

// hashKeys hashes the keys of the next dirty records, and counts them; fewer than there could be are the last.
func (p *pass) hashKeys() (known int) {
	for known < len(p.hashes) && p.records.Next() {
		key, offset := p.records.Record().Key, p.records.Offset()
		if key == nil || offset < p.stats.StartOffset {
			continue
		}
		p.hashes[known], p.shown[known].offset = p.keys.hash(key), offset
		known++
	}
	return known
}

// eachBatch visits the batches of a segment.
func (p *pass) eachBatch(ctx context.Context, s Segment, visit func(record.Batch) error) error {
	source, err := p.log.Open(s.BaseOffset)
	if err != nil {
		return err
	}
	defer source.Close()
	for {
		b, err := source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.throttle(ctx, len(b)); err != nil {
			return err
		}
		if err := visit(b); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return fmt.Errorf("clean the batch at offset %d: %w", b.BaseOffset(), err)
		}
	}
}

// throttle accounts for bytes that were read or written.
func (p *pass) throttle(ctx context.Context, bytes int) error {
	if p.unthrottled += bytes; p.unthrottled < throttleBytes {
		return nil
	}
	bytes, p.unthrottled = p.unthrottled, 0
	if err := ctx.Err(); err != nil || p.opts.Throttle == nil {
		return err
	}
	return p.opts.Throttle(ctx, bytes)
}

func (p *pass) progress() {
	if p.opts.Progress != nil {
		p.opts.Progress(p.stats)
	}
}
