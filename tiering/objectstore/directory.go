package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/firnlog/firn/internal/vfs"
)

// scratchFolder holds what is not an object (yet). CheckKey allows no component that begins with a dot, so it never
// collides with a key and List leaves it out.
const scratchFolder = ".tmp"

const (
	maxOpeners        = 1024    // processes that share one folder; far more than make sense, so that the search ends
	maxDurableFolders = 1 << 16 // remembered as durable, ~100 B each; past that the memory is emptied and filled anew
)

// Directory is a bucket in a folder of a file system: an object is a file, its key the path. Put writes and syncs a
// file aside, moves it to its name and syncs every folder whose entries that changed, so an object is whole or absent
// after a crash, and there once Put has returned. Several processes may use one folder at the same time.
type Directory struct {
	fs      vfs.FS
	dir     string
	scratch string    // folder of this opener's unfinished files
	lock    io.Closer // says that scratch is in use

	mu      sync.Mutex               // guards the fields below
	serial  int64                    // of the next unfinished file
	writers map[string]chan struct{} // keys being written, each with a channel that closes at the end
	users   map[string]int           // names that running writes count on: no folder to be removed
	durable map[string]struct{}      // folders whose entries are known to be synced up to dir
}

var _ Bucket = (*Directory)(nil)

// NewDirectory opens the bucket in a folder, which is made if it is missing, and removes what crashed writers left.
func NewDirectory(fsys vfs.FS, dir string) (*Directory, error) {
	d := &Directory{fs: fsys, dir: dir, writers: map[string]chan struct{}{}, users: map[string]int{},
		durable: map[string]struct{}{}}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open the bucket in %s: %w", dir, err)
	}
	return d, nil
}

func (d *Directory) open() error {
	root := path.Join(d.dir, scratchFolder)
	if err := vfs.MkdirAllDurable(d.fs, root); err != nil {
		return err
	}
	if err := d.removeLeftovers(root); err != nil {
		return err
	}
	for n := range maxOpeners {
		scratch := path.Join(root, strconv.Itoa(n))
		lock, err := d.fs.Lock(scratch + ".lock")
		if err != nil && errors.Is(err, vfs.ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		d.scratch, d.lock = scratch, lock
		if err := d.fs.MkdirAll(scratch); err != nil {
			return errors.Join(err, lock.Close())
		}
		return nil
	}
	return fmt.Errorf("%d others use it already", maxOpeners)
}

// removeLeftovers empties the scratch folders whose lock nobody holds: their owners are dead.
func (d *Directory) removeLeftovers(root string) error {
	names, err := d.fs.List(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		lock, err := d.fs.Lock(path.Join(root, name+".lock"))
		if errors.Is(err, vfs.ErrLocked) {
			continue
		}
		if err == nil {
			err = errors.Join(d.fs.RemoveAll(path.Join(root, name)), lock.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadDirectory opens the bucket in a folder for somebody who reads only: nothing is made or removed. It must not be
// written to.
func ReadDirectory(fsys vfs.FS, dir string) (*Directory, error) {
	info, err := fsys.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fmt.Errorf("open the bucket in %s: %w", dir, err)
	}
	return &Directory{fs: fsys, dir: dir}, nil
}

// Close gives up the scratch folder. The bucket must not be used any more.
func (d *Directory) Close() error {
	if d.lock == nil {
		return nil
	}
	return errors.Join(d.fs.RemoveAll(d.scratch), d.lock.Close())
}

// Get implements Bucket.
func (d *Directory) Get(ctx context.Context, key string, offset int64, dst []byte) (int, error) {
	if err := checkGet(OpGet, d.name(), key, offset); err != nil {
		return 0, err
	}
	if len(dst) == 0 {
		return 0, nil
	}
	info, err := d.stat(ctx, OpGet, key)
	if err != nil {
		return 0, err
	}
	file, err := d.fs.Open(d.path(key))
	if err != nil {
		return 0, d.failure(OpGet, key, err)
	}
	defer file.Close()
	n, err := file.ReadAt(dst, offset)
	if n == len(dst) {
		return n, nil
	}
	if err == io.EOF {
		return n, pastEnd(d.name(), key, offset+int64(len(dst)), info.Size)
	}
	return n, d.failure(OpGet, key, err)
}

// Stat implements Bucket.
func (d *Directory) Stat(ctx context.Context, key string) (ObjectInfo, error) {
	if err := checkGet(OpStat, d.name(), key, 0); err != nil {
		return ObjectInfo{}, err
	}
	return d.stat(ctx, OpStat, key)
}

func (d *Directory) stat(ctx context.Context, operation Operation, key string) (ObjectInfo, error) {
	if err := ctx.Err(); err != nil {
		return ObjectInfo{}, d.failure(operation, key, err)
	}
	info, err := d.fs.Stat(d.path(key))
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return ObjectInfo{}, d.failure(operation, key, err)
	}
	return ObjectInfo{Key: key, Size: info.Size()}, nil
}

func (d *Directory) path(key string) string { return path.Join(d.dir, key) }

func (d *Directory) name() string { return "file://" + strings.TrimSuffix(d.dir, "/") }

// failure maps what a file system answers to what a store answers. Whatever is not the caller's or the operator's fault
// (a full or failing disk, too many open files) may be over later.
func (d *Directory) failure(operation Operation, key string, cause error) error {
	kind := ErrUnavailable
	switch {
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, errBody):
		kind = nil
	case errors.Is(cause, ErrChecksum):
		kind = ErrChecksum
	case errors.Is(cause, errFolder):
		kind = ErrInvalidKey
	case (operation == OpGet || operation == OpStat) &&
		(errors.Is(cause, fs.ErrNotExist) || errors.Is(cause, syscall.ENOTDIR)):
		kind, cause = ErrNotFound, nil
	case errors.Is(cause, fs.ErrPermission):
		kind = ErrDenied
	}
	return localFailure(operation, d.name(), key, kind, cause)
}
