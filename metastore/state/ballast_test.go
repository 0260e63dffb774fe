package state

import (
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"

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
	ballast, err := NewBallast(errorfs.Wrap(disk.mem, disk), "ballast", 1<<20, slog.New(slog.DiscardHandler),
		func() { fires++ })
	if err != nil {
		t.Fatal(err)
	}
	if info, err := disk.mem.Stat("ballast"); err != nil || info.Size() != 1<<20 {
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
	if _, err := disk.mem.Stat("ballast"); !errors.Is(err, fs.ErrNotExist) || fires != 1 {
		t.Errorf("the ballast: %v; the node was told %d times", err, fires)
	}
	disk.full.Store(false)
	if err := ballast.Refill(); err != nil {
		t.Error(err)
	}
	if info, err := disk.mem.Stat("ballast"); err != nil || info.Size() != 1<<20 {
		t.Errorf("the ballast is not filled again: %v, %v", info, err)
	}
}

func TestANodeStartsOnADiskThatIsFullAlready(t *testing.T) {
	mem := vfs.NewMem()
	full := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	if _, err := NewBallast(full, "ballast", 1<<20, slog.New(slog.DiscardHandler), nil); err != nil {
		t.Errorf("a full disk: %v", err)
	}
	if _, err := mem.Stat("ballast"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of the ballast is left: %v", err)
	}
	broken := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite {
			return syscall.EIO
		}
		return nil
	}))
	if _, err := NewBallast(broken, "ballast", 1<<20, slog.New(slog.DiscardHandler), nil); err == nil {
		t.Error("a broken disk is not noticed")
	}
}
