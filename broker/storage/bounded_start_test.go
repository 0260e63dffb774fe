package storage

import (
	"errors"
	"path"
	"slices"
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

// TestEpochsThatTheFileLacks has leader epochs that began in the active segment: the start after a clean stop has them
// without a look at the log, the one after a crash finds them there, and the file has them once the segment is sealed.
func TestEpochsThatTheFileLacks(t *testing.T) {
	mem, store := vfs.NewMem(), newMemoryStore()
	first := &disk{fs: mem, store: store}
	m, l := first.open(t, Config{})
	appendBatch(t, l, batchOf(2, 1000), 1, 1000)
	appendBatch(t, l, batchOf(2, 1000), 4, 1000)
	closeManager(t, m)
	want := []EpochEntry{{Epoch: 1, StartOffset: 0}, {Epoch: 4, StartOffset: 2}}

	var looks atomic.Int64 // into logs
	m, l = (&disk{store: store, fs: vfs.NewFaulty(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && path.Ext(op.Name) == ".log" {
			looks.Add(1)
		}
		return nil
	})}).restart(t, true)
	if !slices.Equal(l.Epochs(), want) || looks.Load() != 0 {
		t.Errorf("after a clean stop: %v, and %d looks into logs", l.Epochs(), looks.Load())
	}

	appendBatch(t, l, batchOf(2, 1000), 6, 1000)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	want = append(want, EpochEntry{Epoch: 6, StartOffset: 4})
	killed := &disk{fs: mem.KillClone(), store: &memoryStore{values: store.durable}}
	closeManager(t, m)
	m, l = killed.restart(t, false)
	if !slices.Equal(l.Epochs(), want) {
		t.Errorf("after a crash: %v", l.Epochs())
	}

	if err := errors.Join(l.Roll(), l.Flush()); err != nil {
		t.Fatal(err)
	}
	if written, err := readEpochFile(killed.fs, l.folder); err != nil || !slices.Equal(written, want) {
		t.Errorf("in the file of a sealed segment: %v, %v", written, err)
	}
	closeManager(t, m)
	if left, err := killed.store.Get(l.keys.kind(epochsKind)); left != nil || err != nil {
		t.Errorf("what the file has is kept twice: %q, %v", left, err)
	}
}

// restart opens the log again.
func (d *disk) restart(t *testing.T, clean bool) (*Manager, *Log) {
	t.Helper()
	m, result := d.start(t, Config{})
	l, err := m.Log(testTopic)
	if err != nil || result.Clean != clean {
		t.Fatalf("clean: %v, %v", result.Clean, err)
	}
	return m, l
}

func closeManager(t *testing.T, m *Manager) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
