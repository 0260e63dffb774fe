package compaction

import (
	"context"
	"math"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
)

// writing is the second phase of a pass: what it knows besides the map.
type writing struct {
	transactions *transactions
	producers    map[int64]storage.LastRecord
	horizon      int64 // for tombstones and markers that have none yet
	sink         Sink
	changed      bool // what is written of the group is not what was read

	// Of the current batch.
	baseOffset   int64
	tombstonesGo bool // its delete horizon has come
}

// rewrite writes all segments up to the end of the map anew, one group after the other. Each group is in its place
// before the next one begins, so a pass needs no more disk than for one segment. Older groups come first: a tombstone
// never goes before what it deletes.
func (p *pass) rewrite(ctx context.Context) error {
	groups := group(p.view.Segments[:len(p.view.Segments)-1], p.view.Settings, p.mapped)
	last := groups[len(groups)-1]
	start, end := groups[0][0].BaseOffset, last[len(last)-1].EndOffset
	aborted, err := p.log.AbortedTransactions(start, end)
	if err != nil {
		return err
	}
	p.writing = writing{
		transactions: newTransactions(aborted, start),
		producers:    p.log.LastRecordsOfProducers(),
		horizon:      later(p.opts.Now, p.view.Settings.DeleteRetentionMs),
	}
	for _, segments := range groups {
		if err := p.rewriteGroup(ctx, segments); err != nil {
			return err
		}
		p.progress()
	}
	return nil
}

// later adds to a time; a time that does not exist is the last one that does.
func later(now, ms int64) int64 {
	if ms > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + ms
}

// rewriteGroup makes one segment of a group. One that would be the same again is left as it is.
func (p *pass) rewriteGroup(ctx context.Context, segments []Segment) error {
	sink, err := p.log.Replace(segments[0].BaseOffset, segments[len(segments)-1].EndOffset)
	if err != nil {
		return err
	}
	defer sink.Abort()
	p.writing.sink, p.writing.changed, p.out = sink, len(segments) > 1, p.out[:0]
	for _, s := range segments {
		if err := p.eachBatch(ctx, s, func(b record.Batch) error { return p.filterBatch(ctx, b) }); err != nil {
			return err
		}
	}
	if err := p.flush(ctx); err != nil || !p.writing.changed {
		return err
	}
	if err := sink.Commit(); err != nil {
		return err
	}
	p.stats.GroupsWritten++
	return nil
}

// filterBatch writes what is kept of a batch.
func (p *pass) filterBatch(ctx context.Context, b record.Batch) error {
	opts, err := p.judge(b)
	if err != nil {
		return err
	}
	before := len(p.out)
	out, filtered, err := p.filter.Append(p.out, b, opts)
	if err != nil {
		return err
	}
	p.out = out
	p.stats.BytesRead += int64(len(b))
	p.stats.RecordsRead += int64(b.Count())
	p.stats.BytesWritten += int64(len(out) - before)
	p.stats.RecordsKept += int64(filtered.Records)
	p.writing.changed = p.writing.changed || !filtered.Unchanged
	if len(p.out) < writeBytes {
		return nil
	}
	return p.flush(ctx)
}

// judge tells what becomes of a batch as a whole. A marker whose transaction has no records left stays for
// delete.retention.ms, so that a reader that has seen such records sees it.
func (p *pass) judge(b record.Batch) (record.FilterOptions, error) {
	w := &p.writing
	horizonCame := b.HasDeleteHorizon() && b.BaseTimestamp() <= p.opts.Now
	opts := record.FilterOptions{
		DeleteHorizon: w.horizon,
		Level:         p.view.Settings.level(b.Codec()),
		RetainEmpty:   b.NextOffset() == p.stats.TargetOffset || p.isLastOfProducer(b),
	}
	if !b.IsControl() {
		if !w.transactions.data(b) {
			w.baseOffset, w.tombstonesGo = b.BaseOffset(), horizonCame
			opts.Choose = p
		}
		return opts, nil
	}
	marker, err := w.transactions.control(b)
	if err != nil {
		return opts, err
	}
	if marker.aborted != nil {
		w.sink.KeepAborted(*marker.aborted)
	}
	if !marker.idle || !horizonCame {
		opts.Choose, opts.NeedsHorizon = record.All{}, marker.idle
	}
	return opts, nil
}

// isLastOfProducer tells whether a batch has the last sequence number of a live producer, or, where it has none, the
// epoch. Without its records it is enough to know both again when the state of producers is made from the log.
func (p *pass) isLastOfProducer(b record.Batch) bool {
	if !b.HasProducerID() {
		return false
	}
	last, ok := p.writing.producers[b.ProducerID()]
	if !ok {
		return false
	}
	if last.LastDataOffset >= 0 {
		return b.LastOffset() == last.LastDataOffset
	}
	return b.IsControl() && b.ProducerEpoch() == last.Epoch
}

// See implements record.Chooser.
func (p *pass) See(at int, r *record.Record) {
	shown := &p.shown[at]
	*shown = shownRecord{
		offset: p.writing.baseOffset + int64(r.OffsetDelta), hasKey: r.Key != nil, tombstone: r.Value == nil,
	}
	if shown.hasKey {
		p.hashes[at] = p.keys.hash(r.Key)
	}
}

// Choose implements record.Chooser: what the map does not reach is kept, and else the last record of its key, until the
// delete horizon if it is a tombstone.
func (p *pass) Choose(keep []bool) {
	p.keys.touch(p.hashes[:len(keep)]) // of a record without a key it is some other hash
	for i := range keep {
		switch shown := &p.shown[i]; {
		case shown.offset >= p.mapped:
			keep[i] = true
		case !shown.hasKey:
			p.stats.WithoutKey++
		case shown.tombstone && p.writing.tombstonesGo:
		default:
			keep[i] = p.keys.last(p.hashes[i]) <= shown.offset
		}
	}
}

func (p *pass) flush(ctx context.Context) error {
	if len(p.out) == 0 {
		return nil
	}
	if err := p.writing.sink.Append(p.out); err != nil {
		return err
	}
	bytes := len(p.out)
	p.out = p.out[:0]
	return p.throttle(ctx, bytes)
}
