package record

import (
	"fmt"
	"strconv"
)

// Codec is how the records of a batch are compressed: the low three bits of its attributes.
type Codec int8

// Kafka's codecs.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// Known tells whether Kafka has such a codec: the bits have room for three that do not exist.
func (c Codec) Known() bool { return c >= None && c <= Zstd }

// String prints the name that compression.type uses; None is also called uncompressed there.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return "codec " + strconv.Itoa(int(c))
}

// ParseCodec reads a codec's name as producers and topics spell it.
func ParseCodec(name string) (Codec, error) {
	switch name {
	case "none", "uncompressed":
		return None, nil
	case "gzip":
		return Gzip, nil
	case "snappy":
		return Snappy, nil
	case "lz4":
		return LZ4, nil
	case "zstd":
		return Zstd, nil
	}
	return None, fmt.Errorf("%q is not a codec: none, gzip, snappy, lz4 and zstd are", name)
}
