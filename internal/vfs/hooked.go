package vfs

import (
	"fmt"
	"io"
	"os"
)

// Kind says what an operation does.
type Kind string

// The kinds of operations: those of FS, then those of File. Opening covers both ways to do it.
const (
	OpCreate    Kind = "create"
	OpOpen      Kind = "open"
	OpRemove    Kind = "remove"
	OpRemoveAll Kind = "remove-all"
	OpRename    Kind = "rename"
	OpMkdirAll  Kind = "mkdir-all"
	OpList      Kind = "list"
	OpStat      Kind = "stat"
	OpSyncDir   Kind = "sync-dir"
	OpLock      Kind = "lock"
	OpSpace     Kind = "space"
	OpRead      Kind = "read"
	OpWrite     Kind = "write"
	OpClose     Kind = "close"
	OpSize      Kind = "size"
	OpTruncate  Kind = "truncate"
	OpSync      Kind = "sync"
	OpSyncData  Kind = "sync-data"
)

// Changes tells whether operations of the kind change the file system or make it durable.
func (k Kind) Changes() bool {
	switch k {
	case OpCreate, OpRemove, OpRemoveAll, OpRename, OpMkdirAll, OpSyncDir, OpLock, OpWrite, OpTruncate, OpSync,
		OpSyncData:
		return true
	}
	return false
}

// Op is one operation on a file system, as a predicate or a log sees it.
type Op struct {
	Kind    Kind
	Name    string // for a file the name it was opened by
	NewName string // of a rename
	Offset  int64  // of a read or write
	Size    int64  // bytes to read or write, or the new length of a truncate
	Number  int64  // counts all operations of this file system from 1
}

// String prints the operation as one line of text, without its number.
func (o Op) String() string {
	switch o.Kind {
	case OpRename:
		return fmt.Sprintf("%s %s %s", o.Kind, o.Name, o.NewName)
	case OpRead, OpWrite:
		return fmt.Sprintf("%s %s [%d, %d)", o.Kind, o.Name, o.Offset, o.Offset+o.Size)
	case OpTruncate:
		return fmt.Sprintf("%s %s %d", o.Kind, o.Name, o.Size)
	default:
		return fmt.Sprintf("%s %s", o.Kind, o.Name)
	}
}

// around is called for each operation instead of it, and performs it or not. Only a write looks at limit: it then
// writes at most so many bytes.
type around func(op Op, perform func(limit int64) error) error

// hookedFS puts a hook around every operation of a file system and of the files opened through it.
type hookedFS struct {
	inner  FS
	around around
}

func (h *hookedFS) do(op Op, perform func() error) error {
	return h.around(op, func(int64) error { return perform() })
}

func (h *hookedFS) Create(name string) (File, error) {
	return h.open(OpCreate, name, h.inner.Create)
}

func (h *hookedFS) Open(name string) (File, error) { return h.open(OpOpen, name, h.inner.Open) }

func (h *hookedFS) OpenReadWrite(name string) (File, error) {
	return h.open(OpOpen, name, h.inner.OpenReadWrite)
}

func (h *hookedFS) open(kind Kind, name string, open func(string) (File, error)) (File, error) {
	var file File
	err := h.do(Op{Kind: kind, Name: name}, func() (err error) {
		file, err = open(name)
		return err
	})
	if err != nil {
		if file != nil { // the operation was performed, and an error is pretended
			_ = file.Close()
		}
		return nil, err
	}
	return &hookedFile{inner: file, fs: h}, nil
}

func (h *hookedFS) Remove(name string) error {
	return h.do(Op{Kind: OpRemove, Name: name}, func() error { return h.inner.Remove(name) })
}

func (h *hookedFS) RemoveAll(name string) error {
	return h.do(Op{Kind: OpRemoveAll, Name: name}, func() error { return h.inner.RemoveAll(name) })
}

func (h *hookedFS) Rename(oldName, newName string) error {
	op := Op{Kind: OpRename, Name: oldName, NewName: newName}
	return h.do(op, func() error { return h.inner.Rename(oldName, newName) })
}

func (h *hookedFS) MkdirAll(dir string) error {
	return h.do(Op{Kind: OpMkdirAll, Name: dir}, func() error { return h.inner.MkdirAll(dir) })
}

func (h *hookedFS) SyncDir(dir string) error {
	return h.do(Op{Kind: OpSyncDir, Name: dir}, func() error { return h.inner.SyncDir(dir) })
}

func (h *hookedFS) List(dir string) ([]string, error) {
	return query(h, Op{Kind: OpList, Name: dir}, func() ([]string, error) { return h.inner.List(dir) })
}

func (h *hookedFS) Stat(name string) (os.FileInfo, error) {
	return query(h, Op{Kind: OpStat, Name: name}, func() (os.FileInfo, error) { return h.inner.Stat(name) })
}

func (h *hookedFS) Space(dir string) (Space, error) {
	return query(h, Op{Kind: OpSpace, Name: dir}, func() (Space, error) { return h.inner.Space(dir) })
}

func (h *hookedFS) Lock(name string) (io.Closer, error) {
	var held io.Closer
	err := h.do(Op{Kind: OpLock, Name: name}, func() (err error) {
		held, err = h.inner.Lock(name)
		return err
	})
	if err != nil {
		if held != nil {
			_ = held.Close()
		}
		return nil, err
	}
	return held, nil
}

// query runs an operation that answers something.
func query[T any](h *hookedFS, op Op, ask func() (T, error)) (T, error) {
	var answer, none T
	err := h.do(op, func() (err error) {
		answer, err = ask()
		return err
	})
	if err != nil {
		return none, err
	}
	return answer, nil
}

type hookedFile struct {
	inner File
	fs    *hookedFS
}

func (f *hookedFile) Name() string { return f.inner.Name() }

// OSFile is nil, so that maps and sendfile do not go past the hook.
func (f *hookedFile) OSFile() *os.File { return nil }

func (f *hookedFile) do(kind Kind, perform func() error) error {
	return f.fs.do(Op{Kind: kind, Name: f.Name()}, perform)
}

func (f *hookedFile) ReadAt(p []byte, off int64) (n int, err error) {
	op := Op{Kind: OpRead, Name: f.Name(), Offset: off, Size: int64(len(p))}
	err = f.fs.do(op, func() (err error) {
		n, err = f.inner.ReadAt(p, off)
		return err
	})
	return n, err
}

func (f *hookedFile) WriteAt(p []byte, off int64) (n int, err error) {
	op := Op{Kind: OpWrite, Name: f.Name(), Offset: off, Size: int64(len(p))}
	err = f.fs.around(op, func(limit int64) (err error) {
		n, err = f.inner.WriteAt(p[:min(limit, int64(len(p)))], off)
		return err
	})
	return n, err
}

func (f *hookedFile) Size() (int64, error) {
	return query(f.fs, Op{Kind: OpSize, Name: f.Name()}, f.inner.Size)
}

func (f *hookedFile) Truncate(size int64) error {
	op := Op{Kind: OpTruncate, Name: f.Name(), Size: size}
	return f.fs.do(op, func() error { return f.inner.Truncate(size) })
}

func (f *hookedFile) Sync() error { return f.sync(OpSync, f.inner.Sync) }

func (f *hookedFile) SyncData() error { return f.sync(OpSyncData, f.inner.SyncData) }

// sync sees to it that one which the hook makes fail does what a failed one does: asking again would succeed, and be a
// lie.
func (f *hookedFile) sync(kind Kind, perform func() error) error {
	performed := false
	err := f.do(kind, func() error {
		performed = true
		return perform()
	})
	if inner, ok := f.inner.(interface{ failSync() }); ok && err != nil && !performed {
		inner.failSync()
	}
	return err
}

func (f *hookedFile) failSync() {
	if inner, ok := f.inner.(interface{ failSync() }); ok {
		inner.failSync()
	}
}

func (f *hookedFile) Close() error { return f.do(OpClose, f.inner.Close) }
