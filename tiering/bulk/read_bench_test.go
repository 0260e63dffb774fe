package bulk

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/objectstore"
	"github.com/firnlog/firn/tiering/segment"
)

// BenchmarkRead reads one partition in bulk, and the same objects with ranges of the same size by as many readers. It
// reports both rates and their ratio: "far" is a store that answers each request 30 ms later and all together with
// 200 MB/s, "directory" one on the local disk, where what a core does decides.
func BenchmarkRead(b *testing.B) {
	h := newHistory(b, 1, 1)
	for range 4 {
		h.addRandom(0, 64*mib, 100*kib)
	}
	for range 8 {
		h.addRandom(0, 4*mib, 100*kib)
	}
	folder, err := objectstore.NewDirectory(vfs.OS(), b.TempDir())
	must(b, err)
	defer func() { must(b, folder.Close()) }()
	ctx := context.Background()
	must(b, h.bucket.List(ctx, "", "", func(object objectstore.ObjectInfo) error {
		data := make([]byte, object.Size)
		if _, err := h.bucket.Get(ctx, object.Key, 0, data); err != nil {
			return err
		}
		return folder.Put(ctx, object.Key, strings.NewReader(string(data)), object.Size, objectstore.PutOptions{})
	}))
	for name, bucket := range map[string]segment.Getter{"far": &far{Getter: h.bucket}, "directory": folder} {
		b.Run(name, func(b *testing.B) {
			var bytes int64
			var inBulk, raw time.Duration
			for b.Loop() {
				began := time.Now()
				bytes += readAll(b, bucket, h)
				inBulk += time.Since(began)
				began = time.Now()
				readRaw(b, bucket, h)
				raw += time.Since(began)
			}
			b.ReportMetric(float64(bytes)/1e6/inBulk.Seconds(), "MB/s")
			b.ReportMetric(float64(bytes)/1e6/raw.Seconds(), "raw-MB/s")
			b.ReportMetric(raw.Seconds()/inBulk.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func readAll(b *testing.B, bucket segment.Getter, h *history) (bytes int64) {
	err := Read(b.Context(), NewReader(Options{Bucket: bucket, Snapshot: h.snapshot}), h.snapshot.Ranges(),
		func(chunk *Chunk) (size int64, err error) {
			for _, batch := range chunk.Batches {
				size += int64(len(batch))
			}
			return size, nil
		}, func(_ Delivered, size int64) error { bytes += size; return nil })
	must(b, err)
	return bytes
}

func readRaw(b *testing.B, bucket segment.Getter, h *history) {
	var splits []Split
	for index, item := range h.snapshot.Partitions[0].Items {
		size := item.Summary().ObjectBytes
		for at := int64(0); at < size; at += defaultSplitBytes {
			splits = append(splits, Split{Key: h.keyOf(0, index), Position: at, Size: min(defaultSplitBytes, size-at)})
		}
	}
	var next atomic.Int64
	var group errgroup.Group
	for range defaultConcurrency {
		group.Go(func() error {
			var memory buffer
			for i := next.Add(1) - 1; i < int64(len(splits)); i = next.Add(1) - 1 {
				split := splits[i]
				if _, err := bucket.Get(b.Context(), split.Key, split.Position, memory.of(split.Size)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(b, group.Wait())
}

// far is a store across a network.
type far struct {
	segment.Getter

	mu   sync.Mutex // guards the field below
	free time.Time  // when the line is free
}

func (f *far) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	const latency, bytesPerSecond = 30 * time.Millisecond, 200e6
	wait(latency)
	f.mu.Lock()
	if now := time.Now(); f.free.Before(now) {
		f.free = now
	}
	f.free = f.free.Add(time.Duration(float64(len(dst)) / bytesPerSecond * float64(time.Second)))
	until := time.Until(f.free)
	f.mu.Unlock()
	wait(until)
	return f.Getter.Get(ctx, key, offset, dst)
}

func wait(d time.Duration) { <-time.After(d) }
