package record

import (
	"errors"
	"io"
	"math"
)

// cursor walks over encoded records that come in pieces, or in a single one, and never holds more than a piece. A
// record within a piece is decoded where it lies. Of one that crosses into another piece only the numbers are read and
// the rest is skipped, however long it is; its Key is then not the key, but still nil exactly if the key is null.
type cursor struct {
	piece     []byte
	source    *source // of further pieces; nil if there is one only
	maxRecord uint64  // the largest length of a record; 0 is any
	left      int64   // of a record that crosses pieces
	reason    string  // why the last record could not be read
	err       error   // the same, if it is the codec's fault
}

// presentKey stands for a key that was skipped.
var presentKey = []byte{}

// next decodes the next record; false leaves reason or err behind.
func (c *cursor) next(record *Record) bool {
	number, at := longVarint(c.piece, 0)
	if at > len(c.piece) || number&negative != 0 || number>>1 > uint64(len(c.piece)-at) {
		return c.nextCrossing(record)
	}
	if c.maxRecord != 0 && number>>1 > c.maxRecord {
		return c.fail(reasonOverLimit)
	}
	end := at + int(number>>1)
	c.reason = record.decode(c.piece, at, end)
	c.piece = c.piece[end:]
	return c.reason == sound
}

// nextCrossing reads a record that does not lie in this piece as a whole.
func (c *cursor) nextCrossing(record *Record) bool {
	if c.source == nil {
		c.reason = reasonLength
		if len(c.piece) == 0 {
			c.reason = reasonRecordsShort
		}
		return false
	}
	c.left = maxVarintBytes
	length := c.number()
	if !c.ok() {
		return false
	}
	if length < minRecordSize || length > math.MaxInt32 {
		return c.fail(reasonLength)
	}
	if c.maxRecord != 0 && uint64(length) > c.maxRecord {
		return c.fail(reasonOverLimit) // before any of it is decompressed
	}
	c.left = length
	c.skip(1) // attributes
	record.TimestampDelta = c.number()
	offsetDelta := c.number()
	if c.ok() && (offsetDelta < 0 || offsetDelta > math.MaxInt32) {
		return c.fail(reasonOffsetDelta)
	}
	record.OffsetDelta = int32(offsetDelta)
	record.Key, record.Value, record.headers, record.headerCount = nil, nil, nil, 0
	if c.skipBytes() {
		record.Key = presentKey
	}
	c.skipBytes()
	c.skipHeaders()
	if c.ok() && c.left != 0 {
		return c.fail(reasonLonger)
	}
	return c.ok()
}

// atEnd tells whether nothing follows; false leaves reason or err behind.
func (c *cursor) atEnd() bool {
	if len(c.piece) > 0 {
		return c.fail(reasonBytesRemain)
	}
	if c.source == nil {
		return true
	}
	piece, err := c.source.next()
	if errors.Is(err, io.EOF) {
		return true
	}
	c.piece, c.err = piece, err
	return err == nil && c.fail(reasonBytesRemain)
}

func (c *cursor) ok() bool { return c.reason == sound && c.err == nil }

func (c *cursor) fail(reason string) bool {
	c.reason = reason
	return false
}

// refill takes the next piece once this one is used up.
func (c *cursor) refill() bool {
	if len(c.piece) > 0 {
		return true
	}
	piece, err := c.source.next()
	if errors.Is(err, io.EOF) {
		return c.fail(reasonRecordsShort)
	}
	c.piece, c.err = piece, err
	return err == nil
}

// number reads a varint byte by byte; after a failure it does nothing, like the methods below.
func (c *cursor) number() int64 {
	var number uint64
	for i := 0; c.ok(); i++ {
		if c.left == 0 || i == maxVarintBytes {
			c.fail(reasonEnds)
			break
		}
		if !c.refill() {
			break
		}
		b := c.piece[0]
		c.piece = c.piece[1:]
		c.left--
		number |= uint64(b&^moreBytes) << (7 * i)
		if b < moreBytes {
			return unzigzag(number)
		}
	}
	return 0
}

// skipBytes skips a length and as many bytes; false if it is null.
func (c *cursor) skipBytes() (present bool) {
	length := c.number()
	if length > 0 {
		c.skip(length)
	}
	return length >= 0 && c.ok()
}

func (c *cursor) skip(n int64) {
	if !c.ok() {
		return
	}
	if n > c.left {
		c.fail(reasonEnds)
		return
	}
	c.left -= n
	for n > 0 && c.refill() {
		step := min(n, int64(len(c.piece)))
		c.piece = c.piece[step:]
		n -= step
	}
}

func (c *cursor) skipHeaders() {
	count := c.number()
	if c.ok() && (count < 0 || count > c.left/minHeaderSize) {
		c.fail(reasonHeaderCount)
	}
	for ; count > 0 && c.ok(); count-- {
		if !c.skipBytes() && c.ok() {
			c.fail(reasonHeaderKey)
		}
		c.skipBytes()
	}
}
