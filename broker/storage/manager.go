package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/internal/vfs"
)

// ManagerOptions are what a manager of logs needs.
type ManagerOptions struct {
	FS    vfs.FS
	Dirs  []Directory
	Owner Owner // whose the directories must be
	Store Store
	// SyncStore makes everything that has been set in the Store durable. It is called with each second's checkpoints, and
	// before files are removed that the Store must then not believe in. Nil says that Set is durable when it returns.
	SyncStore    func() error
	Policy       FlushPolicy // of new logs; Log.SetPolicy changes it for one
	ReserveBytes int64       // firn.log.dirs.reserve.bytes; 0 = none
	// MetadataDir is where the databases lie: the reserve holds there, too. MetadataFull tells, if it is not nil, that
	// they have found their disk full.
	MetadataDir        string
	MetadataFull       func() bool
	ProducerExpiration time.Duration // producer.id.expiration.ms; 0 = Kafka's default of a day
	MaxOpenFiles       int           // descriptors of sealed segments; 0 = 1024
	MaxOpenIndexes     int           // sealed segments with mapped indexes, two maps each; 0 = 1024
	// Remote tells which range of a tiered partition the bucket has: what is missing on disk there is read from the
	// bucket. Nil says that nothing is tiered.
	Remote     func(id kafka.TopicIDPartition) (remote RemoteRange, tiered bool)
	Events     *Events
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
}

// RemoteRange is the part [StartOffset, EndOffset) of a log that the bucket has.
type RemoteRange struct {
	StartOffset int64
	EndOffset   int64
}

const (
	defaultProducerExpiration = 24 * time.Hour
	defaultOpenFiles          = 1024
	defaultOpenIndexes        = 1024 // far below the kernel's 65 530 maps a process
)

// Manager owns the log directories of a broker and all logs in them.
type Manager struct {
	env     *environment
	policy  FlushPolicy
	dirs    []*directory
	changed chan struct{} // a token when removal has grown

	mu      sync.Mutex // guards the fields below; comes before Log.mu
	logs    map[kafka.TopicPartition]*Log
	offline map[kafka.TopicPartition]OfflineLog
	// busy has a channel for each partition whose folder is being made or moved aside; it is closed when that is done.
	busy    map[kafka.TopicPartition]chan struct{}
	removal []removal
	loaded  bool
	closed  bool
}

// OfflineLog is a log that could not be opened.
type OfflineLog struct {
	TopicPartition kafka.TopicPartition
	TopicID        kafka.TopicID
	Dir            string
	Err            error
}

// removal is a folder that will be deleted.
type removal struct {
	folder string
	at     time.Time
}

// NewManager locks the log directories and checks whose they are. Logs are opened by Load.
func NewManager(opts ManagerOptions) (*Manager, error) {
	if len(opts.Dirs) == 0 {
		return nil, errors.New("no log directory is configured")
	}
	env, err := newEnvironment(opts)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		env:     env,
		policy:  opts.Policy,
		logs:    map[kafka.TopicPartition]*Log{},
		offline: map[kafka.TopicPartition]OfflineLog{},
		busy:    map[kafka.TopicPartition]chan struct{}{},
		changed: make(chan struct{}, 1),
	}
	for _, wanted := range opts.Dirs {
		dir, err := openDirectory(env, wanted, opts.Owner)
		if err != nil {
			return nil, errors.Join(err, m.unlock())
		}
		m.dirs = append(m.dirs, dir)
	}
	if err := m.someDirectory(); err != nil {
		return nil, errors.Join(err, m.unlock())
	}
	if opts.Registerer != nil {
		if err := m.registerSpace(opts.Registerer, opts.MetadataDir); err != nil {
			return nil, errors.Join(err, m.unlock())
		}
	}
	return m, nil
}

// someDirectory is an error if no directory serves.
func (m *Manager) someDirectory() error {
	var errs []error
	for _, dir := range m.dirs {
		if dir.err() == nil {
			return nil
		}
		errs = append(errs, dir.err())
	}
	return fmt.Errorf("no log directory can be used: %w", errors.Join(errs...))
}

func newEnvironment(opts ManagerOptions) (*environment, error) {
	metrics, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, err
	}
	env := &environment{
		fs:        opts.FS,
		store:     opts.Store,
		syncStore: opts.SyncStore,
		logger:    opts.Logger,
		metrics:   metrics,
		reserve:   opts.ReserveBytes,
		metadata:  spaceWatch{path: opts.MetadataDir},
		files:     newOpenCache[vfs.File](cmp.Or(opts.MaxOpenFiles, defaultOpenFiles)),
		maps:      newOpenCache[*indexMaps](cmp.Or(opts.MaxOpenIndexes, defaultOpenIndexes)),
		remote:    opts.Remote,
	}
	env.expireMs.Store(cmp.Or(opts.ProducerExpiration, defaultProducerExpiration).Milliseconds())
	if env.syncStore == nil {
		env.syncStore = func() error { return nil }
	}
	if env.metadataFull = opts.MetadataFull; env.metadataFull == nil {
		env.metadataFull = func() bool { return false }
	}
	if env.remote == nil {
		env.remote = func(kafka.TopicIDPartition) (RemoteRange, bool) { return RemoteRange{}, false }
	}
	if env.logger == nil {
		env.logger = slog.New(slog.DiscardHandler)
	}
	if opts.Events != nil {
		env.events = *opts.Events
	}
	return env, nil
}

// DirectoryState is a log directory, and why it does not serve.
type DirectoryState struct {
	Directory
	Err error
}

// Directories are the log directories with their ids. The id of one that never served is zero.
func (m *Manager) Directories() []DirectoryState {
	dirs := make([]DirectoryState, 0, len(m.dirs))
	for _, dir := range m.dirs {
		dirs = append(dirs, DirectoryState{Directory: Directory{Path: dir.path, ID: dir.id}, Err: dir.err()})
	}
	return dirs
}

// Log returns the log of a partition. KAFKA_STORAGE_ERROR means that it exists and is offline.
func (m *Manager) Log(tp kafka.TopicPartition) (*Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.logs[tp]; l != nil {
		return l, l.Err()
	}
	if offline, found := m.offline[tp]; found {
		return nil, offline.Err
	}
	return nil, fmt.Errorf("this broker has no log of %s: %w", tp, kafka.UnknownTopicOrPartition)
}

// Logs returns all logs that are open, by topic and partition.
func (m *Manager) Logs() []*Log {
	m.mu.Lock()
	logs := make([]*Log, 0, len(m.logs))
	for _, l := range m.logs {
		logs = append(logs, l)
	}
	m.mu.Unlock()
	slices.SortFunc(logs, func(a, b *Log) int {
		return cmp.Or(cmp.Compare(a.topicPartition.Topic, b.topicPartition.Topic),
			cmp.Compare(a.topicPartition.Partition, b.topicPartition.Partition))
	})
	return logs
}

// Run flushes, checkpoints and removes deleted folders until ctx is done.
func (m *Manager) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, dir := range m.dirs {
		group.Go(func() error { return dir.committer.run(ctx) })
	}
	group.Go(func() error { return m.checkpointRegularly(ctx) })
	group.Go(func() error { return m.removeFolders(ctx) })
	return group.Wait()
}

// SetProducerExpiration changes how long a producer is remembered after its last batch (producer.id.expiration.ms).
func (m *Manager) SetProducerExpiration(expiration time.Duration) {
	m.env.expireMs.Store(expiration.Milliseconds())
}

// checkpointInterval bounds how far what the state database knows lags behind: start-up reads what was written since.
const checkpointInterval = time.Second

// producerCheckInterval is producer.id.expiration.check.interval.ms, Kafka's default.
const producerCheckInterval = 10 * time.Minute

func (m *Manager) checkpointRegularly(ctx context.Context) error {
	checkpoints := time.NewTicker(checkpointInterval)
	defer checkpoints.Stop()
	expiry := time.NewTicker(producerCheckInterval)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-checkpoints.C:
			if err := m.checkpoint(); err != nil {
				return err
			}
		case now := <-expiry.C:
			for _, l := range m.Logs() {
				l.expireProducers(now.UnixMilli())
			}
		}
	}
}

// checkpoint saves where the logs stand. It is made durable too, as a database may keep for long in memory what it need
// not sync: a start after a crash could otherwise take damage in what was flushed long ago for a torn tail.
func (m *Manager) checkpoint() error {
	m.mu.Lock()
	logs := make([]*Log, 0, len(m.logs))
	for _, l := range m.logs {
		logs = append(logs, l)
	}
	m.mu.Unlock()
	for _, l := range logs {
		if err := l.saveCheckpoint(); err != nil {
			return err
		}
	}
	if !m.env.unsynced.Swap(false) {
		return nil
	}
	if err := m.env.syncStore(); err != nil {
		return fmt.Errorf("make the checkpoints durable: %w", err)
	}
	return nil
}

// removeFolders deletes the folders of deleted logs when their time has come.
func (m *Manager) removeFolders(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next, found := m.removeDue(time.Now()); found {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.changed:
		case <-timer.C:
		}
	}
}

func (m *Manager) removeDue(now time.Time) (next time.Time, found bool) {
	var due []removal
	m.mu.Lock()
	m.removal = slices.DeleteFunc(m.removal, func(r removal) bool {
		if !r.at.After(now) {
			due = append(due, r)
			return true
		}
		if !found || r.at.Before(next) {
			next, found = r.at, true
		}
		return false
	})
	m.mu.Unlock()
	for _, r := range due {
		if err := m.env.fs.RemoveAll(r.folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.env.logger.Error("a deleted log's folder could not be removed; the next start tries again",
				"folder", r.folder, "error", err)
		}
	}
	return next, found
}

// Close flushes and checkpoints all logs, leaves the sign of a clean stop, and releases the directories. Appends have
// ended, and so has Run.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	loaded, damaged := m.loaded, map[string]bool{}
	for _, offline := range m.offline {
		damaged[offline.Dir] = true
	}
	m.mu.Unlock()

	errs := m.closeLogs(damaged)
	if err := m.env.syncStore(); err != nil {
		return errors.Join(append(errs, err, m.unlock())...)
	}
	for _, dir := range m.dirs {
		// A directory with a damaged log is not clean: the next start must look at it again.
		if loaded && !damaged[dir.path] && dir.err() == nil {
			errs = append(errs, dir.leaveCleanMarker())
		}
	}
	return errors.Join(append(errs, m.unlock())...)
}

// closeLogs closes all logs, and notes the directories of those that fail.
func (m *Manager) closeLogs(damaged map[string]bool) (errs []error) {
	var (
		mu    sync.Mutex // guards damaged and errs
		group errgroup.Group
	)
	group.SetLimit(flushWorkers)
	for _, l := range m.Logs() {
		group.Go(func() error {
			if err := l.close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				damaged[l.dir.path] = true
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errs
}

func (m *Manager) unlock() error {
	var errs []error
	for _, dir := range m.dirs {
		errs = append(errs, dir.lock.Close())
	}
	return errors.Join(errs...)
}
