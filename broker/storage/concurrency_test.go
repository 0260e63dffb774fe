package storage

import (
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// TestReadersNeverSeeAHalfWhileTheLogMoves appends, rolls, flushes and drops segments on real files with tiny caches,
// while readers check every batch they get.
func TestReadersNeverSeeAHalfWhileTheLogMoves(t *testing.T) {
	d := &disk{fs: vfs.OS(), store: newMemoryStore()}
	dir := t.TempDir()
	m, l := d.open(t, Config{SegmentBytes: 4000, IndexIntervalBytes: 300}, func(o *ManagerOptions) {
		o.Dirs, o.MaxOpenFiles, o.MaxOpenIndexes = []Directory{{Path: dir}}, 2, 2
	})
	stop := runManager(t, m)
	defer stop()
	var done atomic.Bool
	var group errgroup.Group
	group.Go(func() error {
		defer done.Store(true)
		for i := range 3000 {
			if _, err := tryAppend(l, batchOf(1+i%4, int64(i)), 0, int64(i)); err != nil {
				return err
			}
			if i%50 == 0 {
				l.RequestFlush()
			}
		}
		return nil
	})
	group.Go(func() error {
		for !done.Load() {
			l.SetHighWatermark(l.EndOffset())
			start := max(l.LogStartOffset(), l.HighWatermark()-1500)
			if err := l.MoveLogStart(start); err != nil {
				return err
			}
			if _, err := l.MoveLocalStart(start, "test"); err != nil {
				return err
			}
		}
		return nil
	})
	for range 3 {
		group.Go(func() error { return readUntil(l, &done) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func readUntil(l *Log, done *atomic.Bool) error {
	offset := int64(0)
	for !done.Load() {
		result, err := l.Read(ReadRequest{Offset: offset, MaxBytes: 3000, AtLeastOne: true, UpTo: l.EndOffset()})
		if kafka.CodeOf(err) == kafka.OffsetOutOfRange {
			offset = l.LogStartOffset()
			continue
		}
		if err != nil {
			return err
		}
		if err := checkRegion(result, offset); err != nil {
			return err
		}
		offset = result.NextOffset
		if _, _, err := l.OffsetForTimestamp(offset/3, l.EndOffset()); err != nil {
			return err
		}
	}
	return nil
}

func checkRegion(result ReadResult, offset int64) error {
	defer result.Region.Release()
	data := make([]byte, result.Region.Size())
	if _, err := result.Region.ReadAt(data, 0); err != nil && len(data) > 0 {
		return err
	}
	for len(data) > 0 {
		batch, rest, err := record.Next(data)
		if err != nil {
			return err
		}
		if batch.NextOffset() <= offset {
			return errors.New("a batch below the offset that was asked for")
		}
		offset, data = batch.NextOffset(), rest
		if err := batch.VerifyCRC(); err != nil {
			return err
		}
	}
	if offset != result.NextOffset {
		return errors.New("the next offset is not the end of the last batch")
	}
	return nil
}

// TestHoleAtTheEndOfASegment is FE-08: compaction has removed the last batches of a segment, and a read there goes on
// in the next one.
func TestHoleAtTheEndOfASegment(t *testing.T) {
	d := newDisk()
	m, l := d.open(t, Config{SegmentBytes: 300, IndexIntervalBytes: 100})
	for range 4 {
		appendBatch(t, l, batchOf(2, 1000), 0, 1)
	}
	segments := l.Segments()
	if len(segments) != 2 || segments[1].BaseOffset != 4 {
		t.Fatalf("%+v", segments)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	firstOnly := func(batch record.Batch) bool { return batch.BaseOffset() == 0 }
	if _, err := rewriteKeeping(t, l, 1, firstOnly); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{2, 3} {
		result, err := l.Read(ReadRequest{Offset: offset, MaxBytes: 100, AtLeastOne: true, UpTo: l.EndOffset()})
		if err != nil || result.FirstOffset != 4 || result.Size == 0 {
			t.Fatalf("read at the missing offset %d: %+v, %v", offset, result, err)
		}
		result.Region.Release()
		result, err = l.Read(ReadRequest{Offset: offset, MaxBytes: 100, AtLeastOne: true, UpTo: 4})
		if err != nil || result.Size != 0 {
			t.Fatalf("read at the missing offset %d up to the segment's end: %+v, %v", offset, result, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
