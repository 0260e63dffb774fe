package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BallastBytes is room for what both databases may have to write before the node has stopped taking work in: their
// memtables, and the logs behind these.
const BallastBytes = 32 << 20

// Ballast is a file that only takes up room. A database cannot go on after a failed write, so when the disk is full the
// ballast is removed and the write is tried once more: that leaves time to refuse work and to delete something.
type Ballast struct {
	inner  vfs.FS
	outer  vfs.FS
	path   string
	bytes  int64
	logger *slog.Logger
	onFull func()
}

// NewBallast makes the file if it is not there. onFull is called, if it is not nil, each time the disk turns out to be
// full; it must be quick, since all writes wait for it. A disk that is full already is no error: the node must be able
// to start on it.
func NewBallast(inner vfs.FS, path string, bytes int64, logger *slog.Logger, onFull func()) (*Ballast, error) {
	b := &Ballast{inner: inner, path: path, bytes: bytes, logger: logger, onFull: onFull}
	b.outer = vfs.OnDiskFull(inner, b.release)
	if err := b.Refill(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return nil, err
	}
	return b, nil
}

// FS is the file system that databases should be opened on.
func (b *Ballast) FS() vfs.FS { return b.outer }

// release makes room. It works on the inner file system, because the outer one waits for it.
func (b *Ballast) release() {
	err := b.inner.Remove(b.path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		b.logger.Error("the disk of the metadata is full: the ballast file is given up", "path", b.path, "error", err)
	}
	if b.onFull != nil {
		b.onFull()
	}
}

// Refill makes the file again once there is room. It does nothing if the file is whole.
func (b *Ballast) Refill() error {
	info, err := b.inner.Stat(b.path)
	if err == nil && info.Size() >= b.bytes {
		return nil
	}
	if err := b.write(); err != nil {
		// A part of the ballast is no use, and the room it takes may be wanted.
		return errors.Join(fmt.Errorf("make the ballast file %s: %w", b.path, err), b.inner.Remove(b.path))
	}
	return nil
}

func (b *Ballast) write() (err error) {
	file, err := b.inner.Create(b.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// Written out, not only extended: a hole takes up no room.
	if _, err := io.CopyN(file, zeros{}, b.bytes); err != nil {
		return err
	}
	return file.Sync()
}

// zeros is an endless source of them.
type zeros struct{}

func (zeros) Read(dst []byte) (int, error) {
	clear(dst)
	return len(dst), nil
}
