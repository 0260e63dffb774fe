package vfs

import (
	"io/fs"
	"sync"
	"time"
)

// inode is what an entry leads to: a folder or a file's content, never both.
type inode struct {
	folder  *folder
	content *content
}

// folder holds its entries twice: as programs see them, and as the last SyncDir left them. What lies between is the
// list of pending changes, in order.
type folder struct {
	entries map[string]*inode
	durable map[string]*inode
	pending []*entryOp
}

func newFolder() *folder {
	return &folder{entries: map[string]*inode{}, durable: map[string]*inode{}}
}

// sync makes the folder's own side of every pending change durable. The other side of a rename between two folders
// stays pending in the other folder.
func (f *folder) sync() {
	for _, op := range f.pending {
		op.applyTo(f, f.durable)
		if op.addTo == f {
			op.addDurable = true
		}
		if op.removeFrom == f {
			op.removeDurable = true
		}
	}
	f.pending = nil
}

// entryOp is one atomic change of entries: a name added, removed, or (a rename) both.
type entryOp struct {
	number                    int64 // order of the changes of the whole file system
	node                      *inode
	removeFrom, addTo         *folder
	removeName, addName       string
	removeDurable, addDurable bool // whether SyncDir has been there since
}

// applyTo changes one version of the entries of a folder that the change touches.
func (op *entryOp) applyTo(f *folder, entries map[string]*inode) {
	if op.removeFrom == f {
		delete(entries, op.removeName)
	}
	if op.addTo == f {
		entries[op.addName] = op.node
	}
}

// undecided are the folders in which the change is not durable yet.
func (op *entryOp) undecided() []*folder {
	folders := make([]*folder, 0, 2)
	if op.removeFrom != nil && !op.removeDurable {
		folders = append(folders, op.removeFrom)
	}
	if op.addTo != nil && !op.addDurable {
		folders = append(folders, op.addTo)
	}
	return folders
}

type memInfo struct {
	name     string
	size     int64
	modified time.Time
	folder   bool
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.modified }
func (i memInfo) IsDir() bool        { return i.folder }
func (i memInfo) Sys() any           { return nil }

func (i memInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | folderMode
	}
	return fileMode
}

type memLock struct {
	mem     *Mem
	content *content
	once    sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.mem.mu.Lock()
		defer l.mem.mu.Unlock()
		l.content.locked = false
	})
	return nil
}
