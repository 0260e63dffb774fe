package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// NewLog is a log that shall be there.
type NewLog struct {
	TopicPartition kafka.TopicPartition
	TopicID        kafka.TopicID
	Config         Config
	// Directory is the id of the log directory; zero takes the one with the fewest logs.
	Directory kafka.UUID
	// Restored says what comes before the log, which the bucket has and this broker never had; nil: nothing.
	Restored *RestoredLog
}

// RestoredLog is what a log goes on from whose records so far are all in the bucket.
type RestoredLog struct {
	Remote RemoteRange
	Epochs []EpochEntry // of what is remote
	// Producers are those at the end of it, in the format of Kafka's .snapshot files; nil: none are known.
	Producers []byte
}

// CreatedLog is what became of it: a log, or why there is none.
type CreatedLog struct {
	Log *Log
	Err error
}

// createWorkers is how many logs are made at once. Each waits for the disk, and those who wait together wait once.
const createWorkers = 16

// CreateAll is Create for many logs, side by side. The results are in the order of the wishes.
func (m *Manager) CreateAll(wanted []NewLog) []CreatedLog {
	created := make([]CreatedLog, len(wanted))
	var group errgroup.Group
	group.SetLimit(createWorkers)
	for i, w := range wanted {
		group.Go(func() error {
			created[i].Log, created[i].Err = m.createLog(w)
			return nil
		})
	}
	_ = group.Wait() // the errors are in created
	m.syncParents(created)
	return created
}

// syncParents makes the folders of new logs durable, which lie side by side: once for all of them, rather than with the
// first flush of each.
func (m *Manager) syncParents(created []CreatedLog) {
	fresh := map[*directory][]*CreatedLog{}
	for i := range created {
		if l := created[i].Log; l != nil && l.takeParentUnsynced() {
			fresh[l.dir] = append(fresh[l.dir], &created[i])
		}
	}
	for dir, logs := range fresh {
		if err := m.env.fs.SyncDir(dir.path); err != nil {
			err = dir.fail(fmt.Errorf("sync new folders: %w", err))
			for _, one := range logs {
				one.Err = err
			}
		}
	}
}

// takeParentUnsynced tells whether the caller has to make the folder's own entry durable.
func (l *Log) takeParentUnsynced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	unsynced := l.parentUnsynced
	l.parentUnsynced = false
	return unsynced
}

// Create makes the log of a new partition in the directory of the given id, or in the one with the fewest logs if that
// is zero; or it returns the log that exists. A directory that is not here, or not the one in which the log lies, is an
// error: a partition is never begun anew elsewhere. If the state database remembers flushed records of it, the folder
// has been lost, and a new one would hide that. The first flush makes the folder durable together with the first
// records.
func (m *Manager) Create(tp kafka.TopicPartition, id kafka.TopicID, config Config, directory kafka.UUID) (*Log, error) {
	return m.createLog(NewLog{TopicPartition: tp, TopicID: id, Config: config, Directory: directory})
}

func (m *Manager) createLog(wanted NewLog) (*Log, error) {
	tp, id := wanted.TopicPartition, wanted.TopicID
	m.mu.Lock()
	for m.busy[tp] != nil { // somebody else is making the log, or an earlier one is giving up the folder's name
		busy := m.busy[tp]
		m.mu.Unlock()
		<-busy
		m.mu.Lock()
	}
	l, err := m.existing(tp, id, wanted.Directory)
	if l != nil || err != nil {
		m.mu.Unlock()
		return l, err
	}
	dir, err := m.chooseDirectory(wanted.Directory)
	if err != nil {
		m.mu.Unlock()
		return nil, err
	}
	done := m.reserve(tp)
	m.mu.Unlock()
	defer done()

	l = m.newLog(dir, tp, id, wanted.Config)
	if err = l.create(wanted.Restored); err != nil {
		err = dir.judge(err)
	}
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

// create makes folder, metadata and first segment of a log that never was here.
func (l *Log) create(restored *RestoredLog) error {
	saved, err := l.loadCheckpoint()
	if err != nil {
		return err
	}
	remote, _ := l.remote()
	if restored != nil {
		remote = restored.Remote
	}
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
	l.producers = newProducerState(start, &l.env.expireMs)
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
	if restored != nil {
		if err := l.inherit(restored, start); err != nil {
			return err
		}
	}
	l.rest()
	return nil
}

// inherit takes over the epochs and producers of what comes before a log that begins at an offset. Both are written at
// once: there may be no append for long, and nothing local tells of them.
func (l *Log) inherit(restored *RestoredLog, start int64) error {
	l.epochs = leaderEpochs{entries: slices.Clone(restored.Epochs)}
	l.epochs.cutEnd(start)
	l.epochs.cutStart(l.logStart.Load())
	epochFile := appendEpochFile(nil, l.epochs.entries)
	if err := vfs.WriteFileAtomic(l.env.fs, l.folder.file(epochFileName), epochFile); err != nil {
		return err
	}
	if restored.Producers == nil {
		return nil
	}
	entries, err := ParseProducerSnapshot(restored.Producers)
	if err != nil {
		return fmt.Errorf("producers of %s at %d: %w", l.topicPartition, start, err)
	}
	l.producers.restore(entries, start, time.Now().UnixMilli())
	saved := producerCheckpoint{Offset: start, Epoch: l.epochs.at(start - 1), Snapshot: restored.Producers}
	return l.env.store.Set(l.keys.at(producerKind, start), saved.append(nil))
}
