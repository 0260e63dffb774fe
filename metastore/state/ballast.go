package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BallastBytes is room for what both databases may have to write before the node has stopped taking work in: their
// memtables, and the logs behind these.
const BallastBytes = 32 << 20

const (
	// firstRefill lets the node's first clients have the disk for themselves.
	firstRefill = time.Second
	// refillInterval is the time between two looks at the ballast.
	refillInterval = 10 * time.Second
	// ballastStep is how much of it is written at once: whoever waits for the disk waits for no more than that.
	ballastStep = 1 << 20
)

// Ballast is a file that only takes up room. A database cannot go on after a failed write, so when the disk is full the
// ballast is removed and the write is tried once more: that leaves time to refuse work and to delete something.
type Ballast struct {
	inner  vfs.FS
	outer  vfs.FS
	path   string
	bytes  int64
	logger *slog.Logger
	onFull func()
	full   atomic.Bool
}

// NewBallast does nothing with the disk yet: Run makes the file. onFull is called, if it is not nil, each time the disk
// turns out to be full; it must be quick, since all writes wait for it.
func NewBallast(inner vfs.FS, path string, bytes int64, logger *slog.Logger, onFull func()) *Ballast {
	b := &Ballast{inner: inner, path: path, bytes: bytes, logger: logger, onFull: onFull}
	b.outer = vfs.OnDiskFull(inner, b.release)
	return b
}

// FS is the file system that databases should be opened on.
func (b *Ballast) FS() vfs.FS { return b.outer }

// Full tells whether the disk has been full, and there was no room for a new ballast since then.
func (b *Ballast) Full() bool { return b.full.Load() }

// release makes room. It works on the inner file system, because the outer one waits for it.
func (b *Ballast) release() {
	b.full.Store(true)
	err := b.inner.Remove(b.path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		b.logger.Error("the disk of the metadata is full: the ballast file is given up", "path", b.path, "error", err)
	}
	if b.onFull != nil {
		b.onFull()
	}
}

// Run makes the file, and makes it again whenever it is missing and there is room, until ctx ends. That it cannot be
// made is no reason to stop: the node must be able to run on a disk that is full already.
func (b *Ballast) Run(ctx context.Context) error {
	timer := time.NewTimer(firstRefill)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := b.Refill(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, syscall.ENOSPC) {
			b.logger.Warn("the databases have no ballast for a full disk; it will be tried again", "error", err)
		}
		timer.Reset(refillInterval)
	}
}

// Refill makes the file if it is not whole and there is room. Without any, the error is ENOSPC.
func (b *Ballast) Refill(ctx context.Context) error {
	info, err := b.inner.Stat(b.path)
	if err == nil && info.Size() >= b.bytes {
		b.full.Store(false)
		return nil
	}
	// Where the size of the disk is known, as much must be left as is taken: or the next write would find it full again.
	usage, err := b.inner.GetDiskUsage(b.inner.PathDir(b.path))
	if err == nil && usage.AvailBytes < 2*uint64(b.bytes) {
		return fmt.Errorf("make the ballast file %s: %d bytes are free: %w", b.path, usage.AvailBytes, syscall.ENOSPC)
	}
	if err := b.write(ctx); err != nil {
		// A part of the ballast is no use, and the room it takes may be wanted.
		return errors.Join(fmt.Errorf("make the ballast file %s: %w", b.path, err), b.inner.Remove(b.path))
	}
	if b.full.Swap(false) {
		b.logger.Info("the disk of the metadata has room again", "path", b.path)
	}
	return nil
}

func (b *Ballast) write(ctx context.Context) (err error) {
	file, err := b.inner.Create(b.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// Written out, not only extended: a hole takes up no room.
	for left := b.bytes; left > 0; left -= ballastStep {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := io.CopyN(file, zeros{}, min(left, ballastStep)); err != nil {
			return err
		}
		if err := file.SyncData(); err != nil {
			return err
		}
	}
	return file.Sync()
}

// zeros is an endless source of them.
type zeros struct{}

func (zeros) Read(dst []byte) (int, error) {
	clear(dst)
	return len(dst), nil
}
