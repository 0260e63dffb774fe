package wire

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/firnlog/firn/internal/invariant"
	"github.com/firnlog/firn/internal/vfs"
)

const (
	minClassShift = 12 // 4 KiB: the smallest frames are far smaller, but many arrive per page of memory saved
	maxClassShift = 22 // 4 MiB: larger frames are rare, and pooling them would pin memory for the sake of a few
	classCount    = maxClassShift - minClassShift + 1
)

// Pool lends byte buffers by size class: powers of two from 4 KiB to 4 MiB. Larger buffers are made to measure and left
// to the garbage collector. What lies idle in the pool is capped in bytes, whatever the mix of classes.
type Pool struct {
	maxIdleBytes int64

	inUseBytes atomic.Int64

	mu        sync.Mutex // guards the fields below
	idleBytes int64
	idle      [classCount][][]byte
}

// NewPool makes a pool that keeps at most maxIdleBytes of returned memory for later.
func NewPool(maxIdleBytes int64) *Pool { return &Pool{maxIdleBytes: maxIdleBytes} }

// Get lends a buffer of exactly size bytes of undefined content, with one reference.
func (p *Pool) Get(size int) *Buffer {
	b := &Buffer{pool: p}
	b.refs.Store(1)
	class := classOf(size)
	if class < 0 {
		b.data = make([]byte, size)
	} else {
		b.data = p.take(class)[:size]
	}
	p.inUseBytes.Add(int64(cap(b.data)))
	return b
}

// InUseBytes is how much memory is lent out.
func (p *Pool) InUseBytes() int64 { return p.inUseBytes.Load() }

// IdleBytes is how much memory waits to be lent again.
func (p *Pool) IdleBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idleBytes
}

// classOf returns the smallest class that holds size bytes, or −1 for sizes above the largest class.
func classOf(size int) int {
	if size > 1<<maxClassShift {
		return -1
	}
	if size <= 1<<minClassShift {
		return 0
	}
	return bits.Len(uint(size-1)) - minClassShift
}

func (p *Pool) take(class int) []byte {
	p.mu.Lock()
	if n := len(p.idle[class]); n > 0 {
		data := p.idle[class][n-1]
		p.idle[class][n-1] = nil
		p.idle[class] = p.idle[class][:n-1]
		p.idleBytes -= int64(cap(data))
		p.mu.Unlock()
		return data
	}
	p.mu.Unlock()
	return make([]byte, 1<<(class+minClassShift))
}

func (p *Pool) give(data []byte) {
	size := int64(cap(data))
	p.inUseBytes.Add(-size)
	class := classOf(cap(data))
	if class < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idleBytes+size > p.maxIdleBytes {
		return
	}
	p.idleBytes += size
	p.idle[class] = append(p.idle[class], data[:cap(data)])
}

// Buffer is a piece of pooled memory with a reference count. The handle is new for every Get, although the memory
// behind it is not: so a reference that is released once too often is always found out, even after the memory has been
// lent to somebody else.
type Buffer struct {
	pool *Pool
	data []byte
	refs atomic.Int32
}

// Bytes returns the buffer's memory. It is valid while the caller holds a reference.
func (b *Buffer) Bytes() []byte { return b.data }

// dead is the reference count of a buffer that has been returned: far enough below zero to stay there, whatever is done
// to it by mistake.
const dead = -1 << 30

// Retain takes another reference. The caller must hold one already.
func (b *Buffer) Retain() {
	if b.refs.Add(1) <= 1 {
		invariant.Fail("a buffer is retained after its last release")
	}
}

// Release gives one reference back; the last one returns the memory to the pool.
func (b *Buffer) Release() {
	switch refs := b.refs.Add(-1); {
	case refs > 0:
	case refs == 0:
		data := b.data
		b.data = nil
		b.refs.Store(dead)
		if invariant.Enabled { // whoever still reads it shall notice
			for i := range data {
				data[i] = 0xdb
			}
		}
		b.pool.give(data)
	default:
		invariant.Fail("a buffer is released more often than it was retained")
	}
}

var _ vfs.Holder = (*Buffer)(nil)
