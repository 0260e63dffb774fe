package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// A frame of lz4 (all integers little-endian):
//
//	magic uint32 | flags | block descriptor | [content size uint64] | header checksum |
//	blocks: size uint32, high bit set if stored as it is | data | [checksum uint32] … | 0 uint32 | [content checksum]
//
// It is read here rather than by a stream reader because a batch is in memory as a whole, so blocks need no copy, and
// because what counts as a sound frame must be what Kafka's consumers can read: a single frame of independent blocks.
const (
	lz4Magic         = 0x184d2204
	lz4Version       = 0x40 // of the frame format, in the upper two bits of the flags
	lz4VersionMask   = 0xc0
	lz4Independent   = 0x20
	lz4BlockChecksum = 0x10
	lz4ContentSize   = 0x08
	lz4Dictionary    = 0x01
	lz4Stored        = 1 << 31

	lz4AtFlags         = 4
	lz4AtDescriptor    = 5
	lz4MinHeader       = 7
	lz4ContentSizeLen  = 8
	lz4WordLen         = 4
	lz4MinBlockClass   = 4 // 64 KiB; each further class is four times as large
	lz4MaxBlockClass   = 7 // 4 MiB
	lz4MaxRatio        = 255
	lz4MinBlockMaxSize = 64 << 10
)

// lz4Frame reads the blocks of a frame.
type lz4Frame struct {
	rest         []byte
	flags        byte
	blockMaxSize int
}

// reset reads the header of the frame. The wrong header checksum that Kafka's clients computed before batches of
// version 2 is refused, as Kafka refuses it in such batches: its consumers could not read them.
func (f *lz4Frame) reset(data []byte) error {
	if len(data) < lz4MinHeader || binary.LittleEndian.Uint32(data) != lz4Magic {
		return errors.New("no lz4 frame")
	}
	f.flags = data[lz4AtFlags]
	if f.flags&lz4VersionMask != lz4Version || f.flags&lz4Dictionary != 0 || f.flags&lz4Independent == 0 {
		return fmt.Errorf("lz4 frame with flags %#02x, which Kafka's consumers cannot read", f.flags)
	}
	class := data[lz4AtDescriptor] >> 4
	if class < lz4MinBlockClass || class > lz4MaxBlockClass {
		return fmt.Errorf("lz4 block size class %d", class)
	}
	f.blockMaxSize = lz4MinBlockMaxSize << (2 * (class - lz4MinBlockClass))
	end := lz4AtDescriptor + 1
	if f.flags&lz4ContentSize != 0 {
		end += lz4ContentSizeLen
	}
	if len(data) <= end {
		return errTruncated
	}
	if data[end] != lz4HeaderChecksum(data[lz4AtFlags:end]) {
		return errors.New("lz4 header checksum is wrong")
	}
	f.rest = data[end+1:]
	return nil
}

// next decodes the next block, into buffer if it is compressed; io.EOF at the end mark. What follows the mark is not
// looked at, as Kafka does not: the batch has a checksum of its own.
func (f *lz4Frame) next(buffer []byte) (block, grown []byte, err error) {
	word, err := f.word()
	if err != nil {
		return nil, buffer, err
	}
	size := int(word &^ lz4Stored)
	if size == 0 {
		return nil, buffer, io.EOF
	}
	if size > f.blockMaxSize {
		return nil, buffer, fmt.Errorf("lz4 block of %d bytes", size)
	}
	if size > len(f.rest) {
		return nil, buffer, errTruncated
	}
	block, f.rest = f.rest[:size], f.rest[size:]
	if f.flags&lz4BlockChecksum != 0 {
		sum, err := f.word()
		if err != nil {
			return nil, buffer, err
		}
		if sum != xxh32(block) {
			return nil, buffer, errors.New("lz4 block checksum is wrong")
		}
	}
	if word&lz4Stored != 0 {
		return block, buffer, nil
	}
	// Reserve what this block can become, not what the header allows: a small batch may claim 4 MiB.
	capacity := min(f.blockMaxSize, size*lz4MaxRatio)
	buffer = slices.Grow(buffer[:0], capacity)
	n, err := lz4.UncompressBlock(block, buffer[:capacity])
	if err != nil {
		return nil, buffer, err
	}
	if n == 0 {
		return nil, buffer, errors.New("lz4 block holds nothing")
	}
	return buffer[:n], buffer, nil
}

func (f *lz4Frame) word() (uint32, error) {
	if len(f.rest) < lz4WordLen {
		return 0, errTruncated
	}
	word := binary.LittleEndian.Uint32(f.rest)
	f.rest = f.rest[lz4WordLen:]
	return word, nil
}

func lz4HeaderChecksum(descriptor []byte) byte { return byte(xxh32(descriptor) >> 8) }

// appendLZ4 writes a frame as Kafka's Java producer does: independent blocks of 64 KiB, no checksums but the header's,
// since the batch has its own.
func (c *compressor) appendLZ4(dst, src []byte, level int) ([]byte, error) {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	dst = append(dst, lz4Version|lz4Independent, lz4MinBlockClass<<4)
	dst = append(dst, lz4HeaderChecksum(dst[start+lz4AtFlags:]))
	for block := range slices.Chunk(src, lz4MinBlockMaxSize) {
		at := len(dst)
		dst = slices.Grow(dst, lz4WordLen+lz4.CompressBlockBound(len(block)))[:at+lz4WordLen]
		n, err := c.compressLZ4(block, dst[at+lz4WordLen:cap(dst)], level)
		if err != nil {
			return nil, err
		}
		word := uint32(n)
		if n == 0 || n >= len(block) {
			word = uint32(len(block)) | lz4Stored
			dst = append(dst, block...)
		} else {
			dst = dst[:at+lz4WordLen+n]
		}
		binary.LittleEndian.PutUint32(dst[at:], word)
	}
	return binary.LittleEndian.AppendUint32(dst, 0), nil
}

const (
	// lz4DefaultLevel is the level that Kafka compresses with the fast algorithm; all others use the thorough one.
	lz4DefaultLevel = 9
	lz4MaxLevel     = 17
)

func (c *compressor) compressLZ4(src, dst []byte, level int) (int, error) {
	if level == DefaultLevel || level == lz4DefaultLevel {
		if c.lz4 == nil {
			c.lz4 = new(lz4.Compressor)
		}
		return c.lz4.CompressBlock(src, dst)
	}
	if c.lz4HC == nil {
		c.lz4HC = new(lz4.CompressorHC)
	}
	// To Java's library a level is how many earlier places are tried, as a power of two; to ours it is that number.
	c.lz4HC.Level = 1 << (min(max(level, 1), lz4MaxLevel) - 1)
	return c.lz4HC.CompressBlock(src, dst)
}

// The primes of xxHash.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393

	xxStripe = 16 // bytes that the four lanes take at a time
)

// xxh32 is the 32-bit xxHash with seed 0, which lz4 frames use for their checksums.
func xxh32(data []byte) uint32 {
	length := uint32(len(data))
	hash := xxPrime5
	if len(data) >= xxStripe {
		hash, data = xxLanes(data)
	}
	hash += length
	for ; len(data) >= lz4WordLen; data = data[lz4WordLen:] {
		hash = bits.RotateLeft32(hash+binary.LittleEndian.Uint32(data)*xxPrime3, 17) * xxPrime4
	}
	for _, b := range data {
		hash = bits.RotateLeft32(hash+uint32(b)*xxPrime5, 11) * xxPrime1
	}
	hash = (hash ^ hash>>15) * xxPrime2
	hash = (hash ^ hash>>13) * xxPrime3
	return hash ^ hash>>16
}

// xxLanes consumes all whole stripes.
func xxLanes(data []byte) (hash uint32, rest []byte) {
	prime1 := xxPrime1 // a variable, so that the sums wrap instead of not compiling
	lanes := [4]uint32{prime1 + xxPrime2, xxPrime2, 0, -prime1}
	for ; len(data) >= xxStripe; data = data[xxStripe:] {
		for i := range lanes {
			word := binary.LittleEndian.Uint32(data[lz4WordLen*i:])
			lanes[i] = bits.RotateLeft32(lanes[i]+word*xxPrime2, 13) * xxPrime1
		}
	}
	hash = bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) +
		bits.RotateLeft32(lanes[2], 12) + bits.RotateLeft32(lanes[3], 18)
	return hash, data
}
