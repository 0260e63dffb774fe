package record

import (
	"encoding/binary"
	"math/bits"
)

// A record, all lengths and deltas in zigzag varints:
//
//	length | attributes int8, unused | timestamp delta | offset delta | key length, key | value length, value |
//	header count, then for each: key length, key | value length, value
//
// A length of −1 is null; header keys are never null.
const nullLength = -1

// appendRecord encodes one record behind dst.
func appendRecord(dst []byte, offsetDelta int32, timestampDelta int64, key, value []byte, headers []Header) []byte {
	dst = binary.AppendVarint(dst, int64(recordSize(offsetDelta, timestampDelta, key, value, headers)))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendBytes(dst, key)
	dst = appendBytes(dst, value)
	dst = binary.AppendVarint(dst, int64(len(headers)))
	for _, header := range headers {
		dst = binary.AppendVarint(dst, int64(len(header.Key)))
		dst = append(dst, header.Key...)
		dst = appendBytes(dst, header.Value)
	}
	return dst
}

func appendBytes(dst, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(dst, nullLength)
	}
	dst = binary.AppendVarint(dst, int64(len(field)))
	return append(dst, field...)
}

// recordSize is what the length of a record counts: everything behind the length itself.
func recordSize(offsetDelta int32, timestampDelta int64, key, value []byte, headers []Header) int {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + bytesSize(key) + bytesSize(value)
	size += varintSize(int64(len(headers)))
	for _, header := range headers {
		size += varintSize(int64(len(header.Key))) + len(header.Key) + bytesSize(header.Value)
	}
	return size
}

func bytesSize(field []byte) int {
	if field == nil {
		return varintSize(nullLength)
	}
	return varintSize(int64(len(field))) + len(field)
}

// varintSize counts the groups of seven bits of a zigzag-encoded number; zero has one.
func varintSize(v int64) int {
	zigzag := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}
