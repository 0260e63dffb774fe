package compaction

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// keyMap maps hashes of keys to the last offset of each, in memory whose size is fixed. Two keys with the same 128 bits
// would be one key to it; the seeds are random, so that nobody can make such keys, and chance does not.
//
// It is an open table whose slots are sorted by hash, so that a search ends where its hash would be, whether it is
// there or not: most searches are for keys that are not.
type keyMap struct {
	maxSlots   int64  // that the memory has room for
	used       []slot // for this pass, with a tail behind what hashes point to
	home       uint64 // hashes point to used[:home]
	loadFactor float64
	limit      int // of keys
	keys       int
	seeds      [2]maphash.Seed
	touched    int64
}

// slot is one key. The offset is stored plus one: zero is a free slot.
type slot struct {
	hash   keyHash
	offset int64
}

const (
	slotBytes = int64(unsafe.Sizeof(slot{}))
	// tailSlots is what keys at the end may be moved into. A run of full slots is hardly ever longer; if one is, the
	// map is full.
	tailSlots = 1 << 12
	// minRecordBytes is less than what any record with a key takes, so that the number of keys in a number of bytes
	// has a bound.
	minRecordBytes = 8
)

func newKeyMap(bufferBytes int64, loadFactor float64) *keyMap {
	return &keyMap{
		maxSlots: max(2, bufferBytes/slotBytes), loadFactor: loadFactor,
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
}

// maxKeys asks for all the memory.
const maxKeys = 1 << 40

// reset empties the map, and must be called before the first key. It takes as little of its memory as the keys that may
// come need: a small log must not pay for having, clearing, and missing the caches with, a large table.
func (m *keyMap) reset(expectedKeys int64) {
	want := min(int64(float64(expectedKeys)/m.loadFactor)+tailSlots+1, m.maxSlots)
	if want > int64(cap(m.used)) {
		m.used = make([]slot, want)
	} else {
		m.used = m.used[:want]
		clear(m.used)
	}
	m.home = uint64(len(m.used) - min(tailSlots, len(m.used)/2))
	m.limit = max(1, int(float64(m.home)*m.loadFactor))
	m.keys = 0
}

// hasMore tells whether a reset could give the map more room than it has.
func (m *keyMap) hasMore() bool { return int64(len(m.used)) < m.maxSlots }

// keyHash stands for a key.
type keyHash [2]uint64

func (m *keyMap) hash(key []byte) keyHash {
	return keyHash{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
}

func (m *keyMap) homeOf(hash keyHash) int {
	home, _ := bits.Mul64(hash[0], m.home)
	return int(home)
}

// touch brings the slots of some hashes into the processor's caches. It takes about as long for many as for one: the
// loads do not depend on each other, so that the processor waits for all of them at once. Searches one after the other
// wait for each.
func (m *keyMap) touch(hashes []keyHash) {
	sum := int64(0)
	for _, hash := range hashes {
		sum += m.used[m.homeOf(hash)].offset
	}
	m.touched = sum // so that the loads are for something
}

// find is the slot of a hash, or where it would be.
func (m *keyMap) find(hash keyHash) (at int, found bool) {
	for at = m.homeOf(hash); at < len(m.used); at++ {
		s := &m.used[at]
		switch {
		case s.offset == 0 || s.hash[0] > hash[0]:
			return at, false
		case s.hash == hash:
			return at, true
		}
	}
	return at, false
}

// put notes that a key is at an offset, which is larger than all before. False says that the map is full.
func (m *keyMap) put(hash keyHash, offset int64) bool {
	at, found := m.find(hash)
	if found {
		m.used[at].offset = offset + 1
		return true
	}
	if m.keys == m.limit {
		return false
	}
	free := at
	for free < len(m.used) && m.used[free].offset != 0 {
		free++
	}
	if free == len(m.used) {
		return false
	}
	copy(m.used[at+1:free+1], m.used[at:free])
	m.used[at] = slot{hash: hash, offset: offset + 1}
	m.keys++
	return true
}

// last is the last offset of a key, −1 if it has none.
func (m *keyMap) last(hash keyHash) int64 {
	if at, found := m.find(hash); found {
		return m.used[at].offset - 1
	}
	return -1
}

// load is how much of the buffer is in use, 0 to 1.
func (m *keyMap) load() float64 { return float64(m.keys) / float64(m.maxSlots) }
