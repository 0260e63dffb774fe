package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// Known tells whether a partition exists in the cluster's metadata, and with which settings.
type Known func(tp kafka.TopicPartition, id kafka.TopicID) (Config, bool)

// LoadResult is what Load found.
type LoadResult struct {
	Clean   bool         // every directory had been left by a clean stop
	Strays  []string     // folders of unknown topics, under their new names
	Offline []OfflineLog // logs that exist and cannot serve
}

// loadWorkers is how many logs are opened at once. After an unclean stop each reads its active segment, so this is a
// matter of the disk rather than of processors.
const loadWorkers = 8

// Load opens all logs in the directories and recovers those that were not left cleanly. It must not be called before
// all committed metadata is known: the folder of a topic that is unknown is put aside. A log that cannot be opened
// is reported, and the others serve.
func (m *Manager) Load(ctx context.Context, known Known) (LoadResult, error) {
	result := LoadResult{Clean: true}
	saved, err := loadSavedLogs(m.env.store)
	if err != nil {
		return result, err
	}
	loader := &loader{Manager: m, known: known, saved: saved}
	for _, dir := range m.dirs {
		strays, err := loader.loadDirectory(ctx, dir)
		result.Strays = append(result.Strays, strays...)
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		if err != nil {
			_ = dir.fail(err) // remembered there; the other directories serve
		}
		result.Clean = result.Clean && dir.wasClean && dir.err() == nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, offline := range m.offline {
		result.Offline = append(result.Offline, offline)
	}
	m.loaded = true
	return result, m.someDirectory()
}

// loader is the manager while it opens its logs.
type loader struct {
	*Manager
	known Known
	saved map[[logKeySize]byte]*savedLog // read only
}

// loadDirectory opens the logs of one directory. Folders that were to be deleted are deleted.
func (m *loader) loadDirectory(ctx context.Context, dir *directory) (strays []string, err error) {
	if dir.err() != nil {
		return nil, nil // it never opened
	}
	if err := dir.takeCleanMarker(); err != nil {
		return nil, err
	}
	names, err := m.env.fs.List(dir.path)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards strays
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loadWorkers)
	for _, name := range names {
		folder := path.Join(dir.path, name)
		switch {
		case strings.HasSuffix(name, strayFolderSuffix):
			continue
		case strings.HasSuffix(name, deletedFolderSuffix):
			group.Go(func() error { return m.env.fs.RemoveAll(folder) })
			continue
		}
		tp, ok := parseFolderName(name)
		if !ok {
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			stray, err := m.loadLog(dir, folder, tp)
			if stray != "" {
				mu.Lock()
				defer mu.Unlock()
				strays = append(strays, stray)
			}
			return err
		})
	}
	return strays, group.Wait()
}

func (m *Manager) isFolder(name string) bool {
	info, err := m.env.fs.Stat(name)
	return err == nil && info.IsDir()
}

// loadLog opens one log. Only what keeps the whole directory from being used is an error.
func (m *loader) loadLog(dir *directory, folder string, tp kafka.TopicPartition) (string, error) {
	id, err := readPartitionMetadata(m.env.fs, folder)
	if err != nil {
		if !m.isFolder(folder) {
			return "", nil
		}
		if hasRecords(m.env.fs, folder) {
			// Whose records they are cannot be told, and that must not look like an unknown topic.
			m.putOffline(dir, tp, id, storageError(fmt.Sprintf("open log %s", folder), err))
			return "", nil
		}
		return m.putAside(dir, folder, tp, id) // a crash has interrupted Create
	}
	config, found := m.known(tp, id)
	if !found {
		return m.putAside(dir, folder, tp, id)
	}
	l := m.newLog(dir, tp, id, config)
	if err := l.open(dir.wasClean, m.saved[[logKeySize]byte(l.keys.prefix)]); err != nil {
		if dirErr := dir.err(); dirErr != nil {
			err = dirErr
		}
		m.env.logger.Error("a log cannot be opened", "partition", tp.String(), "error", err)
		m.env.metrics.offlineLogs.Inc()
		m.putOffline(dir, tp, id, storageError(fmt.Sprintf("open log %s", folder), err))
		return "", nil
	}
	m.mu.Lock()
	other := m.logs[tp]
	if other == nil {
		m.logs[tp] = l
	} else {
		delete(m.logs, tp)
	}
	m.mu.Unlock()
	if other != nil { // which of them is the right one a person must say
		m.putOffline(dir, tp, id, storageError(fmt.Sprintf("open log %s", folder),
			fmt.Errorf("the partition lies in %s, too", other.dir.path)))
		other.retire()
		l.retire()
	}
	return "", nil
}

// hasRecords tells whether any segment in a folder holds something.
func hasRecords(fsys vfs.FS, folder string) bool {
	names, err := fsys.List(folder)
	if err != nil {
		return true
	}
	for _, name := range names {
		if !strings.HasSuffix(name, logSuffix) {
			continue
		}
		if info, err := fsys.Stat(path.Join(folder, name)); err != nil || info.Size() > 0 {
			return true
		}
	}
	return false
}

func (m *Manager) putOffline(dir *directory, tp kafka.TopicPartition, id kafka.TopicID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offline[tp] = OfflineLog{TopicPartition: tp, TopicID: id, Dir: dir.path, Err: err}
}

// putAside renames the folder of a topic that nobody knows. It is never deleted: a person must judge it.
func (m *Manager) putAside(dir *directory, folder string, tp kafka.TopicPartition, id kafka.TopicID) (string, error) {
	stray := path.Join(dir.path, asideName(tp, randomUUID(), strayFolderSuffix))
	if err := m.env.fs.Rename(folder, stray); err != nil {
		return "", err
	}
	m.env.logger.Warn("a log of an unknown topic was put aside; remove it if nobody misses it", "folder", stray,
		"topic id", id.String())
	return stray, m.env.fs.SyncDir(dir.path)
}

func (m *Manager) newLog(dir *directory, tp kafka.TopicPartition, id kafka.TopicID, config Config) *Log {
	l := &Log{
		topicPartition: tp,
		id:             id,
		keys:           keysOf(id, tp.Partition),
		env:            m.env,
		dir:            dir,
		folder:         newFolder(dir.path, tp.String()),
		flushing:       make(chan struct{}, 1),
		config:         config.withDefaults(),
		rolled:         nothingRolled,
	}
	l.policy.Store(int32(m.policy))
	l.stableBound.Store(noUnstable)
	return l
}

// Create makes the log of a new partition in the directory of the given id, or in the one with the fewest logs if that
// is zero; or it returns the log that exists. A directory that is not here, or not the one in which the log lies, is an
// error: a partition is never begun anew elsewhere. If the state database remembers flushed records of it, the folder
// has been lost, and a new one would hide that. The first flush makes the folder durable together with the first
// records.
func (m *Manager) Create(tp kafka.TopicPartition, id kafka.TopicID, config Config, directory kafka.UUID) (*Log, error) {
	m.mu.Lock()
	for m.busy[tp] != nil { // somebody else is making the log, or an earlier one is giving up the folder's name
		busy := m.busy[tp]
		m.mu.Unlock()
		<-busy
		m.mu.Lock()
	}
	l, err := m.existing(tp, id, directory)
	if l != nil || err != nil {
		m.mu.Unlock()
		return l, err
	}
	dir, err := m.chooseDirectory(directory)
	if err != nil {
		m.mu.Unlock()
		return nil, err
	}
	done := m.reserve(tp)
	m.mu.Unlock()
	defer done()

	l = m.newLog(dir, tp, id, config)
	err = l.create()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		err = storageError(fmt.Sprintf("create log %s", l.folder.path()), err)
		var missing *MissingError
		if errors.As(err, &missing) {
			m.offline[tp] = OfflineLog{TopicPartition: tp, TopicID: id, Dir: dir.path, Err: err}
		}
		return nil, err
	}
	m.logs[tp] = l
	return l, nil
}

// existing needs mu. No log and no error means that there is none.
func (m *Manager) existing(tp kafka.TopicPartition, id kafka.TopicID, directory kafka.UUID) (*Log, error) {
	if offline, found := m.offline[tp]; found {
		return nil, offline.Err
	}
	l := m.logs[tp]
	if l == nil {
		return nil, nil
	}
	if l.id != id {
		return nil, fmt.Errorf("the log of %s is that of topic id %s, not %s: %w", tp, l.id, id, kafka.InconsistentTopicID)
	}
	if !directory.IsZero() && l.DirectoryID() != directory {
		return nil, fmt.Errorf("the log of %s lies in %s, and not in the directory with id %s where it should be: %w",
			tp, l.dir.path, directory, kafka.KafkaStorageError)
	}
	return l, l.Err()
}

// reserve keeps others from a partition's folder until the returned func is called; it needs mu, the func must not.
func (m *Manager) reserve(tp kafka.TopicPartition) (done func()) {
	busy := make(chan struct{})
	m.busy[tp] = busy
	return func() {
		m.mu.Lock()
		delete(m.busy, tp)
		m.mu.Unlock()
		close(busy)
	}
}

// chooseDirectory finds the directory for a new log; it needs mu.
func (m *Manager) chooseDirectory(wanted kafka.UUID) (*directory, error) {
	if wanted.IsZero() {
		return m.emptiestDirectory()
	}
	for _, dir := range m.dirs {
		if dir.id == wanted {
			return dir, dir.err()
		}
	}
	return nil, fmt.Errorf("its log directory, with id %s, is not among log.dirs: %w", wanted, kafka.KafkaStorageError)
}

func (m *Manager) emptiestDirectory() (*directory, error) {
	counts := map[*directory]int{}
	for _, l := range m.logs {
		counts[l.dir]++
	}
	var best *directory
	for _, dir := range m.dirs {
		if dir.err() == nil && (best == nil || counts[dir] < counts[best]) {
			best = dir
		}
	}
	if best == nil {
		return nil, fmt.Errorf("every log directory has failed: %w", kafka.KafkaStorageError)
	}
	return best, nil
}

// Delete takes a log out of service at once and moves its folder aside; Run removes it after file.delete.delay.ms.
func (m *Manager) Delete(tp kafka.TopicPartition) error {
	m.mu.Lock()
	l, isOpen := m.logs[tp]
	offline, isOffline := m.offline[tp]
	if !isOpen && !isOffline {
		m.mu.Unlock()
		return fmt.Errorf("this broker has no log of %s: %w", tp, kafka.UnknownTopicOrPartition)
	}
	delete(m.logs, tp)
	delete(m.offline, tp)
	done := m.reserve(tp)
	m.mu.Unlock()
	defer done()
	if isOpen {
		return m.deleteLog(l)
	}
	return m.deleteOffline(offline)
}

// deleteLog forgets a log before its folder gets its new name: a crash in between leaves a folder that no topic knows.
func (m *Manager) deleteLog(l *Log) error {
	l.flushing <- struct{}{} // a flush would find its files renamed
	delay := l.retire()
	defer func() { <-l.flushing }()
	if err := deleteKeys(m.env.store, l.keys); err != nil {
		return fmt.Errorf("delete log %s: %w", l.topicPartition, err)
	}
	return m.moveToDeleted(l.dir.path, l.folder, l.topicPartition, delay)
}

// deleteOffline deletes a log that was never opened, and whose folder may be missing.
func (m *Manager) deleteOffline(offline OfflineLog) error {
	if err := deleteKeys(m.env.store, keysOf(offline.TopicID, offline.TopicPartition.Partition)); err != nil {
		return fmt.Errorf("delete log %s: %w", offline.TopicPartition, err)
	}
	folder := newFolder(offline.Dir, offline.TopicPartition.String())
	if !m.isFolder(folder.path()) {
		return nil
	}
	return m.moveToDeleted(offline.Dir, folder, offline.TopicPartition, 0)
}

func (m *Manager) moveToDeleted(dir string, from *folder, tp kafka.TopicPartition, delay time.Duration) error {
	name := asideName(tp, randomUUID(), deletedFolderSuffix)
	if err := m.env.fs.Rename(from.path(), path.Join(dir, name)); err != nil {
		return storageError(fmt.Sprintf("delete log %s", from.path()), err)
	}
	from.name.Store(&name)
	if err := m.env.fs.SyncDir(dir); err != nil {
		return storageError(fmt.Sprintf("delete log %s", from.path()), err)
	}
	m.mu.Lock()
	m.removal = append(m.removal, removal{folder: from.path(), at: time.Now().Add(delay)})
	m.mu.Unlock()
	signal(m.changed)
	return nil
}

// deleteKeys forgets a log.
func deleteKeys(store Store, keys logKeys) error {
	var found [][]byte
	err := store.Scan(keys.prefix, func(key, _ []byte) error {
		found = append(found, append([]byte(nil), key...))
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range found {
		if err := store.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// create makes folder, metadata and first segment of a log that never was.
func (l *Log) create() error {
	saved, err := l.loadCheckpoint()
	if err != nil {
		return err
	}
	remote, _ := l.remote()
	logStart := max(saved.LogStartOffset, remote.StartOffset)
	start := max(logStart, remote.EndOffset)
	if saved.FlushedOffset > start {
		return &MissingError{Folder: l.folder.path(), Start: start, EndOffset: saved.FlushedOffset}
	}
	if err := l.env.fs.MkdirAll(l.folder.path()); err != nil {
		return err
	}
	if err := writePartitionMetadata(l.env.fs, l.folder.path(), l.id); err != nil {
		return err
	}
	l.producers = newProducerState(start, l.env.expireMs)
	l.endOffset.Store(start)
	l.publish(checkpoint{
		LogStartOffset: logStart, LocalStart: start, HighWatermark: start, FlushedOffset: start,
	})
	first, err := l.createSegment(start)
	if err != nil {
		return err
	}
	l.segments = []*segment{first}
	l.folderUnsynced, l.parentUnsynced = true, true
	l.rest()
	return nil
}

// remote is the range of the log that the bucket has.
func (l *Log) remote() (remote RemoteRange, tiered bool) {
	return l.env.remote(kafka.TopicIDPartition{ID: l.id, Partition: l.topicPartition.Partition})
}

// remoteEnd is the offset below which the bucket has everything from the log start on.
func (l *Log) remoteEnd() int64 {
	remote, _ := l.remote()
	return remote.EndOffset
}
