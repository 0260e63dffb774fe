package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strconv"
	"syscall"

	"github.com/firnlog/firn/internal/vfs"
)

var (
	errBody   = errors.New("reading the body") // the caller's side failed, not the store
	errFolder = errors.New("the key is the folder of another one, or below an object")
)

// conditionalWriter is claimed by every PutIfAbsent, and is the name of the lock that keeps other processes out.
const conditionalWriter = ".put-if-absent"

// Put implements Bucket.
func (d *Directory) Put(ctx context.Context, key string, body io.ReaderAt, size int64, options PutOptions) error {
	if err := checkPut(OpPut, d.name(), key, size); err != nil {
		return err
	}
	temp, err := d.writeAside(ctx, body, size, options)
	if err != nil {
		return d.failure(OpPut, key, err)
	}
	release, err := d.claim(ctx, key)
	if err != nil {
		return d.failure(OpPut, key, errors.Join(err, d.fs.Remove(temp)))
	}
	defer release()
	if err := d.place(temp, key); err != nil {
		return d.failure(OpPut, key, err)
	}
	return nil
}

// PutIfAbsent implements Bucket.
func (d *Directory) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if err := checkPut(OpPutIfAbsent, d.name(), key, int64(len(data))); err != nil {
		return false, err
	}
	created, err := d.putIfAbsent(ctx, key, data)
	if err != nil {
		return false, d.failure(OpPutIfAbsent, key, err)
	}
	return created, nil
}

// putIfAbsent looks and writes while it owns the key within this process and the lock among processes.
func (d *Directory) putIfAbsent(ctx context.Context, key string, data []byte) (created bool, err error) {
	releaseOthers, err := d.claim(ctx, conditionalWriter)
	if err != nil {
		return false, err
	}
	defer releaseOthers()
	lock, err := d.fs.Lock(path.Join(d.dir, scratchFolder, conditionalWriter[1:]+".lock"))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	release, err := d.claim(ctx, key)
	if err != nil {
		return false, err
	}
	defer release()
	if info, err := d.fs.Stat(d.path(key)); err == nil && !info.IsDir() {
		return false, nil
	}
	temp, err := d.writeAside(ctx, bytes.NewReader(data), int64(len(data)), PutOptions{})
	if err != nil {
		return false, err
	}
	return true, d.place(temp, key)
}

// writeAside writes the object to a file of its own, syncs it and returns its name.
func (d *Directory) writeAside(ctx context.Context, body io.ReaderAt, size int64, options PutOptions) (string, error) {
	d.mu.Lock()
	d.serial++
	temp := path.Join(d.scratch, strconv.FormatInt(d.serial, 10))
	d.mu.Unlock()
	file, err := d.fs.Create(temp)
	if err != nil {
		return "", err
	}
	err = copyChecked(ctx, file, body, size, options)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, d.fs.Remove(temp))
	}
	return temp, nil
}

func copyChecked(ctx context.Context, file vfs.File, body io.ReaderAt, size int64, options PutOptions) error {
	var writeErr error
	position, crc := int64(0), uint32(0)
	err := forEachBlock(ctx, body, 0, size, func(block []byte) error {
		crc = crc32.Update(crc, castagnoli, block)
		n, err := file.WriteAt(block, position)
		position += int64(n)
		if options.Sent != nil {
			options.Sent(int64(n))
		}
		writeErr = err
		return err
	})
	switch {
	case writeErr != nil || ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errBody, err)
	case options.HasCRC32C && crc != options.CRC32C:
		return fmt.Errorf("%w: %w", ErrChecksum, checksumMismatch(options.CRC32C, crc))
	}
	return nil
}

// place moves a finished file to its key, durably. Its folders cannot be removed meanwhile.
func (d *Directory) place(temp, key string) error {
	folders := parents(key)
	d.use(key, folders, 1)
	err := d.makeFolders(folders)
	if err == nil {
		err = d.fs.Rename(temp, d.path(key))
	}
	if errors.Is(err, fs.ErrNotExist) { // another process removed a folder that had become empty
		d.forget(folders)
		if err = d.makeFolders(folders); err == nil {
			err = d.fs.Rename(temp, d.path(key))
		}
	}
	renamed := err == nil
	if renamed {
		err = d.fs.SyncDir(path.Dir(d.path(key)))
	}
	d.use(key, folders, -1)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		err = errFolder
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("its folder was removed by another process, twice: %s", err.Error())
	}
	if !renamed {
		_, pruneErr := d.prune(parentOf(key))
		err = errors.Join(err, d.fs.Remove(temp), pruneErr)
	}
	return err
}

// makeFolders makes the folders of a key and syncs the entry of each that is not known to be durable, whoever made it.
func (d *Directory) makeFolders(folders []string) error {
	d.mu.Lock()
	known := 0
	for known < len(folders) {
		if _, durable := d.durable[folders[known]]; !durable {
			break
		}
		known++
	}
	d.mu.Unlock()
	if known == len(folders) {
		return nil
	}
	if err := d.fs.MkdirAll(d.path(folders[len(folders)-1])); err != nil {
		return err
	}
	for _, folder := range folders[known:] {
		if err := d.fs.SyncDir(path.Dir(d.path(folder))); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.durable) > maxDurableFolders {
		clear(d.durable)
	}
	for _, folder := range folders[known:] {
		d.durable[folder] = struct{}{}
	}
	return nil
}

func (d *Directory) forget(folders []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, folder := range folders {
		delete(d.durable, folder)
	}
}

// Delete implements Bucket. Folders that become empty are removed, except those a running Put counts on.
func (d *Directory) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := checkGet(OpDelete, d.name(), key, 0); err != nil {
			return err
		}
	}
	changed := map[string]struct{}{} // parents of removed objects
	for _, key := range keys {
		removed, err := d.remove(ctx, key)
		if err != nil {
			return d.failure(OpDelete, key, err)
		}
		if removed {
			changed[parentOf(key)] = struct{}{}
		}
	}
	toSync := map[string]struct{}{}
	for folder := range changed {
		remaining, err := d.prune(folder)
		if err != nil {
			return d.failure(OpDelete, folder, err)
		}
		toSync[remaining] = struct{}{}
	}
	for folder := range toSync {
		if err := d.syncNearest(folder); err != nil {
			return d.failure(OpDelete, folder, err)
		}
	}
	return nil
}

func (d *Directory) remove(ctx context.Context, key string) (removed bool, err error) {
	release, err := d.claim(ctx, key)
	if err != nil {
		return false, err
	}
	defer release()
	info, err := d.fs.Stat(d.path(key))
	if err == nil && !info.IsDir() {
		err = d.fs.Remove(d.path(key))
		removed = err == nil
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		err = nil
	}
	return removed, err
}

// prune removes a folder and its parents as long as they are empty and unused, and returns the first that stays.
func (d *Directory) prune(folder string) (remaining string, err error) {
	for folder != "" {
		removed, err := d.removeFolder(folder)
		if err != nil || !removed {
			return folder, err
		}
		folder = parentOf(folder)
	}
	return folder, nil
}

// removeFolder removes a folder if it is one, is empty and unused. One that is missing counts as removed. All of it is
// under the lock, so that no Put starts to count on the folder meanwhile; it is quick: entries, no data.
func (d *Directory) removeFolder(folder string) (removed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users[folder] > 0 {
		return false, nil
	}
	info, err := d.fs.Stat(d.path(folder))
	if err == nil {
		if !info.IsDir() {
			return false, nil // it has become an object
		}
		err = d.fs.Remove(d.path(folder))
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		delete(d.durable, folder)
		return true, nil
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	}
	return false, err
}

// syncNearest makes a removal durable: the folder's own entries or, if somebody has removed it since, its parent's.
func (d *Directory) syncNearest(folder string) error {
	for {
		err := d.fs.SyncDir(d.path(folder))
		if !errors.Is(err, fs.ErrNotExist) || folder == "" {
			return err
		}
		folder = parentOf(folder)
	}
}

// claim waits until nobody else in this process writes the key, and keeps others from it until release.
func (d *Directory) claim(ctx context.Context, key string) (release func(), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d.mu.Lock()
		other, taken := d.writers[key]
		if !taken {
			done := make(chan struct{})
			d.writers[key] = done
			d.mu.Unlock()
			return func() { d.releaseKey(key, done) }, nil
		}
		d.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
		}
	}
}

func (d *Directory) releaseKey(key string, done chan struct{}) {
	d.mu.Lock()
	delete(d.writers, key)
	d.mu.Unlock()
	close(done)
}

// use counts a write that needs its folders to stay, and its key not to be taken for an empty folder.
func (d *Directory) use(key string, folders []string, change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range append(folders, key) {
		if d.users[name] += change; d.users[name] == 0 {
			delete(d.users, name)
		}
	}
}

// parentOf is the folder of a key, "" for the bucket itself.
func parentOf(key string) string {
	if parent := path.Dir(key); parent != "." {
		return parent
	}
	return ""
}
