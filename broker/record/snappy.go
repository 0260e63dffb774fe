package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/golang/snappy"
)

// Kafka's snappy comes in two framings: a bare block, and the one of the xerial library, which Java's clients write:
//
//	magic, 8 bytes | version int32 | oldest compatible version int32 | blocks: size int32, data …
//
// Its integers are big-endian; some consumers insist on version 1.
const (
	xerialMagic       = "\x82SNAPPY\x00"
	xerialVersion     = 1
	xerialHeader      = len(xerialMagic) + 8
	xerialSizeLen     = 4
	xerialBlockSize   = 32 << 10 // of what goes into a block, as Java's library has it
	snappyMaxRatio    = 22       // three bytes copy at most 64
	snappyMinOverhead = 64       // so that the ratio does not refuse tiny blocks
)

// snappyStream reads the blocks of either framing.
type snappyStream struct {
	rest   []byte
	framed bool
}

func (s *snappyStream) reset(data []byte) error {
	s.rest, s.framed = data, bytes.HasPrefix(data, []byte(xerialMagic))
	if s.framed {
		return s.skipHeader()
	}
	return nil
}

// skipHeader does not look at the versions, which some clients got wrong; Java's library reads those batches, too.
func (s *snappyStream) skipHeader() error {
	if len(s.rest) < xerialHeader {
		return errTruncated
	}
	s.rest = s.rest[xerialHeader:]
	return nil
}

// next decodes the next block that is not empty into buffer.
func (s *snappyStream) next(buffer []byte) (block, grown []byte, err error) {
	for len(s.rest) > 0 {
		encoded := s.rest
		if s.framed {
			if encoded, err = s.cut(); err != nil {
				return nil, buffer, err
			}
		} else {
			s.rest = nil
		}
		length, err := snappy.DecodedLen(encoded)
		if err != nil {
			return nil, buffer, err
		}
		if length > len(encoded)*snappyMaxRatio+snappyMinOverhead {
			return nil, buffer, fmt.Errorf("snappy block of %d bytes claims to hold %d", len(encoded), length)
		}
		buffer = slices.Grow(buffer[:0], length)
		block, err = snappy.Decode(buffer[:cap(buffer)], encoded)
		if err != nil {
			return nil, buffer, err
		}
		if len(block) > 0 {
			return block, buffer, nil
		}
	}
	return nil, buffer, io.EOF
}

// cut takes the next block off a framed stream. Streams may be strung together, each with its header.
func (s *snappyStream) cut() ([]byte, error) {
	for bytes.HasPrefix(s.rest, []byte(xerialMagic)) {
		if err := s.skipHeader(); err != nil {
			return nil, err
		}
	}
	if len(s.rest) < xerialSizeLen {
		return nil, errTruncated
	}
	size := int64(int32(binary.BigEndian.Uint32(s.rest)))
	s.rest = s.rest[xerialSizeLen:]
	if size < 0 || size > int64(len(s.rest)) {
		return nil, errTruncated
	}
	encoded := s.rest[:size]
	s.rest = s.rest[size:]
	return encoded, nil
}

// appendSnappy writes the xerial framing, which every client reads; Java's consumers of old read nothing else.
func appendSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	for block := range slices.Chunk(src, xerialBlockSize) {
		at := len(dst)
		dst = slices.Grow(dst, xerialSizeLen+snappy.MaxEncodedLen(len(block)))[:at+xerialSizeLen]
		encoded := snappy.Encode(dst[at+xerialSizeLen:cap(dst)], block)
		binary.BigEndian.PutUint32(dst[at:], uint32(len(encoded)))
		dst = dst[:at+xerialSizeLen+len(encoded)]
	}
	return dst
}
