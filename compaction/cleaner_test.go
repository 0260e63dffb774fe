package compaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
)

// lockedLog lets a worker and a test look at a log at the same time.
type lockedLog struct {
	full       atomic.Bool  // the disk is
	processors atomic.Int64 // of Go's when a segment was last opened
	mu         sync.Mutex   // guards the log
	*memLog
}

// Open implements Log.
func (l *lockedLog) Open(base int64) (Source, error) {
	l.processors.Store(int64(runtime.GOMAXPROCS(0)))
	return l.memLog.Open(base)
}

func (l *lockedLog) View() (View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memLog.View()
}

// Replace implements Log.
func (l *lockedLog) Replace(firstBase, endBase int64) (Sink, error) {
	if l.full.Load() {
		return nil, fmt.Errorf("begin a segment: %w", storage.ErrNoSpace)
	}
	return l.memLog.Replace(firstBase, endBase)
}

// pool is a cleaner over logs in memory, in the order of their names.
type pool struct {
	*Cleaner
	registry *prometheus.Registry
	logs     map[string]*lockedLog
	rolled   []string
}

func newPool(config Config, logs map[string]*memLog) *pool {
	p := &pool{logs: map[string]*lockedLog{}, registry: prometheus.NewRegistry()}
	for name, log := range logs {
		p.logs[name] = &lockedLog{memLog: log}
	}
	p.Cleaner = New(Options{
		Logger: slog.New(slog.DiscardHandler), Registerer: p.registry, Config: config,
		Partitions: func() (all []kafka.TopicPartition) {
			for name := range p.logs {
				all = append(all, kafka.TopicPartition{Topic: name})
			}
			return all
		},
		Find: func(tp kafka.TopicPartition) Log {
			if log := p.logs[tp.Topic]; log != nil {
				return log
			}
			return nil
		},
		Roll:      func(tp kafka.TopicPartition) error { p.rolled = append(p.rolled, tp.Topic); return nil },
		Directory: func(kafka.TopicPartition) string { return "dir" },
	})
	return p
}

func poolConfig() Config {
	return Config{
		Enable: true, Threads: 1, DedupeBufferBytes: 1 << 20, LoadFactor: 0.9, MaxBytesPerSecond: math.MaxFloat64,
		Backoff: 15 * time.Second,
	}
}

// dirtyLog has records of a few keys.
func dirtyLog() *memLog {
	log := logOf(record.None, 200, 5, 4, 20)
	log.settings.MinDirtyRatio = 0.5
	return log
}

// running runs the pool in the bubble until the test is over.
func (p *pool) running(t *testing.T, body func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	body()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func (p *pool) status(t *testing.T, name string) Status {
	t.Helper()
	status, err := p.Status(kafka.TopicPartition{Topic: name})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func TestTheMostUrgentLogIsFirst(t *testing.T) {
	rising := []candidate{
		{ratio: 0.6}, {ratio: 0.9}, {delayMs: 1, ratio: 0.1}, {delayMs: 5, ratio: 0.1}, {forced: true},
		{forced: true, delayMs: 3},
	}
	for i, a := range rising {
		for j, b := range rising {
			if got := a.before(b); got != (i < j) {
				t.Errorf("%+v before %+v: %v", a, b, got)
			}
		}
	}
}

func TestALogThatCannotBeCleanedIsSetAsideAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, sound := dirtyLog(), dirtyLog()
		count := broken.segments[0].batches[0][57:61]
		count[0] ^= 1 // more records than there are
		p := newPool(poolConfig(), map[string]*memLog{"broken": broken, "sound": sound})
		p.running(t, func() {
			time.Sleep(time.Minute)
			synctest.Wait()
			if status := p.status(t, "sound"); status.Passes == 0 || status.Failure != nil {
				t.Errorf("the sound log: %+v", status)
			}
			var corrupt *record.CorruptError
			if status := p.status(t, "broken"); !errors.As(status.Failure, &corrupt) || status.Running {
				t.Errorf("the broken log: %+v", status)
			}
			count[0] ^= 1
			time.Sleep(time.Minute)
			synctest.Wait()
			if status := p.status(t, "broken"); status.Failure == nil || status.Passes != 0 {
				t.Errorf("nobody asked for it, and it was tried again: %+v", status)
			}
			if err := p.Compact(kafka.TopicPartition{Topic: "broken"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if status := p.status(t, "broken"); status.Failure != nil || status.Passes != 1 || status.Waiting {
				t.Errorf("after a forced pass: %+v", status)
			}
			if len(p.rolled) != 1 {
				t.Errorf("rolled %v", p.rolled)
			}
		})
	})
}

func TestAFullDiskIsToldToWhoeverAskedAndSetsNothingAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(poolConfig(), map[string]*memLog{"t": dirtyLog()})
		p.logs["t"].full.Store(true)
		p.running(t, func() {
			if err := p.Compact(kafka.TopicPartition{Topic: "t"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			status := p.status(t, "t")
			if !errors.Is(status.BrokenOff, storage.ErrNoSpace) || status.Failure != nil || status.Waiting {
				t.Errorf("while the disk is full: %+v", status)
			}
			p.logs["t"].full.Store(false)
			time.Sleep(time.Minute)
			synctest.Wait()
			if status := p.status(t, "t"); status.Passes != 1 || status.BrokenOff != nil {
				t.Errorf("once there is room: %+v", status)
			}
		})
	})
}

func TestALogThatIsCleanEnoughWaitsUntilSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := dirtyLog()
		log.settings.MinDirtyRatio = 1
		p := newPool(poolConfig(), map[string]*memLog{"t": log})
		p.running(t, func() {
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if status := p.status(t, "t"); status.Passes != 0 {
				t.Fatalf("it was cleaned at a ratio of %v", status.DirtyRatio)
			}
			if err := p.Compact(kafka.TopicPartition{Topic: "t"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if status := p.status(t, "t"); status.Passes != 1 || status.DirtyBytes != 0 {
				t.Errorf("after a forced pass: %+v", status)
			}
		})
		if err := p.Compact(kafka.TopicPartition{Topic: "missing"}); !errors.Is(err, ErrNotCompacted) {
			t.Errorf("a log that is not there: %v", err)
		}
	})
}

func TestPassesRunInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(poolConfig(), map[string]*memLog{"t": dirtyLog()})
		ordinary := runtime.GOMAXPROCS(0)
		p.running(t, func() {
			time.Sleep(time.Second)
			synctest.Wait()
		})
		if got := p.logs["t"].processors.Load(); got <= int64(ordinary) {
			t.Errorf("%d of Go's processors during a pass, %d without", got, ordinary)
		}
	})
}

// A log that was picked when the pool ends, or begins anew with other settings, must not stay marked as being cleaned.
func TestTheEndOfAWorkerLeavesNoLogMarked(t *testing.T) {
	p := newPool(poolConfig(), map[string]*memLog{"a": dirtyLog(), "b": dirtyLog()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	partitions := p.options.Partitions
	first, found := p.pick(time.Now())
	p.options.Partitions = func() []kafka.TopicPartition {
		cancel() // the first log is cleaned, the next one is being picked
		return partitions()
	}
	p.cleanAll(ctx, poolConfig(), first)
	if !found || ctx.Err() == nil {
		t.Fatal("no log was dirty, or no second one was looked for")
	}
	for name := range p.logs {
		if status := p.status(t, name); status.Running {
			t.Errorf("%s after the end: %+v", name, status)
		}
	}
}

func TestASettingChangesThePoolWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := poolConfig()
		config.Threads = 0
		p := newPool(config, map[string]*memLog{"t": dirtyLog()})
		p.running(t, func() {
			time.Sleep(time.Hour)
			synctest.Wait()
			if status := p.status(t, "t"); status.Passes != 0 {
				t.Fatal("a pool without workers cleans")
			}
			if err := p.Compact(kafka.TopicPartition{Topic: "t"}); err == nil {
				t.Error("a pool without workers takes a forced pass")
			}
			config.Threads = 2
			p.SetConfig(config)
			time.Sleep(time.Second)
			synctest.Wait()
			if status := p.status(t, "t"); status.Passes != 1 {
				t.Errorf("after it got workers: %+v", status)
			}
		})
	})
}

// A pass under way goes on when the budget or the time between two looks changes, and by the new budget at once; one
// that works with too much memory now begins anew.
func TestASettingThatDoesNotConcernThemLeavesPassesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := poolConfig()
		config.MaxBytesPerSecond = 100
		log := logOf(record.None, 20_000, 5, 4, 20)
		p := newPool(config, map[string]*memLog{"t": log})
		p.running(t, func() {
			failed := func() float64 { return testutil.ToFloat64(p.metrics.passes.WithLabelValues("failed")) }
			time.Sleep(time.Second)
			synctest.Wait()
			if !p.status(t, "t").Running {
				t.Fatal("no pass is under way")
			}
			config.Backoff = time.Second
			p.SetConfig(config)
			synctest.Wait()
			config.MaxBytesPerSecond = 200
			p.SetConfig(config)
			synctest.Wait()
			if !p.status(t, "t").Running || failed() != 0 {
				t.Fatalf("the pass was given up: %+v", p.status(t, "t"))
			}
			config.DedupeBufferBytes *= 2
			p.SetConfig(config)
			synctest.Wait()
			if !p.status(t, "t").Running || failed() != 1 {
				t.Fatalf("%v passes were given up for another memory, want 1", failed())
			}
			config.MaxBytesPerSecond = math.MaxFloat64
			p.SetConfig(config)
			synctest.Wait()
			if status := p.status(t, "t"); status.Passes != 1 || failed() != 1 {
				t.Errorf("without a budget: %+v, %v given up", status, failed())
			}
		})
	})
}

// Who rests does so for as long as is set now.
func TestAShorterBackoffIsTakenOverByWorkersThatRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := poolConfig()
		config.Backoff = 24 * time.Hour
		clean := dirtyLog()
		clean.settings.MinDirtyRatio = 1
		p := newPool(config, map[string]*memLog{"t": clean})
		p.running(t, func() {
			time.Sleep(time.Hour)
			synctest.Wait()
			p.logs["t"].mu.Lock()
			clean.settings.MinDirtyRatio = 0.5
			p.logs["t"].mu.Unlock()
			config.Backoff = time.Second
			p.SetConfig(config)
			synctest.Wait()
			if status := p.status(t, "t"); status.Passes != 1 {
				t.Errorf("it waits for the next day: %+v", status)
			}
		})
	})
}
