package fetch

import (
	"context"
	"fmt"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/cache"
	"github.com/firnlog/firn/tiering/segment"
)

// object is a segment object as one read sees it. It holds the chunks it has touched until close.
type object struct {
	reader     *Reader
	entry      command.SegmentEntry
	key        string
	tail       *segment.Tail
	chunkBytes int64
	held       []*chunk

	window   []byte // a part of the data, out of a file
	windowAt int64
}

func (r *Reader) open(ctx context.Context, in remoteSegment) (*object, error) {
	o := &object{reader: r, entry: in.entry, key: in.key}
	var err error
	if o.tail, err = r.tails.get(ctx, o.key, o.entry); err != nil {
		return nil, err
	}
	o.chunkBytes = chunkBytesOf(o.tail)
	return o, nil
}

// close gives back all chunks but one, which the caller has taken over.
func (o *object) close(keep *chunk) {
	for _, held := range o.held {
		if held != keep {
			o.reader.chunks.release(held)
		}
	}
	o.held = nil
}

func (o *object) index(position int64) int64 { return position / o.chunkBytes }

func (o *object) chunkSize(index int64) int64 {
	return min(o.chunkBytes, o.tail.DataBytes-index*o.chunkBytes)
}

// chunk is one that is held; nil if it is not.
func (o *object) chunk(index int64) *chunk {
	for _, held := range o.held {
		if held.id.index == index {
			return held
		}
	}
	return nil
}

func (o *object) holds(index int64) bool { return o.chunk(index) != nil }

// has tells whether a range of the data is in memory; if it is, it stays until close.
func (o *object) has(position, size int64) bool {
	for index := o.index(position); index <= o.index(position+size-1); index++ {
		if !o.holds(index) {
			there := o.reader.chunks.peek(o, index)
			if there == nil {
				return false
			}
			o.held = append(o.held, there)
		}
	}
	return true
}

// load waits until a range of the data is in memory.
func (o *object) load(ctx context.Context, position, size int64) error {
	if position < 0 || position+size > o.tail.DataBytes {
		return &segment.CorruptError{Position: position, Err: fmt.Errorf("%d bytes run past the data", size)}
	}
	first, last := o.index(position), o.index(position+size-1)
	for index := first; index <= last; index++ { // ask for all of them before waiting for one
		if !o.holds(index) {
			o.held = append(o.held, o.reader.chunks.acquire(o, index))
		}
	}
	for index := first; index < last; index++ { // from here on the reader is in the last one
		o.reader.chunks.pass(o.chunk(index))
	}
	for _, held := range o.held {
		if held.id.index < first || held.id.index > last {
			continue
		}
		if err := held.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// copyOf gives a range of the data as memory of its own.
func (o *object) copyOf(ctx context.Context, position, size int64) ([]byte, error) {
	if err := o.load(ctx, position, size); err != nil {
		return nil, err
	}
	data := make([]byte, 0, size)
	for index := o.index(position); index <= o.index(position+size-1); index++ {
		part := o.chunk(index)
		start := max(position-index*o.chunkBytes, 0)
		end := min(position+size-index*o.chunkBytes, part.size)
		if part.file == nil {
			data = append(data, part.data[start:end]...)
			continue
		}
		at := len(data)
		data = data[:at+int(end-start)]
		if err := readFile(part.file, data[at:], start); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func readFile(file *cache.Handle, p []byte, position int64) error {
	if n, err := file.File().ReadAt(p, position); n < len(p) {
		return fmt.Errorf("read the cache: %w", noEOF(err))
	}
	return nil
}

// bytes gives a range of the data, as memory that is not to be changed: a part of a chunk, or a copy where it crosses
// chunks or lies in a file.
func (o *object) bytes(ctx context.Context, position, size int64) ([]byte, error) {
	if err := o.load(ctx, position, size); err != nil {
		return nil, err
	}
	first := o.chunk(o.index(position))
	if start := position - first.id.index*o.chunkBytes; first.file == nil && start+size <= first.size {
		return first.data[start : start+size : start+size], nil
	}
	return o.copyOf(ctx, position, size)
}

// windowBytes is what is read at once of a file for the sake of headers.
const windowBytes = 4 << 10

// headerBytes gives the header at a position. Those in a file are read several at a time.
func (o *object) headerBytes(ctx context.Context, position int64) ([]byte, error) {
	if err := o.load(ctx, position, record.HeaderSize); err != nil {
		return nil, err
	}
	part := o.chunk(o.index(position))
	start := position - part.id.index*o.chunkBytes
	if part.file == nil || start+record.HeaderSize > part.size {
		return o.bytes(ctx, position, record.HeaderSize)
	}
	if position < o.windowAt || position+record.HeaderSize > o.windowAt+int64(len(o.window)) {
		window := make([]byte, min(windowBytes, part.size-start)) // headers out of the one before may still be in use
		if err := readFile(part.file, window, start); err != nil {
			return nil, err
		}
		o.window, o.windowAt = window, position
	}
	at := position - o.windowAt
	return o.window[at : at+record.HeaderSize : at+record.HeaderSize], nil
}

// batchAt is the place of a batch.
type batchAt struct {
	position int64
	size     int64
	header   record.Batch // the header only
}

func (b batchAt) end() int64 { return b.position + b.size }

// header reads the header of the batch at a position, which may have to arrive first.
func (o *object) header(ctx context.Context, position int64) (batchAt, error) {
	data, err := o.headerBytes(ctx, position)
	if err != nil {
		return batchAt{}, err
	}
	size, err := record.SizeOf(data)
	if err == nil && position+int64(size) > o.tail.DataBytes {
		err = fmt.Errorf("a batch of %d bytes runs past the data", size)
	}
	if err != nil {
		return batchAt{}, &segment.CorruptError{Position: position, Err: err}
	}
	return batchAt{position: position, size: int64(size), header: data}, nil
}

// batch reads a whole batch.
func (o *object) batch(ctx context.Context, at batchAt) (record.Batch, error) {
	return o.bytes(ctx, at.position, at.size)
}
