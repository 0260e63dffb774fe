package segment

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/firnlog/firn/broker/record"
)

// DefaultChunkBytes is the chunk that has a checksum of its own: small enough that a short read from a bucket can be
// checked without reading much more, large enough that 1 GiB of data needs 4 KiB of checksums. Chunks in which readers
// fetch are multiples of it.
const DefaultChunkBytes = 1 << 20

// Contents is what the data says about itself.
type Contents struct {
	DataBytes          int64
	BatchCount         int64
	RecordCount        int64
	MinTimestamp       int64 // of the batches' first records; −1: none has a timestamp
	MaxTimestamp       int64 // of the records; −1: none has a timestamp
	MaxTimestampOffset int64 // of the first record that has it
	ChunkBytes         int64
	Checksums          []uint32 // of each chunk of ChunkBytes; the last chunk may be shorter

	dataChecksum uint32 // of all data; found by a scan, not kept in the object
}

// chunks counts the chunks of data.
func chunks(dataBytes, chunkBytes int64) int64 { return (dataBytes + chunkBytes - 1) / chunkBytes }

// VerifyChunks checks a part of the data that begins at a chunk and ends at one, or at the end of the data.
func (c *Contents) VerifyChunks(position int64, data []byte) error {
	end := position + int64(len(data))
	if position%c.ChunkBytes != 0 || end%c.ChunkBytes != 0 && end != c.DataBytes || end > c.DataBytes {
		return fmt.Errorf("verify [%d, %d) of %d bytes: not a whole number of chunks of %d", position, end, c.DataBytes,
			c.ChunkBytes)
	}
	for len(data) > 0 {
		chunk := data[:min(int64(len(data)), c.ChunkBytes)]
		want, got := c.Checksums[position/c.ChunkBytes], crc32.Checksum(chunk, castagnoli)
		if want != got {
			return corrupt(position, "the checksum of the chunk is %08x but its bytes have %08x", want, got)
		}
		data, position = data[len(chunk):], position+int64(len(chunk))
	}
	return nil
}

// scan reads data once, from its begin to its end, and shows each batch to visit with the batch's position. Batches are
// valid until visit returns. It checks each batch's checksum and that offsets ascend.
func scan(ctx context.Context, data io.ReaderAt, chunkBytes int64, contents *Contents,
	visit func(position int64, batch record.Batch) error) error {
	s := scanner{ctx: ctx, data: data, contents: contents, chunkBytes: chunkBytes}
	*contents = Contents{DataBytes: contents.DataBytes, MinTimestamp: -1, MaxTimestamp: -1, MaxTimestampOffset: -1,
		ChunkBytes: chunkBytes, Checksums: make([]uint32, 0, chunks(contents.DataBytes, chunkBytes))}
	var largest extent // the first batch that has the largest timestamp
	nextOffset := int64(0)
	for s.position < contents.DataBytes {
		position := s.position
		batch, err := s.next()
		if err != nil {
			return err
		}
		if batch.BaseOffset() < nextOffset || batch.LastOffsetDelta() < 0 {
			return corrupt(position, "%s follows offset %d", batch.String(), nextOffset-1)
		}
		nextOffset = batch.NextOffset()
		contents.add(batch)
		if batch.Count() > 0 && batch.MaxTimestamp() > contents.MaxTimestamp {
			contents.MaxTimestamp, largest = batch.MaxTimestamp(), extent{position, int64(len(batch))}
		}
		if err := visit(position, batch); err != nil {
			return err
		}
	}
	s.finishChunk()
	if largest.size == 0 {
		return nil
	}
	return contents.findMaxTimestamp(data, largest)
}

// extent is a range of bytes.
type extent struct{ position, size int64 }

func (c *Contents) add(batch record.Batch) {
	c.BatchCount++
	c.RecordCount += int64(batch.Count())
	first := batch.BaseTimestamp()
	if batch.TimestampType() == record.LogAppendTime || batch.HasDeleteHorizon() {
		first = batch.MaxTimestamp() // the base timestamp is not a record's
	}
	if first >= 0 && (c.MinTimestamp < 0 || first < c.MinTimestamp) {
		c.MinTimestamp = first
	}
}

// findMaxTimestamp looks into the one batch that has the largest timestamp: its header does not tell which record. What
// a header claims may be wrong, and records may make no sense, where the broker was told not to look at records. That
// is no damage; the offset is then the best there is, at last the batch's last one, as in Kafka's time index.
func (c *Contents) findMaxTimestamp(data io.ReaderAt, largest extent) error {
	batch := make(record.Batch, largest.size)
	if err := readFull(data, batch, largest.position); err != nil {
		return err
	}
	var lookup record.Lookup
	c.MaxTimestampOffset = batch.LastOffset()
	if found, ok, err := lookup.MaxTimestamp(batch, batch.BaseOffset()); ok && err == nil {
		c.MaxTimestampOffset = found.Offset
	}
	return nil
}

// scanBufferBytes is how much is read at once: see objectstore's block size for the reasons, which are the same.
const scanBufferBytes = 256 << 10

// scanner cuts data into batches, and sums the chunks up on the way.
type scanner struct {
	ctx        context.Context
	data       io.ReaderAt
	contents   *Contents
	chunkBytes int64
	position   int64  // of the next batch
	buffer     []byte // data from position on
	memory     []byte // what buffer is a part of
	chunk      uint32 // checksum of the current chunk so far
	summed     int64  // bytes that went into checksums
}

func (s *scanner) next() (record.Batch, error) {
	if err := s.fill(record.PrefixSize); err != nil {
		return nil, err
	}
	size, err := record.SizeOf(s.buffer)
	if err == nil {
		err = s.fill(size)
	}
	if err != nil {
		return nil, s.corrupt(err)
	}
	batch := record.Batch(s.buffer[:size:size])
	if err := batch.VerifyCRC(); err != nil {
		return nil, s.corrupt(err)
	}
	s.buffer, s.position = s.buffer[size:], s.position+int64(size)
	return batch, nil
}

// corrupt gives an error about a batch its place; errors of reading stay what they are.
func (s *scanner) corrupt(err error) error {
	var inBatch *record.CorruptError
	if errors.As(err, &inBatch) {
		return &CorruptError{Position: s.position, Err: err}
	}
	return err
}

// fill makes the buffer hold at least size bytes, of which there must be as many.
func (s *scanner) fill(size int) error {
	if len(s.buffer) >= size {
		return nil
	}
	remaining := s.contents.DataBytes - s.position
	if remaining < int64(size) {
		return corrupt(s.position, "a batch of %d bytes or more runs past the end of the data, %d bytes on", size, remaining)
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	have := len(s.buffer)
	want := int(min(int64(max(size, scanBufferBytes)), remaining))
	if cap(s.memory) < want {
		s.memory = append(make([]byte, 0, want), s.buffer...)
	} else {
		copy(s.memory[:have], s.buffer)
	}
	s.buffer = s.memory[:want]
	if err := readFull(s.data, s.buffer[have:], s.position+int64(have)); err != nil {
		return err
	}
	s.sum(s.buffer[have:])
	return nil
}

func (s *scanner) sum(data []byte) {
	for len(data) > 0 {
		part := data[:min(int64(len(data)), s.chunkBytes-s.summed%s.chunkBytes)]
		s.chunk = crc32.Update(s.chunk, castagnoli, part)
		s.contents.dataChecksum = crc32.Update(s.contents.dataChecksum, castagnoli, part)
		s.summed += int64(len(part))
		if s.summed%s.chunkBytes == 0 {
			s.contents.Checksums, s.chunk = append(s.contents.Checksums, s.chunk), 0
		}
		data = data[len(part):]
	}
}

// finishChunk ends the last chunk if it is shorter than the others.
func (s *scanner) finishChunk() {
	if s.summed%s.chunkBytes != 0 {
		s.contents.Checksums = append(s.contents.Checksums, s.chunk)
	}
}

func readFull(data io.ReaderAt, dst []byte, position int64) error {
	n, err := data.ReadAt(dst, position)
	if n == len(dst) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(dst), position, err)
}

// equal compares what was promised with what was found.
func (c *Contents) equal(other *Contents) bool {
	return c.DataBytes == other.DataBytes && c.BatchCount == other.BatchCount && c.RecordCount == other.RecordCount &&
		c.MinTimestamp == other.MinTimestamp && c.MaxTimestamp == other.MaxTimestamp &&
		c.MaxTimestampOffset == other.MaxTimestampOffset && c.ChunkBytes == other.ChunkBytes &&
		slices.Equal(c.Checksums, other.Checksums)
}
