package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// TempSuffix ends the name of the file that WriteFileAtomic writes to before it takes the place of the real one. A
// crash may leave one behind; the next WriteFileAtomic of that name overwrites it.
const TempSuffix = ".tmp"

// ReadFile returns the whole content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := readAll(file)
	return data, errors.Join(err, file.Close())
}

func readAll(file File) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := file.ReadAt(data, 0)
	if err == io.EOF { // cut by somebody else since Size
		err = nil
	}
	return data[:n], err
}

// WriteFileAtomic gives a file a new content such that a crash at any point leaves the whole old or the whole new one,
// and the new one once it has returned without error. Two calls for the same name must not overlap.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	temp := name + TempSuffix
	if err := writeSynced(fsys, temp, data); err != nil {
		if removeErr := fsys.Remove(temp); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, fsys.Remove(temp)))
	}
	if err := fsys.SyncDir(path.Dir(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeSynced(fsys FS, name string, data []byte) error {
	file, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(data, 0); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// MkdirAllDurable makes a folder and its missing parents, and makes the entry of each new one durable. MkdirAll alone
// leaves them to be lost in a power cut together with everything that was synced inside.
func MkdirAllDurable(fsys FS, dir string) error {
	missing := []string{}
	for at := path.Clean(dir); ; at = path.Dir(at) {
		_, err := fsys.Stat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == path.Dir(at) {
			return err
		}
		missing = append(missing, at)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for _, made := range missing {
		if err := fsys.SyncDir(path.Dir(made)); err != nil {
			return err
		}
	}
	return nil
}
