package record

import (
	"iter"
	"math"
)

// Record is one record of a batch; its bytes alias the batch, or the iterator's memory if the batch is compressed.
type Record struct {
	OffsetDelta    int32 // to the batch's base offset
	TimestampDelta int64 // to the batch's base timestamp
	Key, Value     []byte
	headers        []byte // encoded, and known to be sound
	headerCount    int32
}

// What can be wrong with the bytes of a record. They are sentences rather than errors so that a walk over a sound
// batch makes no garbage.
const (
	sound              = ""
	reasonLength       = "its length is not within the batch"
	reasonEnds         = "a field runs past its end"
	reasonLonger       = "its fields end before it does"
	reasonOffsetDelta  = "its offset delta is out of range"
	reasonHeaderCount  = "its number of headers is out of range"
	reasonHeaderKey    = "a header has no key"
	reasonBytesRemain  = "bytes follow the last record"
	reasonRecordsShort = "the records end before their count is reached"
	reasonOverLimit    = "it is larger than max.decompressed.message.bytes"
)

const (
	minRecordSize = 6 // the least that a record's length can count: attributes and five numbers
	minHeaderSize = 2 // two lengths
)

// decode reads the record whose body, which is what its length counts, is data[at:end]. All fields must end exactly
// where the body does. This is the loop in which a broker spends its time, hence the numbers of one byte, which most
// are, without a call, and a number may be read past end, though not past data, before that is noticed.
func (r *Record) decode(data []byte, at, end int) (reason string) {
	if end-at < minRecordSize {
		return reasonEnds
	}
	at++ // the attributes of a record are unused, and Kafka does not look at them
	number := uint64(data[at])
	if at++; number >= moreBytes {
		number, at = longVarint(data, at-1)
	}
	r.TimestampDelta = unzigzag(number)
	if at >= end {
		return reasonEnds
	}
	number = uint64(data[at])
	if at++; number >= moreBytes {
		number, at = longVarint(data, at-1)
	}
	if number&negative != 0 || number>>1 > math.MaxInt32 {
		return reasonOffsetDelta
	}
	r.OffsetDelta = int32(number >> 1)
	if r.Key, at = bytesAt(data, at, end); at >= end {
		return reasonEnds
	}
	if r.Value, at = bytesAt(data, at, end); at >= end {
		return reasonEnds
	}
	if data[at] == 0 && at+1 == end {
		r.headers, r.headerCount = nil, 0
		return sound
	}
	return r.decodeHeaders(data[at:end])
}

// bytesAt reads a length and as many bytes; an end that is not before end says that they are not there. Any negative
// length is null, as it is to Kafka.
func bytesAt(data []byte, at, end int) (field []byte, next int) {
	if at >= end {
		return nil, end
	}
	number := uint64(data[at])
	if at++; number >= moreBytes {
		number, at = longVarint(data, at-1)
	}
	if number&negative != 0 {
		return nil, at
	}
	if at > end || number>>1 > uint64(end-at) {
		return nil, end
	}
	next = at + int(number>>1)
	return data[at:next:next], next
}

// decodeHeaders reads the number of headers and them.
func (r *Record) decodeHeaders(data []byte) (reason string) {
	count, n := varint(data)
	if n == 0 {
		return reasonEnds
	}
	data = data[n:]
	if count < 0 || count > int64(len(data)/minHeaderSize) {
		return reasonHeaderCount
	}
	r.headers, r.headerCount = data, int32(count)
	return checkHeaders(data, r.headerCount)
}

// checkHeaders walks encoded headers, so that whoever reads them later cannot fail.
func checkHeaders(encoded []byte, count int32) (reason string) {
	for range count {
		key, rest, reason := takeBytes(encoded)
		if reason != sound {
			return reason
		}
		if key == nil {
			return reasonHeaderKey
		}
		if _, encoded, reason = takeBytes(rest); reason != sound {
			return reason
		}
	}
	if len(encoded) > 0 {
		return reasonLonger
	}
	return sound
}

// takeBytes is bytesAt for one field after the other.
func takeBytes(data []byte) (field, rest []byte, reason string) {
	length, n := varint(data)
	if n == 0 {
		return nil, nil, reasonEnds
	}
	data = data[n:]
	if length < 0 {
		return nil, data, sound
	}
	if length > int64(len(data)) {
		return nil, nil, reasonEnds
	}
	return data[:length:length], data[length:], sound
}

// HeaderCount is the number of headers.
func (r *Record) HeaderCount() int { return int(r.headerCount) }

// Headers yields key and value of each header, in order; a nil value is null.
func (r *Record) Headers() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		rest := r.headers
		for range r.headerCount {
			var key, value []byte
			key, rest, _ = takeBytes(rest)
			value, rest, _ = takeBytes(rest)
			if !yield(key, value) {
				return
			}
		}
	}
}

// Numbers are varints: groups of seven bits, lowest first, in bytes whose high bit says that more follow. What they
// hold is zigzag-encoded: the lowest bit is the sign.
const (
	moreBytes      = 0x80
	negative       = 1
	maxVarintBytes = 10 // as many as 64 bits need

	shortVarintBytes = 3 // no number of a usual record is longer
)

// varint reads a number; a count of 0 says that data ends inside it or that it is too long.
func varint(data []byte) (value int64, n int) {
	number, next := longVarint(data, 0)
	if next > len(data) {
		return 0, 0
	}
	return unzigzag(number), next
}

// longVarint reads a number that begins at a place, without decoding the sign. A next that is past all data says that
// there is none. Lengths repeat from record to record, so branches are predicted well, and a processor that goes on
// with a predicted place is faster than one that waits for a computed one: a version without branches took twice as
// long.
func longVarint(data []byte, at int) (number uint64, next int) {
	if len(data)-at < shortVarintBytes {
		return slowVarint(data, at)
	}
	first, second, third := data[at], data[at+1], data[at+2]
	switch {
	case first < moreBytes:
		return uint64(first), at + 1
	case second < moreBytes:
		return uint64(first)&0x7f | uint64(second)<<7, at + 2
	case third < moreBytes:
		return uint64(first)&0x7f | uint64(second)&0x7f<<7 | uint64(third)<<14, at + 3
	}
	return slowVarint(data, at)
}

func slowVarint(data []byte, at int) (number uint64, next int) {
	for i, b := range data[at:] {
		if i == maxVarintBytes {
			break
		}
		number |= uint64(b&0x7f) << (7 * i)
		if b < moreBytes {
			return number, at + i + 1
		}
	}
	return 0, len(data) + 1
}

func unzigzag(number uint64) int64 { return int64(number>>1) ^ -int64(number&negative) }
