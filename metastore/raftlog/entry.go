package raftlog

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// An entry is stored under its index, 8 bytes big endian, so that keys sort as indexes do. Its value:
//
//	1 byte   version, 1
//	1 byte   type, raft's numbers
//	uvarint  term
//	varint   time of the append, Unix nanoseconds; 0 if raft gave none. Only for metrics.
//	uvarint  length of the data, and the data: the encoded command
//	uvarint  length of the extensions, and these
//
// It has no checksum of its own: Pebble keeps one for each record of its log and each block of its tables.
const entryVersion = 1

func entryKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func appendEntry(dst []byte, entry *raft.Log) []byte {
	dst = append(dst, entryVersion, byte(entry.Type))
	dst = binary.AppendUvarint(dst, entry.Term)
	var appendedAt int64
	if !entry.AppendedAt.IsZero() {
		appendedAt = entry.AppendedAt.UnixNano()
	}
	dst = binary.AppendVarint(dst, appendedAt)
	dst = appendBytes(dst, entry.Data)
	return appendBytes(dst, entry.Extensions)
}

func appendBytes(dst, data []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(data)))
	return append(dst, data...)
}

// parseEntry reads an entry. Data and extensions alias value.
func parseEntry(index uint64, value []byte, entry *raft.Log) error {
	c := cursor{data: value}
	version, kind := c.byte(), c.byte()
	parsed := raft.Log{Index: index, Type: raft.LogType(kind), Term: c.uvarint()}
	if appendedAt := c.varint(); appendedAt != 0 {
		parsed.AppendedAt = time.Unix(0, appendedAt)
	}
	parsed.Data = c.bytes()
	parsed.Extensions = c.bytes()
	switch {
	case c.failed || len(c.data) != 0:
		return fmt.Errorf("entry %d of the metadata log is damaged", index)
	case version != entryVersion:
		return fmt.Errorf("entry %d of the metadata log has version %d, which this program does not know", index, version)
	}
	*entry = parsed
	return nil
}

// cursor consumes an encoded value; after a failure everything reads as zero.
type cursor struct {
	data   []byte
	failed bool
}

func (c *cursor) take(count uint64) []byte {
	if c.failed || count > uint64(len(c.data)) {
		c.failed = true
		return nil
	}
	taken := c.data[:count:count]
	c.data = c.data[count:]
	return taken
}

func (c *cursor) byte() byte {
	if taken := c.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

func (c *cursor) uvarint() uint64 {
	value, size := binary.Uvarint(c.data)
	if size <= 0 {
		c.failed = true
		return 0
	}
	c.take(uint64(size))
	return value
}

func (c *cursor) varint() int64 {
	value, size := binary.Varint(c.data)
	if size <= 0 {
		c.failed = true
		return 0
	}
	c.take(uint64(size))
	return value
}

// bytes reads a length and that many bytes; none are nil.
func (c *cursor) bytes() []byte {
	taken := c.take(c.uvarint())
	if len(taken) == 0 {
		return nil
	}
	return taken
}
