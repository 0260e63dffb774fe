package segment

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"os"
	"strings"
	"testing"
)

// goldenTail is the encoded tail (with trailer) of the golden object.
func goldenTail(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/object-v1.golden")
	if err != nil {
		t.Fatal(err)
	}
	var object []byte
	for line := range strings.Lines(string(text)) {
		if part, err := hex.DecodeString(strings.TrimSpace(line)); err == nil {
			object = append(object, part...)
		}
	}
	trailer, err := ParseTrailer(object)
	if err != nil {
		t.Fatal(err)
	}
	return object[trailer.DataBytes:]
}

// sealed puts a fitting trailer after sections.
func sealed(sections []byte, change func(*Trailer)) []byte {
	trailer := Trailer{DataBytes: 272, TailBytes: int32(len(sections)), TailChecksum: crc32.Checksum(sections, castagnoli),
		Kind: KindSegment, Version: formatVersion}
	if change != nil {
		change(&trailer)
	}
	return trailer.AppendTo(append([]byte(nil), sections...))
}

func withoutTrailer(tail []byte) []byte { return tail[:len(tail)-TrailerSize] }

func TestASectionFromTheFutureIsSkippedUnlessItMustBeKnown(t *testing.T) {
	golden := goldenTail(t)
	dataBytes := int64At(golden, len(golden)-TrailerSize)
	for flags, accepted := range map[uint16]bool{0: true, 2: true, 1: false, 3: false} {
		sections := binary.BigEndian.AppendUint16(withoutTrailer(golden), 1000)
		sections = binary.BigEndian.AppendUint16(sections, flags)
		sections = append(binary.BigEndian.AppendUint32(sections, 3), "new"...)
		data := sealed(sections, func(trailer *Trailer) { trailer.DataBytes = dataBytes })
		tail, err := ParseTail(data)
		if (err == nil) != accepted {
			t.Errorf("flags %d: %v", flags, err)
		}
		if err == nil && (tail.EncodedBytes() != int32(len(data)) || tail.Entry().ObjectBytes != dataBytes+int64(len(data))) {
			t.Errorf("the size is taken to be %d instead of %d", tail.EncodedBytes(), len(data))
		}
	}
}

func TestOptionalSectionsMayBeMissingAndTheOthersMayNot(t *testing.T) {
	golden := goldenTail(t)
	dataBytes := int64At(golden, len(golden)-TrailerSize)
	for dropped := uint16(1); dropped <= knownSections; dropped++ {
		var kept []byte
		for rest := withoutTrailer(golden); len(rest) > 0; {
			size := sectionHeaderSize + int(binary.BigEndian.Uint32(rest[4:]))
			if binary.BigEndian.Uint16(rest) != dropped {
				kept = append(kept, rest[:size]...)
			}
			rest = rest[size:]
		}
		_, err := ParseTail(sealed(kept, func(trailer *Trailer) { trailer.DataBytes = dataBytes }))
		if (err == nil) != (dropped > sectionChecksums) {
			t.Errorf("without section %d: %v", dropped, err)
		}
	}
}

func TestATrailerThatIsNotOursIsRefused(t *testing.T) {
	sections := withoutTrailer(goldenTail(t))
	for name, data := range map[string][]byte{
		"too short":               []byte("short"),
		"not ours":                make([]byte, 100),
		"another kind":            sealed(sections, func(trailer *Trailer) { trailer.Kind = KindLeaf }),
		"a later version":         sealed(sections, func(trailer *Trailer) { trailer.Version = 2 }),
		"another tail length":     sealed(sections, func(trailer *Trailer) { trailer.TailBytes-- }),
		"another tail":            sealed(sections, func(trailer *Trailer) { trailer.TailChecksum++ }),
		"a huge tail":             sealed(sections, func(trailer *Trailer) { trailer.TailBytes = MaxTailBytes + 1 }),
		"a negative tail":         sealed(sections, func(trailer *Trailer) { trailer.TailBytes = -1 }),
		"a negative data length":  sealed(sections, func(trailer *Trailer) { trailer.DataBytes = -1 }),
		"an absurd data length":   sealed(sections, func(trailer *Trailer) { trailer.DataBytes = 1 << 60 }),
		"data without checksums":  sealed(sections, func(trailer *Trailer) { trailer.DataBytes = 1 << 40 }),
		"no sections, no data":    sealed(nil, func(trailer *Trailer) { trailer.DataBytes = 0 }),
		"half a section's header": sealed(sections[:5], nil),
		"a section cut short":     sealed(sections[:40], nil),
		"a section twice":         sealed(append(append([]byte(nil), sections[:51]...), sections...), nil),
	} {
		if _, err := ParseTail(data); !IsCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParseTail gives the decoder what a wrong or hostile writer might have written: the checksums are made to fit.
func FuzzParseTail(f *testing.F) {
	golden := goldenTail(f)
	dataBytes := int64At(golden, len(golden)-TrailerSize)
	f.Add(withoutTrailer(golden), dataBytes)
	f.Add([]byte{}, int64(0))
	f.Add(withoutTrailer(golden)[:60], int64(1)<<40)
	f.Fuzz(func(t *testing.T, sections []byte, dataBytes int64) {
		tail, err := ParseTail(sealed(sections, func(trailer *Trailer) { trailer.DataBytes = dataBytes }))
		if err != nil {
			if !IsCorrupt(err) {
				t.Errorf("not a corruption: %v", err)
			}
			return
		}
		for _, offset := range []int64{tail.BaseOffset, tail.EndOffset - 1} {
			if position := tail.Position(offset); position < 0 || position > 0 && position >= tail.DataBytes {
				t.Errorf("offset %d is at %d of %d", offset, position, tail.DataBytes)
			}
		}
		if position := tail.PositionForTimestamp(tail.MaxTimestamp); position < 0 || position > tail.DataBytes {
			t.Errorf("the max timestamp is at %d of %d", position, tail.DataBytes)
		}
		again, err := ParseTail(tail.AppendTo(nil))
		if err != nil {
			t.Fatalf("what was accepted cannot be written and read again: %v", err)
		}
		if again.Key() != tail.Key() {
			t.Errorf("%s became %s", tail.Key(), again.Key())
		}
	})
}

// FuzzParseTrailer needs no checksums to fit: it looks at the raw decoder.
func FuzzParseTrailer(f *testing.F) {
	f.Add(goldenTail(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		if trailer, err := ParseTrailer(data); err == nil && trailer.ObjectBytes() < TrailerSize {
			t.Errorf("%+v", trailer)
		}
	})
}
