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
	reasonVarint       = "a number has too many bytes"
	reasonLonger       = "its fields end before it does"
	reasonOffsetDelta  = "its offset delta is out of range"
	reasonHeaderCount  = "its number of headers is out of range"
	reasonHeaderKey    = "a header has no key"
	reasonBytesRemain  = "bytes follow the last record"
	reasonRecordsShort = "the records end before their count is reached"
)

// minRecordSize is the least that a record's length can count: attributes and five varints.
const minRecordSize = 6

// minHeaderSize is two lengths.
const minHeaderSize = 2

// decode reads the body of a record, which is what its length counts. All fields must end exactly where the body does.
func (r *Record) decode(body []byte) (reason string) {
	if len(body) < minRecordSize {
		return reasonEnds
	}
	rest := body[1:] // the attributes of a record are unused, and Kafka does not look at them
	timestampDelta, n := varint(rest)
	if n <= 0 {
		return varintReason(n)
	}
	rest = rest[n:]
	offsetDelta, n := varint(rest)
	if n <= 0 {
		return varintReason(n)
	}
	if offsetDelta < 0 || offsetDelta > math.MaxInt32 {
		return reasonOffsetDelta
	}
	r.TimestampDelta, r.OffsetDelta = timestampDelta, int32(offsetDelta)
	if r.Key, rest, reason = takeBytes(rest[n:]); reason != sound {
		return reason
	}
	if r.Value, rest, reason = takeBytes(rest); reason != sound {
		return reason
	}
	headerCount, n := varint(rest)
	if n <= 0 {
		return varintReason(n)
	}
	rest = rest[n:]
	if headerCount < 0 || headerCount > int64(len(rest)/minHeaderSize) {
		return reasonHeaderCount
	}
	r.headers, r.headerCount = rest, int32(headerCount)
	return checkHeaders(rest, r.headerCount)
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

// takeBytes reads a length and as many bytes. Any negative length is null, as it is to Kafka.
func takeBytes(data []byte) (field, rest []byte, reason string) {
	length, n := varint(data)
	if n <= 0 {
		return nil, nil, varintReason(n)
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

// maxVarintBytes is how many groups of seven bits 64 bits need.
const maxVarintBytes = 10

// varint reads a zigzag-encoded number. A count of 0 says that data ends inside it, −1 that it is too long. Most
// numbers of a record are one byte, and that case is small enough to be inlined.
func varint(data []byte) (value int64, n int) {
	if len(data) > 0 && data[0] < 0x80 {
		return unzigzag(uint64(data[0])), 1
	}
	return longVarint(data)
}

func longVarint(data []byte) (value int64, n int) {
	var bits uint64
	for i, b := range data {
		if i == maxVarintBytes {
			return 0, -1
		}
		bits |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return unzigzag(bits), i + 1
		}
	}
	return 0, 0
}

func unzigzag(bits uint64) int64 { return int64(bits>>1) ^ -int64(bits&1) }

func varintReason(n int) string {
	if n == 0 {
		return reasonEnds
	}
	return reasonVarint
}
