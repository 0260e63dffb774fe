package state

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newSuffix ends the name of a folder in which a database is being made.
const newSuffix = ".new"

// create makes an empty database. Pebble brings a new one up to date version by version, with a few syncs for each,
// which is most of the time that a first start takes. So it is made in a folder aside without any, then everything is
// synced once, and the folder gets its name. What a crash leaves of it is thrown away by the next attempt.
//
// That the database is opened and closed here has a second reason: its first write-ahead log is in an old format, which
// does not tell damage from a torn tail (see wal.go), and stays empty this way.
func create(options Options) error {
	fsys, dir := options.FS, options.Dir
	if _, err := fsys.Stat(dir); err == nil {
		return openAndClose(options) // somebody has made the folder
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	aside := dir + newSuffix
	if err := fsys.RemoveAll(aside); err != nil {
		return err
	}
	parent := fsys.PathDir(dir)
	if err := mkdirAllDurable(fsys, parent); err != nil {
		return err
	}
	unsynced := options
	unsynced.FS, unsynced.Dir = unsyncedFS{fsys}, aside
	if err := openAndClose(unsynced); err != nil {
		return err
	}
	if err := syncFolder(fsys, aside); err != nil {
		return err
	}
	if err := fsys.Rename(aside, dir); err != nil {
		return err
	}
	return syncDir(fsys, parent)
}

func openAndClose(options Options) error {
	db, err := openPebble(options, &fatalError{dir: options.Dir, notify: options.OnFatal})
	if err != nil {
		return err
	}
	return db.Close()
}

// mkdirAllDurable makes a folder and its missing parents, and makes the entries of the new ones durable.
func mkdirAllDurable(fsys vfs.FS, dir string) error {
	var changed []string
	for at := dir; ; at = fsys.PathDir(at) {
		if _, err := fsys.Stat(at); err == nil || at == fsys.PathDir(at) {
			break
		}
		changed = append(changed, fsys.PathDir(at))
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, folder := range changed {
		if err := syncDir(fsys, folder); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes the files of a folder durable.
func syncFolder(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		file, err := fsys.Open(fsys.PathJoin(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return fmt.Errorf("sync %s in %s: %w", name, dir, err)
		}
	}
	return syncDir(fsys, dir)
}

func syncDir(fsys vfs.FS, dir string) error {
	if dir == "" {
		dir = "."
	}
	folder, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// unsyncedFS is a file system whose syncs do nothing.
type unsyncedFS struct{ vfs.FS }

func (u unsyncedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(u.FS.Create(name, category))
}

func (u unsyncedFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return unsynced(u.FS.OpenReadWrite(name, category, opts...))
}

func (u unsyncedFS) OpenDir(name string) (vfs.File, error) { return unsynced(u.FS.OpenDir(name)) }

func (u unsyncedFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(u.FS.ReuseForWrite(oldName, newName, category))
}

func unsynced(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{file}, nil
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return true, nil }
