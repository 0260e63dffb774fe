package storage

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// segmentReadSize is what is read of a segment at once. Larger reads gain nothing, and a batch that is larger gets the
// buffer that it needs.
const segmentReadSize = 1 << 20

// segmentReadAhead is how much of a segment the disk is kept busy with beyond what is worked on: whoever reads it works
// about as long as the disk does.
const segmentReadAhead = 8 << 20

// SegmentReader reads the batches of a sealed segment from its first to its last, with their checksums, for whoever
// writes the segment anew. It holds a reference on the segment and is not for concurrent use.
type SegmentReader struct {
	log      *Log
	view     segmentView
	position int64  // in the file, of the first byte of unread
	ahead    int64  // in the file, up to where the kernel was told to read
	unread   []byte // a part of buffer
	buffer   []byte
}

// OpenSegment opens the sealed segment with a base offset. OFFSET_OUT_OF_RANGE means that there is none, any more or
// yet.
func (l *Log) OpenSegment(baseOffset int64) (*SegmentReader, error) {
	view, err := l.sealedView(baseOffset)
	if err != nil {
		return nil, err
	}
	if err := view.acquire(); err != nil {
		if err == errSegmentRemoved {
			return nil, fmt.Errorf("the segment %d of %s has gone: %w", baseOffset, l.topicPartition, kafka.OffsetOutOfRange)
		}
		return nil, l.readError(view.segment, err)
	}
	return &SegmentReader{log: l, view: view}, nil
}

// Next returns the next batch, which is valid until the next call. io.EOF is the end of the segment. A *CorruptError
// says where it is damaged; it is remembered, and the segment answers with it from then on.
func (r *SegmentReader) Next() (record.Batch, error) {
	if r.position == r.view.size {
		return nil, io.EOF
	}
	batch, err := r.next()
	if err != nil {
		return nil, r.log.readError(r.view.segment, err)
	}
	r.unread = r.unread[len(batch):]
	r.position += int64(len(batch))
	return batch, nil
}

func (r *SegmentReader) next() (record.Batch, error) {
	prefix, err := r.peek(record.PrefixSize)
	if err != nil {
		return nil, err
	}
	size, err := record.SizeOf(prefix)
	if err != nil {
		return nil, r.corrupt(err)
	}
	data, err := r.peek(size)
	if err != nil {
		return nil, err
	}
	batch := record.Batch(data)
	if err := batch.VerifyCRC(); err != nil {
		return nil, r.corrupt(err)
	}
	return batch, nil
}

// peek makes size bytes of what is unread available.
func (r *SegmentReader) peek(size int) ([]byte, error) {
	if size <= len(r.unread) {
		return r.unread[:size:size], nil
	}
	left := r.view.size - r.position
	if int64(size) > left {
		return nil, r.corrupt(fmt.Errorf("a batch of %d bytes where %d are left: %w", size, left, record.ErrShort))
	}
	if want := int(min(left, max(int64(size), segmentReadSize))); want > cap(r.buffer) {
		r.buffer = make([]byte, want)
	}
	kept := copy(r.buffer[:cap(r.buffer)], r.unread)
	r.readAhead()
	want := int(min(left, int64(cap(r.buffer))))
	n, err := r.view.file.ReadAt(r.buffer[kept:want], r.position+int64(kept))
	if n < want-kept {
		return nil, fmt.Errorf("read %s at %d: %w", r.view.file.Name(), r.position, noEOF(err))
	}
	r.unread = r.buffer[:want]
	return r.unread[:size:size], nil
}

// readAhead keeps the disk reading, half of the way ahead at a time.
func (r *SegmentReader) readAhead() {
	if r.ahead-r.position > segmentReadAhead/2 || r.ahead == r.view.size {
		return
	}
	from := max(r.ahead, r.position)
	r.ahead = min(r.position+segmentReadAhead, r.view.size)
	vfs.ReadAhead(r.view.file, from, r.ahead-from)
}

// noEOF is the error of a file that is shorter than it was.
func noEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *SegmentReader) corrupt(reason error) error {
	return &CorruptError{File: r.view.file.Name(), Position: r.position, Err: reason}
}

// Aborted lists the transactions whose abort markers are in the segment, in the order of the markers.
func (r *SegmentReader) Aborted() ([]AbortedTransaction, error) {
	aborted, err := r.aborted()
	if err != nil {
		return nil, r.log.readError(r.view.segment, err)
	}
	return aborted, nil
}

func (r *SegmentReader) aborted() (aborted []AbortedTransaction, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverFault(&err)
	return ParseTransactionIndex(r.view.aborted)
}

// Close gives the segment back. It is called once.
func (r *SegmentReader) Close() { r.view.release() }
