package vfs

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"
)

// blockSize is the unit in which a crash keeps or loses content: a page of the page cache.
const blockSize = 4096

// content is the bytes of a file, and what is needed to tell which of them a power cut would leave.
type content struct {
	data []byte // capacity beyond the length is zero
	// saved holds each block changed since the last sync as it was then: shorter than a block, or nil, where the file
	// ended inside or before it.
	saved map[int64][]byte
	// lost holds, in the same form, the blocks whose sync has failed: the page cache shows their new content and takes
	// it for clean, so that no later sync writes it. Only changing such a block again does.
	lost        map[int64][]byte
	durableSize int64 // the length at the last sync
	lowestSize  int64 // the least length since then: what lay above it has been cut off, even if it grew again
	modified    time.Time
	opens       int
	unlinked    bool
	locked      bool
}

// touch saves the durable version of the blocks that overlap [start, end) before they change.
func (c *content) touch(start, end int64) {
	if c.saved == nil {
		c.saved = map[int64][]byte{}
	}
	for block := start / blockSize; block*blockSize < end; block++ {
		if _, changed := c.saved[block]; changed {
			continue
		}
		if before, lost := c.lost[block]; lost {
			c.saved[block] = before
			delete(c.lost, block)
			continue
		}
		first := min(block*blockSize, c.durableSize)
		c.saved[block] = slices.Clone(c.data[first:min(first+blockSize, c.durableSize)])
	}
}

// write puts as much of p at an offset as fits into the file system.
func (c *content) write(m *Mem, p []byte, off int64) (int, error) {
	var err error
	if growth := off + int64(len(p)) - int64(len(c.data)); growth > m.free() {
		fits := max(0, int64(len(p))-(growth-m.free()))
		p, err = p[:fits], syscall.ENOSPC
	}
	if len(p) == 0 {
		return 0, err
	}
	end := off + int64(len(p))
	c.touch(off, end)
	c.grow(m, end)
	copy(c.data[off:], p)
	c.modified = time.Now()
	return len(p), err
}

func (c *content) grow(m *Mem, size int64) {
	growth := size - int64(len(c.data))
	if growth <= 0 {
		return
	}
	c.data = slices.Grow(c.data, int(growth))[:size]
	m.used += growth
}

func (c *content) truncate(m *Mem, size int64) {
	length := int64(len(c.data))
	if size < length {
		c.touch(size, length)
		clear(c.data[size:])
		c.data = c.data[:size]
		c.lowestSize = min(c.lowestSize, size)
		m.used -= length - size
	}
	c.grow(m, size)
	c.modified = time.Now()
}

func (c *content) sync() {
	c.saved = nil
	c.durableSize = int64(len(c.data))
	c.lowestSize = c.durableSize
}

// lose is a sync that has failed.
func (c *content) lose() {
	if c.lost == nil {
		c.lost = map[int64][]byte{}
	}
	maps.Copy(c.lost, c.saved)
	c.saved = nil
}

// memFile is one opening of a content.
type memFile struct {
	mem      *Mem
	name     string
	content  *content
	writable bool
	closed   bool // guarded by mem.mu
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) OSFile() *os.File { return nil }

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	switch {
	case f.closed:
		return 0, f.failed("read", fs.ErrClosed)
	case off < 0:
		return 0, f.failed("read", syscall.EINVAL)
	case len(p) == 0:
		return 0, nil
	case off >= int64(len(f.content.data)):
		return 0, io.EOF
	}
	n := copy(p, f.content.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.mayWrite("write", off); err != nil {
		return 0, err
	}
	n, err := f.content.write(f.mem, p, off)
	if err != nil {
		return n, f.failed("write", err)
	}
	return n, nil
}

func (f *memFile) Truncate(size int64) error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.mayWrite("truncate", size); err != nil {
		return err
	}
	if size-int64(len(f.content.data)) > f.mem.free() {
		return f.failed("truncate", syscall.ENOSPC)
	}
	f.content.truncate(f.mem, size)
	return nil
}

func (f *memFile) mayWrite(op string, off int64) error {
	switch {
	case f.closed:
		return f.failed(op, fs.ErrClosed)
	case !f.writable && op == "truncate":
		return f.failed(op, syscall.EINVAL) // as ftruncate
	case !f.writable:
		return f.failed(op, syscall.EBADF)
	case off < 0:
		return f.failed(op, syscall.EINVAL)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if f.closed {
		return 0, f.failed("stat", fs.ErrClosed)
	}
	return int64(len(f.content.data)), nil
}

func (f *memFile) Sync() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if f.closed {
		return f.failed("sync", fs.ErrClosed)
	}
	f.content.sync()
	return nil
}

func (f *memFile) SyncData() error { return f.Sync() }

// failSync makes of what is not synced what a failed sync leaves on Linux.
func (f *memFile) failSync() {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	f.content.lose()
}

func (f *memFile) Close() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if f.closed {
		return f.failed("close", fs.ErrClosed)
	}
	f.closed = true
	f.content.opens--
	f.mem.reclaim(f.content)
	return nil
}

func (f *memFile) failed(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}
