package bulk

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"

	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
	"github.com/firnlog/firn/tiering/segment"
)

// Options are what a Reader is made of.
type Options struct {
	Bucket   segment.Getter
	Snapshot *Snapshot
	// Concurrency is how many splits are read at a time, be they of one partition or of many. Default 8.
	Concurrency int
	// SplitBytes is how large a split is about, in bytes. Default 8 MiB. One is larger where a batch is, or where the
	// index of an object has nothing to cut it by.
	SplitBytes int64
	// ReadCommitted leaves out what aborted transactions have written.
	ReadCommitted bool
	// ControlBatches lets the markers of transactions through.
	ControlBatches bool
}

const (
	defaultConcurrency = 8
	// defaultSplitBytes: ranges of that size reach nearly all of a store's throughput.
	defaultSplitBytes = 8 << 20
	// manifestBytes is for sealed parts of manifests. Each is read once, and needed until its last object is planned.
	manifestBytes = 16 << 20
	// maxAttempts is how often something is read that does not fit its checksums: what was damaged on the way comes right
	// the second time, what is damaged in the bucket does not.
	maxAttempts = 2
)

// Reader reads the objects of a snapshot. Its methods may be called concurrently.
type Reader struct {
	bucket         segment.Getter
	snapshot       *Snapshot
	manifests      *manifest.Manifests
	concurrency    int
	splitBytes     int64
	readCommitted  bool
	controlBatches bool
}

// NewReader makes a reader.
func NewReader(options Options) *Reader {
	return &Reader{
		bucket: options.Bucket, snapshot: options.Snapshot,
		manifests: manifest.New(manifest.Options{
			Source: newSource(options.Snapshot), Bucket: options.Bucket, ClusterID: options.Snapshot.ClusterID,
			CacheBytes: manifestBytes,
		}),
		concurrency:   max(cmp.Or(options.Concurrency, defaultConcurrency), 1),
		splitBytes:    max(cmp.Or(options.SplitBytes, defaultSplitBytes), 1),
		readCommitted: options.ReadCommitted, controlBatches: options.ControlBatches,
	}
}

// ReadSplit reads one split, wherever it was planned.
func (r *Reader) ReadSplit(ctx context.Context, split Split) (*Chunk, error) {
	split.chained = false
	chunk, err := r.readSplit(ctx, split, &buffer{})
	if err != nil {
		return nil, judge(place{split.Partition, split.From, split.Key}, err)
	}
	return chunk, nil
}

// buffer is memory that is used again for split after split.
type buffer struct{ data []byte }

func (b *buffer) of(size int64) []byte {
	if int64(cap(b.data)) < size {
		b.data = make([]byte, size)
	}
	return b.data[:size]
}

// readSplit reads a split into a buffer, which the chunk aliases. Checksums are those of the object's chunks, so what
// is read is rounded out to them. But where the split that follows is read, too, its first chunk begins with the few
// batches that this one has at the end, and is checked as a whole; so it is enough that both have seen the same
// bytes.
func (r *Reader) readSplit(ctx context.Context, split Split, into *buffer) (*Chunk, error) {
	if split.Size == 0 {
		return &Chunk{Split: split, Next: split.To}, nil
	}
	if split.Position == 0 && split.Size == split.Entry.DataBytes && split.tail == nil {
		return r.readWhole(ctx, split, into)
	}
	tail := split.tail
	if tail == nil {
		var err error
		if tail, err = r.readTail(ctx, split.Key, split.Entry); err != nil {
			return nil, err
		}
	}
	end := split.Position + split.Size
	if split.Position < 0 || split.Size < 0 || end > tail.DataBytes {
		return nil, fmt.Errorf("[%d, %d) is no part of %d bytes of data", split.Position, end, tail.DataBytes)
	}
	begin, edge := split.Position/tail.ChunkBytes*tail.ChunkBytes, end/tail.ChunkBytes*tail.ChunkBytes
	verified := min((end+tail.ChunkBytes-1)/tail.ChunkBytes*tail.ChunkBytes, tail.DataBytes)
	size := verified - begin
	if split.chained {
		verified, size = edge, end-begin
	}
	data := into.of(size)
	for attempt := 1; ; attempt++ {
		if _, err := r.bucket.Get(ctx, split.Key, begin, data); err != nil {
			return nil, err
		}
		var chunk *Chunk
		err := tail.VerifyChunks(begin, data[:verified-begin])
		if err == nil {
			chunk, err = r.parse(split, tail, data[split.Position-begin:end-begin])
		}
		if err == nil {
			chunk.head, chunk.edge = checksum(data[:split.Position-begin]), checksum(data[edge-begin:end-begin])
			return chunk, nil
		}
		if attempt == maxAttempts {
			return nil, err
		}
	}
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// readWhole reads a small object with its tail.
func (r *Reader) readWhole(ctx context.Context, split Split, into *buffer) (*Chunk, error) {
	data := into.of(split.Entry.ObjectBytes)
	for attempt := 1; ; attempt++ {
		if _, err := r.bucket.Get(ctx, split.Key, 0, data); err != nil {
			return nil, err
		}
		var chunk *Chunk
		tail, err := segment.ParseTailOf(split.Key, split.Entry.ObjectBytes, data[split.Entry.DataBytes:])
		if err == nil {
			err = tail.VerifyChunks(0, data[:tail.DataBytes])
		}
		if err == nil {
			chunk, err = r.parse(split, tail, data[:tail.DataBytes])
		}
		if err == nil || attempt == maxAttempts {
			return chunk, err
		}
	}
}

// readTail reads the tail of an object.
func (r *Reader) readTail(ctx context.Context, key string, entry command.SegmentEntry) (*segment.Tail, error) {
	for attempt := 1; ; attempt++ {
		tail, err := segment.ReadTail(ctx, r.bucket, key, entry.ObjectBytes, entry.TailBytes)
		if err == nil || !segment.IsCorrupt(err) || attempt == maxAttempts {
			return tail, err
		}
	}
}
