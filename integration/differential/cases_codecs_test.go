//go:build integration

package differential

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/firnlog/firn/broker/record"
)

// askCodecCorners asks for what clients of long ago, and hostile ones, make of a codec.
func askCodecCorners(s *script) {
	batchOf := func(codec record.Codec, valueBytes int) record.Batch {
		opts := record.PlainProducer()
		opts.Codec = codec
		builder := record.NewBuilder(opts)
		builder.Append(s.start, []byte("k"), bytes.Repeat([]byte("v"), valueBytes))
		return builder.Build()
	}
	framed := batchOf(record.Snappy, 100)
	bare := slices.Delete(slices.Clone(framed), batchHeader, batchHeader+xerialOverhead)
	bare = damaged(bare, func(b []byte) { binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-12)) })
	lz4 := batchOf(record.LZ4, 100)
	oldFrame := damaged(lz4, func(b []byte) { b[batchHeader+lz4AtChecksum] ^= 0xff })
	for _, stored := range []string{"producer", "snappy", "lz4", "gzip"} {
		topic := s.create("corner-"+stored, "compression.type", stored)
		s.askProduce("snappy in Xerial's framing to "+stored, -1, topic, framed)
		s.askProduce("snappy without a framing to "+stored, -1, topic, bare)
		s.askProduce("lz4 with a sound header to "+stored, -1, topic, lz4)
		s.askProduce("lz4 with the header checksum of old clients to "+stored, -1, topic, oldFrame)
		s.fetchAll("codec corners stored as "+stored, topic)
	}
	for _, stored := range []string{"producer", "uncompressed", "zstd"} {
		bounded := s.create("bounded-"+stored, "max.decompressed.message.bytes", "1000", "compression.type", stored)
		for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
			s.askProduce(fmt.Sprintf("%s within max.decompressed.message.bytes to %s", codec, stored), -1, bounded,
				batchOf(codec, 900))
			s.askProduce(fmt.Sprintf("%s beyond max.decompressed.message.bytes to %s", codec, stored), -1, bounded,
				batchOf(codec, 5000))
		}
		s.fetchAll("what was bounded and stored as "+stored, bounded)
	}
}

const (
	batchHeader    = 61
	xerialOverhead = 16 + 4 // its header and the size of the one block
	lz4AtChecksum  = 6      // in a frame without a content size
)
