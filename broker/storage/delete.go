package storage

import (
	"fmt"
	"path"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/kafka"
)

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
		return l.dir.judge(m.deleteLog(l))
	}
	return m.deleteOffline(offline)
}

// DeleteAll is Delete for many logs, side by side. The errors, or nil, are in the order of the partitions.
func (m *Manager) DeleteAll(partitions []kafka.TopicPartition) []error {
	errs := make([]error, len(partitions))
	var group errgroup.Group
	group.SetLimit(createWorkers)
	for i, tp := range partitions {
		group.Go(func() error {
			errs[i] = m.Delete(tp)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errs
}

// deleteLog forgets a log before its folder gets its new name: a crash in between leaves a folder that no topic knows.
func (m *Manager) deleteLog(l *Log) error {
	defer l.holdSegments()()
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
