package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Kind tells what an object is.
type Kind uint8

// The kinds of objects. Leaf and node are parts of the manifest that have been sealed.
const (
	KindSegment Kind = 1
	KindLeaf    Kind = 2
	KindNode    Kind = 3
	// A checkpoint of a cluster, and a part of one.
	KindCheckpoint Kind = 4
	KindShard      Kind = 5
)

// formatVersion is the version of the segment object's format that this package writes, and the only one so far.
const formatVersion = 1

// Where each field of the trailer begins.
const (
	trailerDataBytes    = 0
	trailerTailBytes    = 8
	trailerTailChecksum = 12
	trailerKind         = 16
	trailerVersion      = 17
	trailerReserved     = 18
	trailerChecksum     = 20
	trailerMagic        = 24

	// TrailerSize is the length of the trailer.
	TrailerSize = 32
)

// magic ends every object. Its line ends and the DOS end-of-file show a transfer that took the object for text.
const magic = "firn\r\n\x1a\n"

// MaxTailBytes bounds what a trailer may claim, and so what a reader allocates: two full indexes (10 MiB is Kafka's
// default for each), the checksums of a 2 GiB segment and the producers leave a wide margin.
const MaxTailBytes = 128 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Trailer finds the tail of an object and says what the object is.
type Trailer struct {
	DataBytes    int64
	TailBytes    int32 // without the trailer itself
	TailChecksum uint32
	Kind         Kind
	Version      uint8
}

// ObjectBytes is the length of the whole object.
func (t Trailer) ObjectBytes() int64 { return t.DataBytes + int64(t.TailBytes) + TrailerSize }

// AppendTo appends the encoded trailer.
func (t Trailer) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.DataBytes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.TailBytes))
	dst = binary.BigEndian.AppendUint32(dst, t.TailChecksum)
	dst = append(dst, byte(t.Kind), t.Version, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	return append(dst, magic...)
}

// ParseTrailer reads the trailer that ends data, the last bytes of an object.
func ParseTrailer(data []byte) (Trailer, error) {
	if len(data) < TrailerSize {
		return Trailer{}, fmt.Errorf("%d bytes are too few for an object's trailer", len(data))
	}
	data = data[len(data)-TrailerSize:]
	if string(data[trailerMagic:]) != magic {
		return Trailer{}, fmt.Errorf("not an object of firn: it ends with %q instead of %q", data[trailerMagic:], magic)
	}
	want, got := binary.BigEndian.Uint32(data[trailerChecksum:]), crc32.Checksum(data[:trailerChecksum], castagnoli)
	if want != got {
		return Trailer{}, fmt.Errorf("the trailer's checksum is %08x but its bytes have %08x", want, got)
	}
	t := Trailer{
		DataBytes:    int64(binary.BigEndian.Uint64(data[trailerDataBytes:])),
		TailBytes:    int32(binary.BigEndian.Uint32(data[trailerTailBytes:])),
		TailChecksum: binary.BigEndian.Uint32(data[trailerTailChecksum:]),
		Kind:         Kind(data[trailerKind]),
		Version:      data[trailerVersion],
	}
	reserved := binary.BigEndian.Uint16(data[trailerReserved:])
	if t.DataBytes < 0 || t.DataBytes > maxDataBytes || t.TailBytes < 0 || t.TailBytes > MaxTailBytes || reserved != 0 {
		return Trailer{}, fmt.Errorf("the trailer makes no sense: %d bytes of data, %d of tail, reserved %d",
			t.DataBytes, t.TailBytes, reserved)
	}
	return t, nil
}

// maxDataBytes bounds a trailer's claim such that sums cannot overflow; no store takes objects as large as this.
const maxDataBytes = 1 << 50

// check tells whether the trailer belongs to a segment object of a version that this package reads.
func (t Trailer) check() error {
	if t.Kind != KindSegment {
		return fmt.Errorf("the object is of kind %d, not a segment", t.Kind)
	}
	if t.Version != formatVersion {
		return fmt.Errorf("the segment object has format version %d; this program reads version %d", t.Version, formatVersion)
	}
	return nil
}
