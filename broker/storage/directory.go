package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// Directory is one of log.dirs.
type Directory struct {
	Path string
	// ID is what meta.properties must say; zero takes what it says, or a new one for a new directory.
	ID kafka.UUID
}

// directory is a log directory in use.
type directory struct {
	path      string
	id        kafka.UUID
	env       *environment
	lock      io.Closer
	committer *committer
	failure   atomic.Pointer[offlineError]
	wasClean  bool // the last stop was a clean one; set by Load
	space     spaceWatch
}

// err is why the directory does not serve.
func (d *directory) err() error {
	if failure := d.failure.Load(); failure != nil {
		return failure.err
	}
	return nil
}

// fail takes the directory with all its logs offline for the life of the process.
func (d *directory) fail(err error) error {
	err = storageError(fmt.Sprintf("log directory %s has failed", d.path), err)
	if d.failure.CompareAndSwap(nil, &offlineError{err: err}) {
		d.env.logger.Error("a log directory has failed; its partitions are offline", "directory", d.path, "error", err)
		d.env.metrics.offlineDirectories.Inc()
		if d.env.events.DirectoryFailed != nil {
			d.env.events.DirectoryFailed(d.path, err)
		}
	}
	return err
}

// judge takes the directory offline if an error says that its disk has failed. A full disk, or a lack of descriptors,
// is no such error: it passes.
func (d *directory) judge(err error) error {
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) {
		return d.fail(err)
	}
	return err
}

// The free space of a directory is asked for again after that many bytes or that much time.
const (
	spaceCheckBytes = 16 << 20
	spaceCheckMs    = 1000
)

// spaceWatch remembers how much room the disk of a directory has.
type spaceWatch struct {
	path string

	mu        sync.Mutex // guards the fields below
	checkedAt int64      // ms
	free      int64      // what was free then, less what was appended since
	appended  int64      // since then
}

// take accounts for size bytes that are about to be appended somewhere, unless fewer than reserve would be left then.
// What is appended to another disk counts, too, until the next look: that is on the safe side.
func (w *spaceWatch) take(env *environment, size int64, now int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checkedAt == 0 || w.appended >= spaceCheckBytes || now-w.checkedAt >= spaceCheckMs || now < w.checkedAt {
		space, err := env.fs.Space(w.path)
		if err != nil {
			return storageError(fmt.Sprintf("ask for the free space of %s", w.path), err)
		}
		w.checkedAt, w.free, w.appended = now, space.FreeBytes, 0
	}
	if w.free-size < env.reserve {
		env.metrics.reserveRefusals.Inc()
		return fmt.Errorf("%s has %d bytes free, and %d of them are reserved (firn.log.dirs.reserve.bytes): %w",
			w.path, w.free, env.reserve, ErrNoSpace)
	}
	w.free -= size
	w.appended += size
	return nil
}

// checkReserve refuses an append that would leave less than firn.log.dirs.reserve.bytes free, here or where the
// metadata lies. A full disk is refused before it happens: once a write has failed for lack of space, the databases
// that run beside us have failed, too.
func (d *directory) checkReserve(size int, now int64) error {
	env := d.env
	if env.reserve <= 0 {
		return nil
	}
	if env.metadataFull() {
		env.metrics.reserveRefusals.Inc()
		return fmt.Errorf("%s has been full and has no room yet: %w", env.metadata.path, ErrNoSpace)
	}
	if env.metadata.path != "" {
		if err := env.metadata.take(env, int64(size), now); err != nil {
			return err
		}
	}
	return d.space.take(env, int64(size), now)
}

// RoomForLogs says why no new log should be made: the reserve, which is for such things, has been used up by three
// quarters, by others than us. A log that cannot be written to when it is made would be offline until the next start.
func (m *Manager) RoomForLogs() error {
	env := m.env
	if env.reserve <= 0 {
		return nil
	}
	paths := []string{env.metadata.path}
	for _, dir := range m.dirs {
		if dir.err() == nil {
			paths = append(paths, dir.path)
		}
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		space, err := env.fs.Space(path)
		if err != nil {
			return storageError(fmt.Sprintf("ask for the free space of %s", path), err)
		}
		if space.FreeBytes < env.reserve/4 {
			return fmt.Errorf("%s has %d bytes free, too few for new partitions (firn.log.dirs.reserve.bytes is %d): %w",
				path, space.FreeBytes, env.reserve, kafka.KafkaStorageError)
		}
	}
	return nil
}

// openDirectory locks a log directory and checks that it is ours, making it if it is new. A directory that cannot be
// used because its disk fails is returned as failed; one that is not ours, or in use, is an error.
func openDirectory(env *environment, wanted Directory, owner Owner) (*directory, error) {
	dir := &directory{
		path: wanted.Path, id: wanted.ID, env: env, lock: noLock{}, committer: newCommitter(),
		space: spaceWatch{path: wanted.Path},
	}
	if err := vfs.MkdirAllDurable(env.fs, wanted.Path); err != nil {
		_ = dir.fail(err) // remembered there
		return dir, nil
	}
	var failure *fs.PathError
	lock, err := env.fs.Lock(path.Join(wanted.Path, lockFileName))
	switch {
	case err == nil:
	case errors.As(err, &failure) && !errors.Is(err, vfs.ErrLocked):
		_ = dir.fail(err) // remembered there
		return dir, nil
	default:
		return nil, fmt.Errorf("lock log directory %s, which another process may be using: %w", wanted.Path, err)
	}
	dir.lock = lock
	dir.id, err = ClaimDirectory(env.fs, wanted, owner)
	if errors.As(err, &failure) {
		_ = dir.fail(err) // remembered there
		return dir, nil
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return dir, nil
}

// noLock is the lock of a directory that could not be opened.
type noLock struct{}

// Close does nothing.
func (noLock) Close() error { return nil }

// cleanMarker is Kafka's .kafka_cleanshutdown: its presence says that everything in the directory had been synced.
const cleanMarker = `{"version":0,"brokerEpoch":-1}`

// takeCleanMarker tells whether the directory was left cleanly, and removes the sign of it before anything is changed.
func (d *directory) takeCleanMarker() error {
	err := d.env.fs.Remove(path.Join(d.path, cleanMarkerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = d.env.fs.SyncDir(d.path)
	}
	if err != nil {
		return fmt.Errorf("remove %s of %s: %w", cleanMarkerName, d.path, err)
	}
	d.wasClean = true
	return nil
}

func (d *directory) leaveCleanMarker() error {
	return vfs.WriteFileAtomic(d.env.fs, path.Join(d.path, cleanMarkerName), []byte(cleanMarker))
}
