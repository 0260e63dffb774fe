package compaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/background"
	"github.com/firnlog/firn/internal/budget"
	"github.com/firnlog/firn/internal/kafka"
)

// Config is what the pool is told by the broker's settings.
type Config struct {
	Enable            bool          // log.cleaner.enable
	Threads           int           // log.cleaner.threads
	DedupeBufferBytes int64         // log.cleaner.dedupe.buffer.size, of all workers together
	LoadFactor        float64       // log.cleaner.io.buffer.load.factor
	MaxBytesPerSecond float64       // log.cleaner.io.max.bytes.per.second, of all workers together
	Backoff           time.Duration // log.cleaner.backoff.ms: between two looks when there is nothing to clean
}

// Options are what a Cleaner is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Config     Config
	// Partitions lists the logs that are to be compacted.
	Partitions func() []kafka.TopicPartition
	// Find finds one of them; nil says that it is gone, or not to be compacted.
	Find func(tp kafka.TopicPartition) Log
	// Roll seals the active segment of a log, so that a forced pass reaches what was written last.
	Roll func(tp kafka.TopicPartition) error
	// Directory names the log directory of a log, for metrics.
	Directory func(tp kafka.TopicPartition) string
	// MaxPartitionSeries is how many logs may have series of their own; with more of them there are none.
	MaxPartitionSeries int
}

// Cleaner is a pool of workers that compact logs, the dirtiest first. A log that cannot be cleaned is set aside with
// its reason and does not keep the others from their turn. Its methods may be called from any goroutine.
type Cleaner struct {
	options Options
	metrics *metrics
	budget  *budget.Bytes // that all workers share

	mu      sync.Mutex // guards the fields below
	config  Config
	changed chan struct{} // closed when the workers must begin anew
	woken   chan struct{} // closed when a worker should look at once
	logs    map[kafka.TopicPartition]*logState
}

// logState is what the cleaner remembers of one log.
type logState struct {
	cleaning bool
	forced   bool  // until a pass has found nothing left to do
	failure  error // why it is set aside; nil while it is not
	// brokenOff is why the last pass did not come to its end, although the next one may; nil if it did.
	brokenOff error
	// begin is where the log began when it was set aside. Once it begins elsewhere, what could not be cleaned may be gone.
	begin     int64
	stats     Stats // of the pass that runs, or of the last one
	passes    int64
	cleanedAt time.Time // when the last pass that was finished ended; zero without
}

// New makes a cleaner that Run runs.
func New(options Options) *Cleaner {
	c := &Cleaner{
		options: options, config: options.Config, budget: budget.New(options.Config.MaxBytesPerSecond),
		changed: make(chan struct{}), woken: make(chan struct{}), logs: map[kafka.TopicPartition]*logState{},
	}
	c.metrics = newMetrics(c, options.Registerer)
	return c
}

// SetConfig takes over new settings. Where there are other workers now, or they have another share of the memory, the
// passes under way begin anew: they have changed nothing that is not whole. The budget and the time between two looks
// are taken over by passes and workers as they are.
func (c *Cleaner) SetConfig(config Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.config
	if config == before {
		return
	}
	c.config = config
	c.budget.SetRate(config.MaxBytesPerSecond)
	if config.workers() != before.workers() {
		close(c.changed)
		c.changed = make(chan struct{})
		return
	}
	c.wake() // who rests may have rested for long enough
}

// workers is the part of the settings that the workers are made by.
func (c Config) workers() Config {
	c.MaxBytesPerSecond, c.Backoff = 0, 0
	return c
}

// wake has the workers that rest look at once; it needs mu.
func (c *Cleaner) wake() {
	close(c.woken)
	c.woken = make(chan struct{})
}

// Run cleans until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		c.mu.Lock()
		config, changed := c.config, c.changed
		c.mu.Unlock()
		generation, cancel := context.WithCancel(ctx)
		var workers errgroup.Group
		if config.Enable {
			for range config.Threads {
				workers.Go(func() error {
					c.work(generation, config)
					return nil
				})
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
		cancel()
		_ = workers.Wait() // a worker has no error of its own
	}
	return nil
}

// minWorkerBytes is what a worker has for keys however many of them share the memory: threads may be added at any time.
const minWorkerBytes = 1 << 20

// work is one worker.
func (c *Cleaner) work(ctx context.Context, config Config) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		woken, backoff := c.woken, c.config.Backoff
		c.mu.Unlock()
		if first, found := c.pick(time.Now()); found {
			background.Run(func() { c.cleanAll(ctx, config, first) })
			if ctx.Err() != nil {
				return
			}
		}
		timer.Reset(backoff)
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-timer.C:
		}
	}
}

// cleanAll cleans logs, beginning with the first, until there is no more work. So long it has memory for keys: so much
// of it at rest keeps the collector from looking for garbage.
func (c *Cleaner) cleanAll(ctx context.Context, config Config, first picked) {
	memory := newWorkspace(max(config.DedupeBufferBytes/int64(config.Threads), minWorkerBytes), config.LoadFactor)
	for next, found := first, true; found; {
		c.clean(ctx, next, memory) // also if ctx has ended: it is marked
		if ctx.Err() != nil {
			return
		}
		next, found = c.pick(time.Now())
	}
}

// picked is a log that a worker is to clean now.
type picked struct {
	tp  kafka.TopicPartition
	log Log
}

// seen is a log as a worker has looked at it.
type seen struct {
	tp       kafka.TopicPartition
	log      Log
	assessed assessment
	minRatio float64
	begin    int64
	forced   bool // before it was looked at
}

// look looks at all logs that nobody cleans. It holds no lock meanwhile: what is in the bucket may have to be loaded.
func (c *Cleaner) look(now time.Time) []seen {
	partitions := c.options.Partitions()
	c.mu.Lock()
	c.forget(partitions)
	all := make([]seen, 0, len(partitions))
	for _, tp := range partitions {
		if state := c.state(tp); !state.cleaning {
			all = append(all, seen{tp: tp, forced: state.forced})
		}
	}
	c.mu.Unlock()
	for i := range all {
		at := &all[i]
		log := c.options.Find(at.tp)
		if log == nil {
			continue
		}
		view, err := log.View()
		if err != nil {
			continue // it is offline, and who looks after logs says so
		}
		at.log, at.begin = log, view.begin()
		at.assessed, at.minRatio = assess(view, now.UnixMilli()), view.Settings.MinDirtyRatio
	}
	return all
}

// pick takes the log that needs cleaning most: one that somebody asks for, then one with records that have waited
// beyond max.compaction.lag.ms, then the dirtiest. It is marked, so that no other worker takes it.
func (c *Cleaner) pick(now time.Time) (best picked, found bool) {
	all := c.look(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	var bestAt candidate
	for _, at := range all {
		state := c.state(at.tp)
		if at.log == nil || state.cleaning || state.failure != nil && state.begin == at.begin {
			continue
		}
		state.failure = nil
		if at.forced && !at.assessed.HasWork() {
			state.forced = false
		}
		if !state.forced && !at.assessed.Due(at.minRatio) {
			continue
		}
		urgency := candidate{forced: state.forced, delayMs: at.assessed.DelayMs, ratio: at.assessed.Ratio()}
		if !found || bestAt.before(urgency) {
			best, bestAt, found = picked{tp: at.tp, log: at.log}, urgency, true
		}
	}
	if found {
		c.state(best.tp).cleaning = true
	}
	return best, found
}

// candidate is how urgently a log wants to be cleaned.
type candidate struct {
	forced  bool
	delayMs int64
	ratio   float64
}

func (c candidate) before(other candidate) bool {
	switch {
	case c.forced != other.forced:
		return other.forced
	case (c.delayMs > 0) != (other.delayMs > 0):
		return other.delayMs > 0
	case c.delayMs > 0:
		return c.delayMs < other.delayMs
	}
	return c.ratio < other.ratio
}

// state needs mu.
func (c *Cleaner) state(tp kafka.TopicPartition) *logState {
	state := c.logs[tp]
	if state == nil {
		state = &logState{}
		c.logs[tp] = state
	}
	return state
}

// forget drops what is known of logs that are not there any more; it needs mu.
func (c *Cleaner) forget(partitions []kafka.TopicPartition) {
	if len(c.logs) <= len(partitions) {
		return
	}
	there := make(map[kafka.TopicPartition]struct{}, len(partitions))
	for _, tp := range partitions {
		there[tp] = struct{}{}
	}
	for tp, state := range c.logs {
		if _, ok := there[tp]; !ok && !state.cleaning {
			delete(c.logs, tp)
		}
	}
}

// clean makes one pass over a log that pick has marked.
func (c *Cleaner) clean(ctx context.Context, at picked, memory *workspace) {
	tp, started := at.tp, time.Now()
	stats, err := clean(ctx, at.log, memory, passOptions{
		Now: started.UnixMilli(),
		Throttle: func(ctx context.Context, bytes int) error {
			_, err := c.budget.Spend(ctx, int64(bytes))
			return err
		},
		Progress: func(stats Stats) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.state(tp).stats = stats
		},
	})
	took := time.Since(started)
	view, _ := at.log.View() // of a log that has gone there is nothing to set aside
	c.mu.Lock()
	state := c.state(tp)
	state.cleaning, state.stats, state.brokenOff = false, stats, nil
	if err == nil {
		state.cleanedAt, state.passes = time.Now(), state.passes+1
	}
	setAside := err != nil && ctx.Err() == nil && !passesBy(err)
	if setAside {
		state.failure, state.begin, state.forced = err, view.begin(), false
	}
	overtaken := errors.Is(err, storage.ErrSegmentsChanged) || errors.Is(err, kafka.OffsetOutOfRange)
	if err != nil && ctx.Err() == nil && !setAside && !overtaken {
		state.forced, state.brokenOff = false, err // who asked for it sees that it did not get done
	}
	c.mu.Unlock()
	c.metrics.passed(stats, took, err == nil)
	switch {
	case ctx.Err() != nil:
	case setAside:
		c.options.Logger.Error("a log cannot be compacted and is set aside; the others go on. See `firn topic compact`, "+
			"which tries again", "partition", tp.String(), "err", err)
	case overtaken:
		c.options.Logger.Info("compaction was overtaken by a change of the log", "partition", tp.String(), "reason", err)
		c.rest(ctx)
	case err != nil:
		c.options.Logger.Warn("compaction of a log was broken off, and will be tried again",
			"partition", tp.String(), "err", err)
		c.rest(ctx)
	default:
		c.options.Logger.Info("a log was compacted", "partition", tp.String(),
			"from", stats.StartOffset, "to", stats.EndOffset, "bytes read", stats.BytesRead, "bytes written",
			stats.BytesWritten, "records read", stats.RecordsRead, "records kept", stats.RecordsKept, "took", took.String())
	}
}

// rest keeps a log whose pass fails again and again, as on a full disk, from keeping a worker busy.
func (c *Cleaner) rest(ctx context.Context) {
	c.mu.Lock()
	backoff := c.config.Backoff
	c.mu.Unlock()
	timer := time.NewTimer(backoff)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// passesBy tells whether what broke off a pass may be over the next time: the log has changed, the disk is full, or it
// fails, which is for who looks after log directories. A log that fails in any other way would fail again.
func passesBy(err error) bool {
	var damage *storage.CorruptError
	if errors.As(err, &damage) {
		return false
	}
	return errors.Is(err, storage.ErrSegmentsChanged) || errors.Is(err, kafka.OffsetOutOfRange) ||
		errors.Is(err, storage.ErrNoSpace) || errors.Is(err, kafka.KafkaStorageError)
}

// ErrNotCompacted says that a partition is not one that the cleaner looks after.
var ErrNotCompacted = errors.New("no compacted log of this broker; set cleanup.policy=compact with `firn topic alter`")

// Compact asks for a pass over a log: what was written last is sealed, and neither the dirty ratio nor an earlier
// failure keep it from being cleaned; min.compaction.lag.ms does. It returns at once, see Status.
func (c *Cleaner) Compact(tp kafka.TopicPartition) error {
	if !c.enabled() {
		return errors.New("the log cleaner is switched off; set log.cleaner.enable=true and log.cleaner.threads")
	}
	if c.options.Find(tp) == nil {
		return fmt.Errorf("%s: %w", tp, ErrNotCompacted)
	}
	if err := c.options.Roll(tp); err != nil {
		return fmt.Errorf("seal the active segment of %s: %w", tp, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.state(tp)
	state.forced, state.failure = true, nil
	c.wake()
	return nil
}

func (c *Cleaner) enabled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config.Enable && c.config.Threads > 0
}

// Status is where the compaction of a log stands.
type Status struct {
	Waiting    bool // a pass was asked for, and has not begun or has more to do
	Running    bool
	Failure    error // why the log is set aside; nil while it is not
	BrokenOff  error // why the last pass did not come to its end, although the next one may; nil if it did
	Stats      Stats // of the pass that runs, or of the last one
	Passes     int64 // since the start of the broker
	LastPassAt int64 // ms since 1970, −1 without one since the start
	DirtyRatio float64
	DirtyBytes int64 // that could be cleaned now
	DelayMs    int64 // how long a record has been waiting beyond max.compaction.lag.ms
}

// Status tells where the compaction of a log stands.
func (c *Cleaner) Status(tp kafka.TopicPartition) (Status, error) {
	log := c.options.Find(tp)
	if log == nil {
		return Status{}, fmt.Errorf("%s: %w", tp, ErrNotCompacted)
	}
	view, err := log.View()
	if err != nil {
		return Status{}, err
	}
	assessed := assess(view, time.Now().UnixMilli())
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.state(tp)
	status := Status{
		Waiting: state.forced && (state.cleaning || assessed.HasWork()), Running: state.cleaning,
		Failure: state.failure, BrokenOff: state.brokenOff,
		Stats: state.stats, Passes: state.passes, LastPassAt: -1,
		DirtyRatio: assessed.Ratio(), DirtyBytes: assessed.CleanableBytes,
		DelayMs: assessed.DelayMs,
	}
	if !state.cleanedAt.IsZero() {
		status.LastPassAt = state.cleanedAt.UnixMilli()
	}
	return status, nil
}
