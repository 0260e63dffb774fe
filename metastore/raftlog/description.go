package raftlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/firnlog/firn/metastore/state"
)

// Keys of the snapshot space:
//
//	'd' number               description of a finished snapshot
//	'k' number chunk         part of its content
//
// Numbers are 8 bytes, chunks 4 bytes, big endian.
const (
	descriptionPrefix = 'd'
	chunkPrefix       = 'k'
)

func descriptionKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{descriptionPrefix}, number)
}

func chunkKey(number uint64, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{chunkPrefix}, number), chunk)
}

// chunksOf is the range of a snapshot's chunks.
func chunksOf(number uint64) state.Range {
	return state.Range{Start: chunkKey(number, 0), End: chunkKey(number+1, 0)}
}

// castagnoli is the table of CRC32C; the crc32 package makes it once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// description is what is known about a snapshot besides its content:
//
//	1 byte   version, 1
//	1 byte   raft's version of snapshot descriptions
//	uvarint  index and term of the last entry in it
//	uvarint  index of the configuration
//	uvarint  number of chunks, size in bytes
//	4 bytes  CRC32C of the content, big endian
//	uvarint  length of the configuration, and the configuration as raft encodes it
type description struct {
	version            raft.SnapshotVersion
	index              uint64
	term               uint64
	configurationIndex uint64
	chunks             uint32
	size               int64
	checksum           uint32
	configuration      []byte
}

const descriptionVersion = 1

func (d description) append(dst []byte) []byte {
	dst = append(dst, descriptionVersion, byte(d.version))
	dst = binary.AppendUvarint(dst, d.index)
	dst = binary.AppendUvarint(dst, d.term)
	dst = binary.AppendUvarint(dst, d.configurationIndex)
	dst = binary.AppendUvarint(dst, uint64(d.chunks))
	dst = binary.AppendUvarint(dst, uint64(d.size))
	dst = binary.BigEndian.AppendUint32(dst, d.checksum)
	return appendBytes(dst, d.configuration)
}

func parseDescription(number uint64, value []byte) (description, error) {
	c := cursor{data: value}
	version := c.byte()
	d := description{
		version:            raft.SnapshotVersion(c.byte()),
		index:              c.uvarint(),
		term:               c.uvarint(),
		configurationIndex: c.uvarint(),
		chunks:             uint32(c.uvarint()),
		size:               int64(c.uvarint()),
	}
	if checksum := c.take(4); checksum != nil {
		d.checksum = binary.BigEndian.Uint32(checksum)
	}
	d.configuration = c.bytes()
	switch {
	case c.failed || len(c.data) != 0:
		return description{}, fmt.Errorf("the description of snapshot %d is damaged", number)
	case version != descriptionVersion:
		return description{}, fmt.Errorf("snapshot %d has version %d, which this program does not know", number, version)
	}
	return d, nil
}

func (d description) meta(number uint64) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version:            d.version,
		ID:                 strconv.FormatUint(number, 10),
		Index:              d.index,
		Term:               d.term,
		Configuration:      raft.DecodeConfiguration(d.configuration),
		ConfigurationIndex: d.configurationIndex,
		Size:               d.size,
	}
}
