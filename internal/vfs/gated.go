package vfs

import (
	"math"
	"sync"
)

// NewGated returns a file system whose operations hold gate for reading. Whoever holds it for writing sees the file
// system stand still, and so can clone it and another one as they are at the same instant.
func NewGated(fsys FS, gate *sync.RWMutex) FS {
	return &hookedFS{inner: fsys, around: func(_ Op, perform func(limit int64) error) error {
		gate.RLock()
		defer gate.RUnlock()
		return perform(math.MaxInt64)
	}}
}
