package segment

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/firnlog/firn/broker/record"
)

// Object is a segment object that is about to be put: the data where it lies, followed by the tail in memory. Nothing
// is copied. It may be read by several goroutines, and as long as the data may be.
type Object struct {
	Tail     *Tail // aliases encoded, not what New was given
	data     io.ReaderAt
	encoded  []byte // tail and trailer
	checksum uint32
}

var _ io.ReaderAt = (*Object)(nil)

// New reads the data once to check it and to fill in the tail's Contents, of which the caller sets only DataBytes. Data
// that is damaged or does not fit the range or the indexes is a *CorruptError: what is broken here must not become the
// only copy.
func New(ctx context.Context, data io.ReaderAt, tail Tail) (*Object, error) {
	if err := examine(ctx, data, DefaultChunkBytes, &tail); err != nil {
		return nil, err
	}
	if err := tail.check(); err != nil {
		return nil, err
	}
	if size := tail.EncodedBytes(); size > MaxTailBytes {
		return nil, fmt.Errorf("the tail would have %d bytes, more than the %d that a reader accepts", size, MaxTailBytes)
	}
	o := &Object{data: data, encoded: tail.AppendTo(make([]byte, 0, tail.EncodedBytes()))}
	o.checksum = crc32.Update(tail.dataChecksum, castagnoli, o.encoded)
	var err error
	if o.Tail, err = ParseTail(o.encoded); err != nil { // what cannot be read back must not be put
		return nil, err
	}
	return o, nil
}

// Size is the length of the object.
func (o *Object) Size() int64 { return o.Tail.DataBytes + int64(len(o.encoded)) }

// CRC32C is the checksum of the whole object.
func (o *Object) CRC32C() uint32 { return o.checksum }

// ReadAt implements io.ReaderAt.
func (o *Object) ReadAt(p []byte, position int64) (n int, err error) {
	if fromData := o.Tail.DataBytes - position; fromData > 0 {
		n, err = o.data.ReadAt(p[:min(int64(len(p)), fromData)], position)
		if int64(n) < min(int64(len(p)), fromData) {
			return n, shorterThanData(err)
		}
	}
	if n == len(p) {
		return n, nil
	}
	position += int64(n)
	if position < o.Size() {
		n += copy(p[n:], o.encoded[position-o.Tail.DataBytes:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func shorterThanData(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// examine scans the data into the tail's Contents and checks it against range and indexes.
func examine(ctx context.Context, data io.ReaderAt, chunkBytes int64, tail *Tail) error {
	first, end, indexed := int64(-1), int64(0), 0
	err := scan(ctx, data, chunkBytes, &tail.Contents, func(position int64, batch record.Batch) error {
		if first < 0 {
			first = batch.NextOffset()
		}
		end = batch.NextOffset()
		if indexed < tail.offsetEntries() && tail.offsetEntry(indexed).position == position {
			if entry := tail.offsetEntry(indexed); entry.offset < batch.BaseOffset() {
				return corrupt(position, "the offset index has offset %d here, which is before %s", entry.offset, batch.String())
			}
			indexed++
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case indexed < tail.offsetEntries():
		position := tail.offsetEntry(indexed).position
		return corrupt(position, "the offset index points to byte %d, where no batch begins", position)
	case first >= 0 && first <= tail.BaseOffset:
		return corrupt(0, "the first batch ends before offset %d, where the range begins", tail.BaseOffset)
	case end > tail.EndOffset:
		return corrupt(tail.DataBytes, "the last batch ends at offset %d, the range at %d", end, tail.EndOffset)
	}
	return nil
}
