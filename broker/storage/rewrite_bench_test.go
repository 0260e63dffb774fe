package storage

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// BenchmarkRewrite writes segments anew that are not in the page cache, half of their batches: disk and processor have
// about as much to do.
func BenchmarkRewrite(b *testing.B) {
	const segments, segmentBytes = 4, 64 << 20
	d := &disk{fs: vfs.OS(), store: newMemoryStore()}
	m, l := d.open(b, Config{SegmentBytes: segmentBytes, IndexIntervalBytes: 4096}, func(o *ManagerOptions) {
		o.Dirs = []Directory{{Path: b.TempDir()}}
	})
	defer func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	}()
	batch := batchOfBytes(128 << 10)
	summary := summaryOf(b, batch)
	for len(l.Segments()) <= segments {
		if _, err := l.Append(batch, summary, AppendOptions{LeaderEpoch: 1, AppendedAt: 1}); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil {
		b.Fatal(err)
	}
	infos := l.Segments()
	b.SetBytes(segments * segmentBytes)
	for b.Loop() {
		b.StopTimer()
		for _, info := range infos[:segments] {
			forgetPages(b, segmentPath(l.folder.path(), info.BaseOffset, logSuffix))
		}
		b.StartTimer()
		for i, info := range infos[:segments] {
			rewriteHalf(b, l, info.BaseOffset, infos[i+1].BaseOffset)
		}
	}
}

// rewriteHalf reads all records of a segment, writes half of its batches, and leaves the segment as it was at the end.
func rewriteHalf(b *testing.B, l *Log, base, end int64) {
	r, err := l.OpenSegment(base)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	w, err := l.Rewrite(base, end)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abort()
	var records record.Iterator
	for n := 0; ; n++ {
		batch, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := records.Reset(batch); err != nil {
			b.Fatal(err)
		}
		for records.Next() { // what deciding about them takes
		}
		if n%2 == 0 {
			if err := w.Append(batch); err != nil {
				b.Fatal(err)
			}
		}
	}
	w.into.seal(end)
	if err := w.writeFiles(); err != nil {
		b.Fatal(err)
	}
}

// forgetPages takes a file out of the page cache.
func forgetPages(b *testing.B, name string) {
	file, err := vfs.OS().Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if err := unix.Fadvise(int(file.OSFile().Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		b.Fatal(err)
	}
}
