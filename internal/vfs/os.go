package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrLocked is what Lock fails with while somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

const (
	fileMode   = 0o644
	folderMode = 0o755
)

// OS returns the operating system's file system. Names are paths as the system sees them.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) Open(name string) (File, error) { return openFile(name, os.O_RDONLY) }

func (osFS) OpenReadWrite(name string) (File, error) { return openFile(name, os.O_RDWR) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) RemoveAll(name string) error { return os.RemoveAll(name) }

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, folderMode) }

func (osFS) Stat(name string) (os.FileInfo, error) { return os.Stat(name) }

func (osFS) List(dir string) ([]string, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (osFS) SyncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Lock uses flock: the lock belongs to the open file, so a second holder in this process is refused as well, and the
// kernel drops it with the process.
func (osFS) Lock(name string) (io.Closer, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	err = control(file, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return file, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(&fs.PathError{Op: "lock", Path: name, Err: err}, file.Close())
}

func (osFS) Space(dir string) (Space, error) {
	var stat unix.Statfs_t
	for {
		err := unix.Statfs(dir, &stat)
		if err == nil {
			block := int64(stat.Bsize) //nolint:unconvert // its type differs from system to system
			return Space{TotalBytes: int64(stat.Blocks) * block, FreeBytes: int64(stat.Bavail) * block}, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return Space{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
		}
	}
}

// osFile is an os.File, whose ReadAt and WriteAt are pread and pwrite.
type osFile struct{ *os.File }

func openFile(name string, flag int) (File, error) {
	file, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) SyncData() error {
	if err := syncData(f.File); err != nil {
		return fmt.Errorf("fdatasync %s: %w", f.Name(), err)
	}
	return nil
}

func (f osFile) OSFile() *os.File { return f.File }

// control runs a system call on the file's descriptor and keeps the descriptor from being closed meanwhile. A call that
// a signal interrupted is made again.
func control(file *os.File, call func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if callErr = call(int(fd)); !errors.Is(callErr, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, callErr)
}
