package storage

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/vfs"
)

// scanBufferSize is what a look-up reads at once: one index interval and the batch headers around it.
const scanBufferSize = 8 << 10

// recoveryBufferSize is what recovery reads at once.
const recoveryBufferSize = 256 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchScan walks the batches of a file by their headers. It is reused, with its buffer, through a pool.
type batchScan struct {
	file     vfs.File
	position int64 // of the next header
	end      int64 // where the walk ends; batches must end there, too
	resident bool  // read only what is in memory

	buffer      []byte
	bufferStart int64
	bufferSize  int
}

func newBatchScan(bufferSize int) *batchScan { return &batchScan{buffer: make([]byte, bufferSize)} }

// reset begins a walk over [position, end) of a file.
func (s *batchScan) reset(file vfs.File, position, end int64) {
	s.file, s.position, s.end = file, position, end
	s.bufferStart, s.bufferSize = 0, 0
}

// next returns the header of the next batch and its position. The header is valid until the next call. io.EOF is the
// end of the walk; a *CorruptError says that no batch begins here, anything else that the file could not be read.
func (s *batchScan) next() (header record.Batch, position int64, err error) {
	position = s.position
	if position >= s.end {
		return nil, position, io.EOF
	}
	if s.end-position < record.HeaderSize {
		return nil, position, s.corrupt(position,
			fmt.Errorf("%d bytes are too few for a batch: %w", s.end-position, record.ErrShort))
	}
	data, err := s.window(position, record.HeaderSize)
	if err != nil {
		return nil, position, err
	}
	size, err := record.SizeOf(data)
	if err != nil {
		return nil, position, s.corrupt(position, err)
	}
	if int64(size) > s.end-position {
		return nil, position, s.corrupt(position, fmt.Errorf("a batch of %d bytes: %w", size, record.ErrShort))
	}
	header = record.Batch(data)
	if header.BaseOffset() < 0 || header.LastOffsetDelta() < 0 {
		return nil, position, s.corrupt(position,
			fmt.Errorf("offsets [%d, +%d]", header.BaseOffset(), header.LastOffsetDelta()))
	}
	s.position = position + int64(size)
	return header, position, nil
}

// window returns size bytes at position, reading as much as the buffer takes.
func (s *batchScan) window(position int64, size int) ([]byte, error) {
	if position < s.bufferStart || position+int64(size) > s.bufferStart+int64(s.bufferSize) {
		want := int(min(int64(len(s.buffer)), s.end-position))
		n, err := s.read(s.buffer[:want], position)
		if n < want && err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && n < size {
			return nil, fmt.Errorf("read %s at %d: %w", s.file.Name(), position, err)
		}
		s.bufferStart, s.bufferSize = position, n
	}
	from := int(position - s.bufferStart)
	return s.buffer[from : from+size], nil
}

func (s *batchScan) read(p []byte, position int64) (int, error) {
	if s.resident {
		return vfs.ReadResident(s.file, p, position)
	}
	return s.file.ReadAt(p, position)
}

// verify checks the checksum of the batch that next has just returned, reading it piece by piece: a damaged length may
// claim a gigabyte. The header is overwritten.
func (s *batchScan) verify(header record.Batch, position int64) error {
	want, size := header.CRC(), int64(header.Size())
	sum := uint32(0)
	for at := position + crcCoveredFrom; at < position+size; {
		n := int(min(int64(len(s.buffer)), position+size-at))
		if left := s.bufferStart + int64(s.bufferSize) - at; left > 0 {
			n = min(n, int(left))
		}
		data, err := s.window(at, n)
		if err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, data)
		at += int64(n)
	}
	if sum != want {
		return s.corrupt(position, fmt.Errorf("checksum %08x instead of %08x", sum, want))
	}
	return nil
}

// endMarker reads the marker in the batch that next has just returned, if it ends a transaction. The header is the one
// to go on with, as the one before may be overwritten.
func (s *batchScan) endMarker(header record.Batch, position int64) (record.Batch, *record.EndMarker, error) {
	if !header.IsControl() {
		return header, nil, nil
	}
	if header.Size() > maxControlBatch {
		return header, nil, s.corrupt(position, fmt.Errorf("a control batch of %d bytes", header.Size()))
	}
	batch, err := s.window(position, header.Size())
	if err != nil {
		return header, nil, err
	}
	marker, err := endMarkerOf(batch)
	if err != nil {
		return batch, nil, s.corrupt(position, err)
	}
	return batch, marker, nil
}

// maxControlBatch bounds what is believed to be a marker, which has 78 bytes: nobody but brokers writes them.
const maxControlBatch = 4 << 10

// crcCoveredFrom is where a batch's checksum begins to count: at its attributes.
const crcCoveredFrom = 21

func (s *batchScan) corrupt(position int64, reason error) error {
	return &CorruptError{File: s.file.Name(), Position: position, Err: reason}
}

// ignoreEOF drops the regular end of a walk.
func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// readBatch reads one whole batch that a walk has found.
func readBatch(file vfs.File, position int64, size int) (record.Batch, error) {
	data := make([]byte, size)
	if n, err := file.ReadAt(data, position); n < size {
		return nil, fmt.Errorf("read %s at %d: %w", file.Name(), position, err)
	}
	batch, _, err := record.Next(data)
	if err != nil {
		return nil, &CorruptError{File: file.Name(), Position: position, Err: err}
	}
	return batch, nil
}
