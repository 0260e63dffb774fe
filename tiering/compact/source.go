package compact

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/tiering/segment"
)

// readBytes is how much of an object is read with one request.
const readBytes = 8 << 20

// Source reads the batches of a segment object, in order. It is for one goroutine.
type Source struct {
	bucket segment.Getter
	key    string
	tail   *segment.Tail
	unit   int64  // bytes of a request: a whole number of what has a checksum
	next   int64  // position of the next request
	buffer []byte // read and not given out
	memory []byte // that buffer is a part of
}

// Next is the next batch, valid until the next call; io.EOF is the end. The checksums of the object are right, which
// were made of batches that had been checked.
func (s *Source) Next() (record.Batch, error) {
	if len(s.buffer) == 0 && s.next == s.tail.DataBytes {
		return nil, io.EOF
	}
	err := s.fill(record.HeaderSize)
	size := 0
	if err == nil {
		size, err = record.SizeOf(s.buffer)
	}
	if err == nil {
		err = s.fill(size)
	}
	if err != nil {
		return nil, told(fmt.Errorf("read a batch of %s: %w", s.key, err))
	}
	batch := record.Batch(s.buffer[:size:size])
	s.buffer = s.buffer[size:]
	return batch, nil
}

// Close gives the memory back.
func (s *Source) Close() { s.buffer, s.memory = nil, nil }

// fill reads until so many bytes are there.
func (s *Source) fill(size int) error {
	for len(s.buffer) < size {
		want := min(s.unit, s.tail.DataBytes-s.next)
		if want == 0 {
			return &segment.CorruptError{Position: s.next, Err: record.ErrShort}
		}
		left := len(s.buffer)
		if need := left + int(want); cap(s.memory) < need {
			memory := make([]byte, need)
			copy(memory, s.buffer)
			s.memory = memory
		} else {
			s.memory = s.memory[:cap(s.memory)]
			copy(s.memory, s.buffer)
		}
		s.buffer = s.memory[:left+int(want)]
		if err := s.read(s.buffer[left:]); err != nil {
			s.buffer = s.buffer[:left]
			return err
		}
		s.next += want
	}
	return nil
}

func (s *Source) read(into []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if _, err := s.bucket.Get(ctx, s.key, s.next, into); err != nil {
		return err
	}
	return s.tail.VerifyChunks(s.next, into)
}

func sortByFirst(all []storage.AbortedTransaction) {
	slices.SortFunc(all, func(a, b storage.AbortedTransaction) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset), cmp.Compare(a.LastOffset, b.LastOffset))
	})
}
