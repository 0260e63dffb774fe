package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Getter is what reading an object needs of a bucket.
type Getter interface {
	// Get fills dst from the given offset of the object.
	Get(ctx context.Context, key string, offset int64, dst []byte) (int, error)
}

// tailGuess is how much of an object's end is read first if the size of its tail is unknown: it holds the tail of most
// segments of up to a few hundred MiB.
const tailGuess = 256 << 10

// ReadTail reads the tail of an object whose size is known. If the size of its tail (with the trailer) is known too, as
// it is from the manifest, that takes one request; if it is 0, at most two.
func ReadTail(ctx context.Context, bucket Getter, key string, objectBytes int64, tailBytes int32) (*Tail, error) {
	size := int64(tailBytes)
	if size == 0 {
		size = min(objectBytes, tailGuess)
	}
	if size < TrailerSize || size > objectBytes || size > MaxTailBytes+TrailerSize {
		return nil, fmt.Errorf("read the tail of %s: %w", key, corrupt(0, "a tail of %d bytes in an object of %d", size,
			objectBytes))
	}
	data := make([]byte, size)
	if _, err := bucket.Get(ctx, key, objectBytes-size, data); err != nil {
		return nil, fmt.Errorf("read the tail of %s: %w", key, err)
	}
	if tailBytes == 0 {
		var err error
		if data, err = completeTail(ctx, bucket, key, objectBytes, data); err != nil {
			return nil, fmt.Errorf("read the tail of %s: %w", key, err)
		}
	}
	return ParseTailOf(key, objectBytes, data)
}

// ParseTailOf is ParseTail for the tail of an object whose key and size are known.
func ParseTailOf(key string, objectBytes int64, data []byte) (*Tail, error) {
	tail, err := ParseTail(data)
	if err == nil {
		err = tail.checkObject(key, objectBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the tail of %s: %w", key, err)
	}
	return tail, nil
}

// completeTail cuts the end of an object down to its tail, or reads what is missing of it.
func completeTail(ctx context.Context, bucket Getter, key string, objectBytes int64, end []byte) ([]byte, error) {
	trailer, err := ParseTrailer(end)
	if err == nil && trailer.ObjectBytes() != objectBytes {
		err = fmt.Errorf("the trailer describes an object of %d bytes, not of %d", trailer.ObjectBytes(), objectBytes)
	}
	if err != nil {
		return nil, &CorruptError{Position: objectBytes - TrailerSize, Err: err}
	}
	size := int64(trailer.TailBytes) + TrailerSize
	if missing := size - int64(len(end)); missing > 0 {
		data := make([]byte, size)
		if _, err := bucket.Get(ctx, key, trailer.DataBytes, data[:missing]); err != nil {
			return nil, err
		}
		copy(data[missing:], end)
		return data, nil
	}
	return end[int64(len(end))-size:], nil
}

// checkObject holds a tail against where it was found.
func (t *Tail) checkObject(key string, objectBytes int64) error {
	if size := t.DataBytes + int64(t.EncodedBytes()); size != objectBytes {
		return corrupt(objectBytes-TrailerSize, "the tail describes an object of %d bytes, not of %d", size, objectBytes)
	}
	if own := t.Key().String(); own != key {
		return corrupt(t.DataBytes, "the tail belongs to %s", own)
	}
	return nil
}

// Verify reads a whole object and checks everything that can be checked: the checksums of trailer, tail, chunks and
// batches, that the batches tile the data and fit the range, the indexes and the statistics. What it finds is a
// *CorruptError; other errors are those of reading.
func Verify(ctx context.Context, object io.ReaderAt, objectBytes int64) (*Tail, error) {
	end := make([]byte, min(objectBytes, TrailerSize))
	if err := readFull(object, end, objectBytes-int64(len(end))); err != nil {
		return nil, err
	}
	trailer, err := ParseTrailer(end)
	if err == nil && trailer.ObjectBytes() != objectBytes {
		err = fmt.Errorf("the trailer describes an object of %d bytes, not of %d", trailer.ObjectBytes(), objectBytes)
	}
	if err != nil {
		return nil, &CorruptError{Position: objectBytes - int64(len(end)), Err: err}
	}
	encoded := make([]byte, objectBytes-trailer.DataBytes)
	if err := readFull(object, encoded, trailer.DataBytes); err != nil {
		return nil, err
	}
	tail, err := ParseTail(encoded)
	if err != nil {
		return nil, err
	}
	found := *tail
	err = examine(ctx, object, tail.ChunkBytes, &found)
	if err := tail.firstWrongChunk(&found.Contents); err != nil {
		return nil, err // tells more than what is wrong with the batch there
	}
	if err == nil && !found.Contents.equal(&tail.Contents) {
		err = corrupt(tail.DataBytes, "the tail says %+v, the data %+v", tail.Contents.summary(), found.Contents.summary())
	}
	return tail, err
}

// firstWrongChunk compares the checksums of as many chunks as were read.
func (t *Tail) firstWrongChunk(found *Contents) error {
	for i, checksum := range found.Checksums {
		if checksum != t.Checksums[i] {
			return corrupt(int64(i)*t.ChunkBytes, "the checksum of the chunk is %08x but its bytes have %08x", t.Checksums[i],
				checksum)
		}
	}
	return nil
}

// summary is the part of the contents that fits into a message.
func (c Contents) summary() Contents {
	c.Checksums = nil
	return c
}

// IsCorrupt tells whether an error says that an object (or the data to be put) is damaged, and so will stay.
func IsCorrupt(err error) bool {
	var damage *CorruptError
	return errors.As(err, &damage)
}
