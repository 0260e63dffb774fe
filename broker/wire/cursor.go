package wire

import (
	"encoding/binary"
	"math"
)

// cursor reads protocol primitives from a slice that it aliases. After the first read past the end (or of an impossible
// length) it has failed, stays failed, and every further read returns zero: callers check once.
type cursor struct {
	data     []byte
	position int
	failure  string // what was wrong first; empty while all is well
}

func (c *cursor) ok() bool { return c.failure == "" }

func (c *cursor) remaining() int { return len(c.data) - c.position }

func (c *cursor) fail(what string) {
	if c.failure == "" {
		c.failure = what
	}
	c.position = len(c.data)
}

// take returns the next n bytes, or nil if there are fewer.
func (c *cursor) take(n int) []byte {
	if n < 0 || n > c.remaining() {
		c.fail("data ends early")
		return nil
	}
	start := c.position
	c.position += n
	return c.data[start:c.position:c.position]
}

func (c *cursor) int8() int8 {
	if b := c.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (c *cursor) int16() int16 {
	if b := c.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) int32() int32 {
	if b := c.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits.
func (c *cursor) uvarint() uint32 {
	var value uint64
	for shift := 0; shift < 35; shift += 7 {
		b := c.take(1)
		if b == nil {
			return 0
		}
		value |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			if value > math.MaxUint32 {
				break
			}
			return uint32(value)
		}
	}
	c.fail("varint of more than 32 bits")
	return 0
}

// compactLength reads a length that is stored plus one; −1 is null.
func (c *cursor) compactLength() int {
	length := int64(c.uvarint()) - 1
	if length > math.MaxInt32 {
		c.fail("length of more than 31 bits")
		return 0
	}
	return int(length)
}

// nullability says whether a field may be null.
type nullability bool

const (
	nonNull  nullability = false
	nullable nullability = true
)

// checkLength accepts a length that fits into what remains; −1 means null, where that is allowed. Other negative
// lengths are malformed (kmsg would take them for null).
func (c *cursor) checkLength(length int, null nullability) int {
	switch {
	case length == -1 && null == nullable:
	case length < 0:
		c.fail("negative length")
		return 0
	case length > c.remaining():
		c.fail("length goes past the end of the request")
		return 0
	}
	return length
}

// string reads the bytes of a string; nil means null.
func (c *cursor) string(flexible bool, null nullability) []byte {
	var length int
	if flexible {
		length = c.compactLength()
	} else {
		length = int(c.int16())
	}
	if length > math.MaxInt16 {
		c.fail("string longer than 32767 bytes")
	}
	return c.span(length, null)
}

// bytes reads a byte field; nil means null.
func (c *cursor) bytes(flexible bool, null nullability) []byte {
	var length int
	if flexible {
		length = c.compactLength()
	} else {
		length = int(c.int32())
	}
	return c.span(length, null)
}

func (c *cursor) span(length int, null nullability) []byte {
	if !c.ok() {
		return nil
	}
	length = c.checkLength(length, null)
	if length < 0 {
		return nil
	}
	return c.take(length)
}

// arrayLength reads the number of elements of an array; −1 means null. Every element takes at least minElementSize
// bytes, so a count that cannot fit into what remains is malformed.
func (c *cursor) arrayLength(flexible bool, null nullability, minElementSize int) int {
	var count int
	if flexible {
		count = c.compactLength()
	} else {
		count = int(c.int32())
	}
	if !c.ok() {
		return 0
	}
	if count == -1 && null == nullable {
		return -1
	}
	if count < 0 {
		c.fail("negative array length")
		return 0
	}
	if count > c.remaining()/max(minElementSize, 1) {
		c.fail("array has more elements than bytes remain")
		return 0
	}
	return count
}

// maxTags bounds the tagged fields of one structure. Kafka 4.4 has the same bound; no message defines more than three.
const maxTags = 10_000

// skipTags passes over tagged fields and returns how many there were.
func (c *cursor) skipTags() int {
	count := c.uvarint()
	if count > maxTags {
		c.fail("more than 10000 tagged fields")
		return 0
	}
	for range count {
		c.uvarint()
		size := c.uvarint()
		if int64(size) > int64(c.remaining()) {
			c.fail("tagged field goes past the end of the request")
		}
		c.take(int(size))
		if !c.ok() {
			return 0
		}
	}
	return int(count)
}
