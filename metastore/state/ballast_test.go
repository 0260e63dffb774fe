package state

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// fullDisk has no room left as long as the ballast is there, once it is full.
type fullDisk struct {
	mem  *vfs.MemFS
	full atomic.Bool
}

func (d *fullDisk) MaybeError(op errorfs.Op) error {
	if !d.full.Load() || op.Kind != errorfs.OpFileWrite && op.Kind != errorfs.OpCreate {
		return nil
	}
	if _, err := d.mem.Stat("ballast"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
}

func (d *fullDisk) String() string { return "full disk" }

func TestCR08AFullDiskTakesTheBallastInsteadOfTheDatabase(t *testing.T) {
	disk := &fullDisk{mem: vfs.NewMem()}
	fires := 0
	ballast := NewBallast(errorfs.Wrap(disk.mem, disk), "ballast", 3<<19, slog.New(slog.DiscardHandler),
		func() { fires++ })
	if err := ballast.Refill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := disk.mem.Stat("ballast"); err != nil || info.Size() != 3<<19 {
		t.Fatalf("the ballast is %v, %v", info, err)
	}
	db := openDB(t, ballast.FS())
	defer closeDB(t, db)
	set(t, db.Space(SpaceStorage), "before")
	disk.full.Store(true)
	set(t, db.Space(SpaceStorage), "while it is full")
	if err := db.Flush(); err != nil {
		t.Errorf("a write on a full disk: %v", err)
	}
	if _, err := disk.mem.Stat("ballast"); !errors.Is(err, fs.ErrNotExist) || fires != 1 || !ballast.Full() {
		t.Errorf("the ballast: %v; the node was told %d times, full: %t", err, fires, ballast.Full())
	}
	disk.full.Store(false)
	if err := ballast.Refill(t.Context()); err != nil || ballast.Full() {
		t.Error(err, ballast.Full())
	}
	if info, err := disk.mem.Stat("ballast"); err != nil || info.Size() != 3<<19 {
		t.Errorf("the ballast is not filled again: %v, %v", info, err)
	}
}

func TestTheBallastIsMadeAsSoonAsThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		full := atomic.Bool{}
		full.Store(true)
		disk := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}))
		ballast := NewBallast(disk, "ballast", 1<<20, slog.New(slog.DiscardHandler), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- ballast.Run(ctx) }()
		time.Sleep(firstRefill)
		synctest.Wait()
		if _, err := mem.Stat("ballast"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a part of the ballast is left: %v", err)
		}
		full.Store(false)
		time.Sleep(refillInterval)
		synctest.Wait()
		if info, err := mem.Stat("ballast"); err != nil || info.Size() != 1<<20 {
			t.Errorf("the ballast is not made: %v, %v", info, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// scarce is a file system that knows how much room it has.
type scarce struct {
	vfs.FS
	available uint64
}

func (s *scarce) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: s.available}, nil
}

func TestTheBallastDoesNotTakeTheLastRoom(t *testing.T) {
	disk := &scarce{FS: vfs.NewMem(), available: 2<<20 - 1}
	ballast := NewBallast(disk, "ballast", 1<<20, slog.New(slog.DiscardHandler), nil)
	if err := ballast.Refill(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	disk.available = 2 << 20
	if err := ballast.Refill(t.Context()); err != nil {
		t.Error(err)
	}
}
