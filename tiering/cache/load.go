package cache

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// The keys of the list: one byte, and the id of an entry where it is one.
const (
	ownerKey = "o" // which directory the list is about
	markKey  = "m" // numbers from here on have never been used
	entryKey = "e"
)

// ownerName is the file that says which list the directory belongs to.
const ownerName = "owner"

func keyOf(id ID) []byte {
	key := append([]byte(entryKey), id.Upload[:]...)
	return binary.BigEndian.AppendUint64(key, uint64(id.Index))
}

const (
	keyBytes   = 1 + 16 + 8
	valueBytes = 4 + 8 + 4
)

func (e *entry) encode() []byte {
	value := binary.BigEndian.AppendUint32(make([]byte, 0, valueBytes), e.number)
	value = binary.BigEndian.AppendUint64(value, uint64(e.size))
	return binary.BigEndian.AppendUint32(value, e.sum)
}

func decode(key, value []byte) (*entry, error) {
	if len(key) != keyBytes || len(value) != valueBytes {
		return nil, fmt.Errorf("an entry of %d and %d bytes", len(key), len(value))
	}
	e := &entry{
		id:     ID{Index: int64(binary.BigEndian.Uint64(key[17:]))},
		number: binary.BigEndian.Uint32(value), size: int64(binary.BigEndian.Uint64(value[4:])),
		sum: binary.BigEndian.Uint32(value[12:]),
	}
	copy(e.id.Upload[:], key[1:])
	return e, nil
}

// load reads the list. A directory that is not the list's own, or a list without its directory, is emptied.
func (c *Cache) load() error {
	owned, err := c.owned()
	if err != nil {
		return err
	}
	if !owned || c.options.Bytes == 0 {
		if err := c.empty(owned); err != nil {
			return err
		}
	}
	listed, err := c.entries()
	if err != nil {
		return err
	}
	var found []*entry
	for _, e := range listed {
		if c.fits(e) {
			found = append(found, e)
		} else if err := c.options.Store.Delete(keyOf(e.id)); err != nil {
			return err
		}
	}
	if err := c.numbers.load(found); err != nil {
		return err
	}
	if c.options.Bytes == 0 {
		return nil
	}
	c.mu.Lock()
	for _, e := range found {
		c.known[e.id] = e
		e.place = c.used.PushBack(e)
		c.bytes += charge(e.size)
	}
	over := c.bytes - c.options.Bytes
	c.ready = true
	c.metrics.bytes.Set(float64(c.bytes))
	c.mu.Unlock()
	for _, e := range c.oldest(over) { // the setting was larger
		c.remove(e)
	}
	return nil
}

// fits tells whether a file is as long as the list says. A crash may have left another one's: its content is looked at
// when somebody wants it, but its room counts now.
func (c *Cache) fits(e *entry) bool {
	info, err := c.options.FS.Stat(c.file(e.number))
	return err == nil && info.Size() == e.size
}

// owned tells whether the directory is the one the list is about.
func (c *Cache) owned() (bool, error) {
	listed, err := c.options.Store.Get([]byte(ownerKey))
	if err != nil {
		return false, err
	}
	written, err := vfs.ReadFile(c.options.FS, path.Join(c.options.Dir, ownerName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return len(listed) > 0 && bytes.Equal(listed, written), nil
}

// empty begins anew: no entry, no file, and an owner that there has never been. A directory that is the list's own
// needs no walk: the files have numbers.
func (c *Cache) empty(owned bool) error {
	var keys [][]byte
	err := c.options.Store.Scan([]byte(entryKey), func(key, _ []byte) error {
		keys = append(keys, bytes.Clone(key))
		return nil
	})
	for _, key := range keys {
		err = errors.Join(err, c.options.Store.Delete(key))
	}
	if err != nil || owned {
		return err
	}
	if err := c.emptyForeign(); err != nil || c.options.Bytes == 0 {
		return err
	}
	if err := vfs.MkdirAllDurable(c.options.FS, c.options.Dir); err != nil {
		return err
	}
	var id kafka.UUID
	_, _ = rand.Read(id[:]) // never fails, as crypto/rand says
	owner := []byte(id.String() + "\n")
	if err := vfs.WriteFileAtomic(c.options.FS, path.Join(c.options.Dir, ownerName), owner); err != nil {
		return err
	}
	if err := c.options.Store.Delete([]byte(markKey)); err != nil {
		return err
	}
	if err := c.options.Store.Set([]byte(ownerKey), owner); err != nil {
		return err
	}
	return c.options.SyncStore()
}

// emptyForeign removes the files of a cache that is not ours, and nothing else.
func (c *Cache) emptyForeign() error {
	names, err := c.options.FS.List(c.options.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if strings.HasSuffix(name, fileSuffix) {
			err = errors.Join(err, c.options.FS.Remove(path.Join(c.options.Dir, name)))
		}
	}
	return err
}

// entries reads the list, in the order of the files' numbers. What makes no sense is left out and so comes to an end
// with its file.
func (c *Cache) entries() (found []*entry, err error) {
	err = c.options.Store.Scan([]byte(entryKey), func(key, value []byte) error {
		if e, err := decode(key, value); err == nil {
			found = append(found, e)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	return found, err
}

// numbers hands out the names of files. They are small and used again, so that after a crash the files that are on no
// list can be found without a walk.
type numbers struct {
	cache *Cache

	growing sync.Mutex // held while more numbers are made

	mu   sync.Mutex // guards the fields below
	free []uint32
	mark uint32 // durable: numbers from here on have never been used
}

// numbersAtOnce is how many numbers are made with one sync of the store.
const numbersAtOnce = 256

// load finds the numbers that no entry has, and removes what files they name.
func (n *numbers) load(found []*entry) error {
	c := n.cache
	value, err := c.options.Store.Get([]byte(markKey))
	if err != nil {
		return err
	}
	var mark uint32
	if len(value) == 4 {
		mark = binary.BigEndian.Uint32(value)
	}
	used := make(map[uint32]bool, len(found))
	for _, e := range found {
		used[e.number] = true
	}
	var free []uint32
	for number := range mark {
		if used[number] {
			continue
		}
		if err := c.options.FS.Remove(c.file(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		free = append(free, number)
	}
	slices.Reverse(free) // the smallest is used first
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free, n.mark = free, mark
	return nil
}

func (n *numbers) give(number uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, number)
}

func (n *numbers) take() (uint32, error) {
	for {
		if number, ok := n.pop(); ok {
			return number, nil
		}
		if err := n.grow(); err != nil {
			return 0, err
		}
	}
}

func (n *numbers) pop() (uint32, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := len(n.free) - 1
	if last < 0 {
		return 0, false
	}
	number := n.free[last]
	n.free = n.free[:last]
	return number, true
}

// grow makes more numbers. The new mark is durable before any of them is used.
func (n *numbers) grow() error {
	n.growing.Lock()
	defer n.growing.Unlock()
	n.mu.Lock()
	mark, enough := n.mark, len(n.free) > 0
	n.mu.Unlock()
	if enough { // somebody else was faster
		return nil
	}
	next := mark + numbersAtOnce
	if err := n.cache.options.Store.Set([]byte(markKey), binary.BigEndian.AppendUint32(nil, next)); err != nil {
		return err
	}
	if err := n.cache.options.SyncStore(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mark = next
	for number := next; number > mark; number-- {
		n.free = append(n.free, number-1)
	}
	return nil
}
