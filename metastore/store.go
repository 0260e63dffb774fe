package metastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
	"github.com/firnlog/firn/metastore/raftlog"
	"github.com/firnlog/firn/metastore/state"
)

// What Propose and WaitReady fail with, besides what the state machine answers.
var (
	// ErrUnknownOutcome: the command may have been applied, may be applied later, or never. Read the state to find out.
	ErrUnknownOutcome = fmt.Errorf("the outcome of the command is unknown: %w", kafka.RequestTimedOut)
	// ErrNotLeader: the command was not applied, because this node does not lead the metadata quorum.
	ErrNotLeader = fmt.Errorf("this node does not lead the metadata quorum: %w", kafka.NotController)
	// ErrStopped: the command was not applied, because the store has stopped.
	ErrStopped = fmt.Errorf("the metadata store has stopped: %w", kafka.NotController)
)

// Options say what a store works with.
type Options struct {
	FS         vfs.FS // of the raft database
	Dir        string // of the raft database; the state database is elsewhere
	NodeID     kafka.BrokerID
	State      *state.DB // stays open when the store is closed
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: metrics go nowhere
}

// Store is the cluster's metadata on this node: Run keeps it going, Propose changes it, Image shows it, Watch follows
// it. Its methods may be called concurrently.
type Store struct {
	options   Options
	db        *state.DB // the raft database
	log       *raftlog.Log
	stable    *raftlog.Stable
	snapshots *raftlog.Snapshots
	machine   *machine
	watchers  *watchers
	metrics   *metrics
	clock     elapsedClock
	tuning    tuning
	// restoreAtStart: the state database is behind the newest snapshot, and raft must bring it there.
	restoreAtStart bool

	shown     atomic.Pointer[image.Image]
	proposals chan *proposal
	ready     chan struct{} // closed once this node has led and has applied everything before
	stopping  chan struct{} // closed when nothing is proposed any more
	stopOnce  sync.Once
	failed    chan error // has room for the first failure after which the node must stop
}

// Open opens the raft database, checks that it and the state database fit each other, and loads the image. A database
// without a log is given one with this node as its only voter. Nothing runs before Run.
func Open(options Options) (*Store, error) {
	s := &Store{
		options:   options,
		metrics:   newMetrics(options.Registerer),
		proposals: make(chan *proposal),
		ready:     make(chan struct{}),
		stopping:  make(chan struct{}),
		failed:    make(chan error, 1),
		tuning:    defaultTuning(),
	}
	db, err := state.Open(state.Options{
		FS: options.FS, Dir: options.Dir, Logger: options.Logger, OnFatal: s.fail,
	})
	if err != nil {
		return nil, err
	}
	s.db = db
	if err := s.open(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *Store) open() error {
	var err error
	if s.log, err = raftlog.NewLog(s.db); err != nil {
		return err
	}
	s.stable = raftlog.NewStable(s.db)
	if s.snapshots, err = raftlog.NewSnapshots(s.db, s.options.Logger); err != nil {
		return err
	}
	if err := s.recover(); err != nil {
		return err
	}
	img, err := loadImage(s.options.State)
	if err != nil {
		return err
	}
	s.watchers = newWatchers(img, s.shown.Store)
	s.machine = &machine{
		db:      s.options.State,
		image:   img,
		metrics: s.metrics,
		emit:    func(u update) { s.watchers.updates <- u },
		fail:    s.fail,
	}
	s.clock.base = img.ElapsedMs
	return nil
}

// fail keeps the first failure for Run, which then stops and returns it.
func (s *Store) fail(err error) {
	select {
	case s.failed <- err:
	default: // the node is stopping for an earlier one
	}
}

// Close releases the raft database. Run must have returned, or never have been called.
func (s *Store) Close() error {
	s.stop()
	s.log.Close()
	return s.db.Close()
}

func (s *Store) stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// Image is the metadata as last told to the watchers. At the start it is what the state database held when the node
// stopped; it is up to date once WaitReady has returned.
func (s *Store) Image() *image.Image { return s.shown.Load() }

// Watch has tell called with the present image (Delta.Reset) and then with the image after each change, in order, on
// one goroutine of Run. tell must return soon and must not propose and wait for the answer, which waits for tell.
func (s *Store) Watch(tell func(*image.Image, image.Delta)) { s.watchers.add(tell) }

// WaitReady returns once this node leads the metadata quorum and has applied, and told its watchers of, everything that
// was ever acknowledged.
func (s *Store) WaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.stopping:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata: %w", ctx.Err())
	}
}

func serverID(node kafka.BrokerID) raft.ServerID {
	return raft.ServerID(strconv.Itoa(int(node)))
}
