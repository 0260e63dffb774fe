package storage

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

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
		swapping:       make(chan struct{}, 1),
		config:         config.withDefaults(),
		rolled:         nothingRolled,
		epochsStale:    epochsCurrent,
	}
	l.policy.Store(int32(m.policy))
	l.stableBound.Store(noUnstable)
	return l
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
