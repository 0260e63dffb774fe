package storage

import (
	"path"
	"sync/atomic"
	"testing"

	"github.com/firnlog/firn/internal/vfs"
)

// TestCR13AnUncleanStartReadsTheNewestSegmentsOnly has a log of many segments and a process that was killed: what was
// sealed and flushed is not read again, however much of it there is.
func TestCR13AnUncleanStartReadsTheNewestSegmentsOnly(t *testing.T) {
	const segments = 5000
	d := newDisk()
	m, l := d.open(t, Config{SegmentBytes: 200, IndexIntervalBytes: 0})
	var bytes int64
	for range segments { // each has room for one batch
		batch := batchOf(2, 1000)
		appendBatch(t, l, batch, 1, 1000)
		bytes += int64(len(batch))
	}
	if got := len(l.Segments()); got != segments {
		t.Fatalf("%d segments", got)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := m.checkpoint(); err != nil {
		t.Fatal(err)
	}
	end := l.EndOffset()

	var read atomic.Int64
	killed := &disk{
		fs: vfs.NewFaulty(d.fs.(*vfs.Mem).KillClone(), func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && path.Ext(op.Name) == ".log" {
				read.Add(op.Size)
			}
			return nil
		}),
		store: &memoryStore{values: d.store.durable},
	}
	again, result := killed.start(t, Config{SegmentBytes: 200, IndexIntervalBytes: 0})
	if result.Clean || len(result.Offline) != 0 {
		t.Fatalf("loaded %+v", result)
	}
	reopened, err := again.Log(testTopic)
	if err != nil || reopened.EndOffset() != end {
		t.Fatalf("the log ends at %d instead of %d: %v", reopened.EndOffset(), end, err)
	}
	if got := read.Load(); got > bytes/100 {
		t.Errorf("%d bytes of logs were asked for, of %d", got, bytes)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
