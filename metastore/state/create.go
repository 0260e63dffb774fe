package state

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newSuffix ends the name of a folder in which a database is being made.
const newSuffix = ".new"

// Create makes an empty database, unless there is one. Open does so, too: who needs several makes them at once with
// Create, since most of the time of it is waiting for the disk.
func Create(options Options) error {
	if err := createMissing(options); err != nil {
		return fmt.Errorf("make the database in %s: %w", options.Dir, err)
	}
	return nil
}

func createMissing(options Options) error {
	found, err := exists(options)
	if err != nil || found {
		return err
	}
	return create(options)
}

// create makes an empty database. Pebble brings a new one up to date version by version, with a file and a few syncs
// for each, which is most of the time that a first start takes. So it is made in memory, what is left of it is written
// to a folder aside, and the folder gets its name. What a crash leaves of it is thrown away by the next attempt.
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
	draft := options
	draft.FS, draft.Dir = vfs.NewMem(), "draft"
	if err := openAndClose(draft); err != nil {
		return err
	}
	if _, err := vfs.Clone(draft.FS, fsys, draft.Dir, aside, vfs.CloneSync); err != nil {
		return fmt.Errorf("write it to %s: %w", aside, err)
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
