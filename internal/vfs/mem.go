package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows what a power cut would leave of it (CrashClone). It behaves as POSIX file
// systems do: open files outlive their names, and a file's Sync says nothing about the entry that leads to it. Relative
// names start at the root.
type Mem struct {
	// mu guards the whole tree, contents included. One lock, so that a crash clone is the state at one instant: a file
	// synced after another one must never be in a clone that lacks the other one's sync.
	mu       sync.RWMutex
	root     *folder
	lastOp   int64 // number of the last change of an entry
	used     int64 // bytes in files that are linked or open
	capacity int64 // −1: unlimited
}

var _ FS = (*Mem)(nil)

// NewMem returns an empty file system of unlimited size.
func NewMem() *Mem { return &Mem{root: newFolder(), capacity: -1} }

// SetFreeBytes makes the file system full once so many bytes have been added to its files. A write that does not fit is
// cut short with ENOSPC.
func (m *Mem) SetFreeBytes(free int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = m.used + free
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.openOrCreate("open", name)
	if err != nil {
		return nil, err
	}
	node.content.truncate(m, 0)
	return m.handle(name, node, true), nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.openExisting(name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.openExisting(name, true) }

func (m *Mem) openExisting(name string, writable bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find(name)
	if err == nil && node.folder != nil {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return m.handle(name, node, writable), nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.parentOf(name)
	if err == nil {
		err = m.remove(parent, base)
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

func (m *Mem) remove(parent *folder, base string) error {
	node := parent.entries[base]
	if node == nil {
		return fs.ErrNotExist
	}
	if node.folder != nil && len(node.folder.entries) > 0 {
		return syscall.ENOTEMPTY
	}
	m.apply(&entryOp{node: node, removeFrom: parent, removeName: base})
	return nil
}

// RemoveAll implements FS. As on a real system it is many removals, of which a crash may leave any number.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.parentOf(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && parent.entries[base] == nil {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	m.removeTree(parent, base)
	return nil
}

func (m *Mem) removeTree(parent *folder, base string) {
	node := parent.entries[base]
	if node.folder != nil {
		for _, child := range slices.Sorted(maps.Keys(node.folder.entries)) {
			m.removeTree(node.folder, child)
		}
	}
	m.apply(&entryOp{node: node, removeFrom: parent, removeName: base})
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.rename(oldName, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

func (m *Mem) rename(oldName, newName string) error {
	from, oldBase, err := m.parentOf(oldName)
	if err != nil {
		return err
	}
	to, newBase, err := m.parentOf(newName)
	if err != nil {
		return err
	}
	node, replaced := from.entries[oldBase], to.entries[newBase]
	switch {
	case node == nil:
		return fs.ErrNotExist
	case node == replaced:
		return nil
	case replaced != nil && replaced.folder != nil: // as package os, which never replaces a folder
		return fs.ErrExist
	case replaced != nil && node.folder != nil:
		return syscall.ENOTDIR
	case node.folder != nil && strings.HasPrefix(clean(newName)+"/", clean(oldName)+"/"):
		return syscall.EINVAL // into itself
	}
	m.apply(&entryOp{node: node, removeFrom: from, removeName: oldBase, addTo: to, addName: newBase})
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.root
	for _, base := range split(dir) {
		node := at.entries[base]
		if node == nil {
			node = &inode{folder: newFolder()}
			m.apply(&entryOp{node: node, addTo: at, addName: base})
		}
		if node.folder == nil {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		at = node.folder
	}
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	at, err := m.findFolder(dir)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return slices.Sorted(maps.Keys(at.entries)), nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (os.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.find(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	info := memInfo{name: path.Base(clean(name)), folder: node.folder != nil}
	if node.content != nil {
		info.size, info.modified = int64(len(node.content.data)), node.content.modified
	}
	return info, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.findFolder(dir)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	at.sync()
	return nil
}

// Lock implements FS. The clone of a crash has no locks.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.openOrCreate("lock", name)
	if err != nil {
		return nil, err
	}
	if node.content.locked {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	node.content.locked = true
	return &memLock{mem: m, content: node.content}, nil
}

// Space implements FS.
func (m *Mem) Space(dir string) (Space, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.find(dir); err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	space := Space{TotalBytes: math.MaxInt64, FreeBytes: m.free()}
	if m.capacity >= 0 {
		space.TotalBytes = m.capacity
	}
	return space, nil
}

func (m *Mem) free() int64 {
	if m.capacity < 0 {
		return math.MaxInt64
	}
	return max(0, m.capacity-m.used)
}

// openOrCreate finds a file or adds an empty one.
func (m *Mem) openOrCreate(op, name string) (*inode, error) {
	parent, base, err := m.parentOf(name)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	node := parent.entries[base]
	if node == nil {
		node = &inode{content: &content{modified: time.Now()}}
		m.apply(&entryOp{node: node, addTo: parent, addName: base})
	}
	if node.folder != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.EISDIR}
	}
	return node, nil
}

func (m *Mem) handle(name string, node *inode, writable bool) *memFile {
	node.content.opens++
	return &memFile{mem: m, name: name, content: node.content, writable: writable}
}

// apply makes a change of entries visible, and pending in the folders it changes.
func (m *Mem) apply(op *entryOp) {
	m.lastOp++
	op.number = m.lastOp
	if op.addTo != nil {
		m.unlinked(op.addTo.entries[op.addName])
		op.addTo.pending = append(op.addTo.pending, op)
		op.applyTo(op.addTo, op.addTo.entries)
	}
	if op.removeFrom != nil && op.removeFrom != op.addTo {
		op.removeFrom.pending = append(op.removeFrom.pending, op)
		op.applyTo(op.removeFrom, op.removeFrom.entries)
	}
	if op.addTo == nil {
		m.unlinked(op.node)
	}
}

// unlinked notes that a node has lost its name; its bytes are free once nobody has it open either.
func (m *Mem) unlinked(node *inode) {
	if node == nil || node.content == nil {
		return
	}
	node.content.unlinked = true
	m.reclaim(node.content)
}

func (m *Mem) reclaim(c *content) {
	if c.unlinked && c.opens == 0 {
		m.used -= int64(len(c.data))
	}
}

func (m *Mem) find(name string) (*inode, error) {
	at := &inode{folder: m.root}
	for _, base := range split(name) {
		if at.folder == nil {
			return nil, syscall.ENOTDIR
		}
		if at = at.folder.entries[base]; at == nil {
			return nil, fs.ErrNotExist
		}
	}
	return at, nil
}

func (m *Mem) findFolder(name string) (*folder, error) {
	node, err := m.find(name)
	if err == nil && node.folder == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, err
	}
	return node.folder, nil
}

func (m *Mem) parentOf(name string) (parent *folder, base string, err error) {
	name = clean(name)
	if name == "/" {
		return nil, "", syscall.EINVAL // the root has no entry of its own
	}
	parent, err = m.findFolder(path.Dir(name))
	return parent, path.Base(name), err
}

func clean(name string) string { return path.Clean("/" + name) }

func split(name string) []string {
	name = clean(name)
	if name == "/" {
		return nil
	}
	return strings.Split(name[1:], "/")
}
