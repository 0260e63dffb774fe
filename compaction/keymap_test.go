package compaction

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/record"
)

func TestTheKeyMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.Int64Range(1, 300).Draw(t, "slots")
		m := newKeyMap(slots*slotBytes, rapid.Float64Range(0.1, 1).Draw(t, "load factor"))
		m.reset(maxKeys)
		model := map[uint16]int64{}
		for offset := range rapid.Int64Range(1, 500).Draw(t, "puts") {
			key := rapid.Uint16Range(0, 400).Draw(t, "key")
			_, known := model[key]
			if ok := m.put(m.hash(binary.BigEndian.AppendUint16(nil, key)), offset); !ok {
				if known || len(model) == 0 {
					t.Fatalf("no room for key %d, known %t, among %d", key, known, len(model))
				}
				break
			}
			model[key] = offset
			if len(model) > m.limit {
				t.Fatalf("%d keys are more than %d", len(model), m.limit)
			}
		}
		for key := range uint16(400) {
			want, known := model[key]
			if !known {
				want = -1
			}
			if got := m.last(m.hash(binary.BigEndian.AppendUint16(nil, key))); got != want {
				t.Fatalf("key %d is at %d instead of %d", key, got, want)
			}
		}
		m.reset(maxKeys)
		if m.last(m.hash([]byte{0, 0})) != -1 || m.load() != 0 {
			t.Fatal("a map that was emptied has keys")
		}
	})
}

// The memory that is asked for is what is there, and is filled up to the load factor.
func TestTheKeyMapUsesItsMemory(t *testing.T) {
	const bufferBytes = 24 << 17
	m := newKeyMap(bufferBytes, 0.9)
	m.reset(maxKeys)
	if got := int64(len(m.used)) * int64(unsafe.Sizeof(m.used[0])); got > bufferBytes {
		t.Fatalf("%d bytes instead of %d", got, bufferBytes)
	}
	var key [8]byte
	for n := int64(0); ; n++ {
		binary.BigEndian.PutUint64(key[:], uint64(n))
		if !m.put(m.hash(key[:]), n) {
			break
		}
	}
	if load := m.load(); load < 0.85 || load > 0.9 {
		t.Fatalf("it is full at %.3f", load)
	}
	m.reset(10)
	if !m.hasMore() || len(m.used) > 2*tailSlots {
		t.Fatalf("10 keys got %d slots", len(m.used))
	}
}

// BenchmarkKeyMap is per key, in batches as a pass looks them up.
func BenchmarkKeyMap(b *testing.B) {
	const keys = 4 << 20
	m := newKeyMap(keys*slotBytes*5/4, 0.9)
	m.reset(maxKeys)
	var hashes [record.ChooserRecords]keyHash
	var key [16]byte
	each := func(b *testing.B, among int, do func(hash keyHash, n int)) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			at := n % len(hashes)
			binary.BigEndian.PutUint64(key[8:], uint64(n%among))
			hashes[at] = m.hash(key[:])
			if at < len(hashes)-1 {
				continue
			}
			m.touch(hashes[:])
			for i, hash := range hashes {
				do(hash, n-at+i)
			}
		}
	}
	b.Run("put", func(b *testing.B) { each(b, keys, func(hash keyHash, n int) { m.put(hash, int64(n)) }) })
	b.Run("last", func(b *testing.B) { each(b, 2*keys, func(hash keyHash, _ int) { m.last(hash) }) })
}
