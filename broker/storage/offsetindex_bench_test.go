package storage

import "testing"

// BenchmarkOffsetIndexLookUp finds an offset in the index of a full segment: 1 GiB with an entry each 4 KiB. The bytes
// are those of the entry that is found.
func BenchmarkOffsetIndexLookUp(b *testing.B) {
	const entries = 1 << 30 / 4096
	var index []byte
	for i := range int32(entries) {
		index = appendOffsetEntry(index, offsetEntry{relative: 20 * (i + 1), position: 4096 * i})
	}
	b.SetBytes(offsetEntrySize)
	b.ReportAllocs()
	relative := int64(0)
	for b.Loop() {
		relative = (relative + 999_983) % (20 * entries)
		if _, ok := findOffset(index, relative+20); !ok {
			b.Fatal("nothing is found")
		}
	}
}
