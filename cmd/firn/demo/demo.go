package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// topic is where the events go.
	topic = "flights"
	// patience ends a run that hangs: many times what a slow machine needs.
	patience = 3 * time.Minute
	// stopPatience is for the clean stop of a node whose run is already over.
	stopPatience = 30 * time.Second
)

// Node is a running broker, as far as the demo knows it. firn.Node is one.
type Node interface {
	// Addr is HOST:PORT of the Kafka listener, HTTPAddr of the HTTP listener.
	Addr() string
	HTTPAddr() string
	// Failed is closed when the node cannot go on; Stop then says why.
	Failed() <-chan struct{}
	// Stop stops it cleanly.
	Stop(ctx context.Context) error
}

// Options are what a run needs.
type Options struct {
	// Start runs a node with its data in dir, on free ports, that looks for expired segments every
	// RetentionCheckInterval.
	Start func(ctx context.Context, dir string) (Node, error)
	// Restore makes the data of a node in dir from what the cluster, by its Kafka id, has in the bucket. Dir has nothing
	// but perhaps the bucket.
	Restore func(ctx context.Context, dir, cluster string) error
	// Store says where the bucket is, if it is not in dir.
	Store string
	// Dir is where the data goes and stays; it must be empty or missing. "" is a temporary directory.
	Dir string
	// Keep leaves the temporary directory behind.
	Keep bool
	// Out gets the story; Terminal says that a person watches it.
	Out      io.Writer
	Terminal bool
}

// RetentionCheckInterval is how often the demo's broker looks for what may be dropped: often, so that nobody waits.
const RetentionCheckInterval = 250 * time.Millisecond

// Summary is what a run has shown. Its byte counts are of whole segments, batches with their headers.
type Summary struct {
	Events         int     `json:"events"`
	EventBytes     int64   `json:"event_bytes"` // keys and values
	Keys           int     `json:"keys"`
	LocalBytes     int64   `json:"local_bytes"`
	RemoteBytes    int64   `json:"remote_bytes"`
	Objects        int64   `json:"objects"`
	RemoteEnd      int64   `json:"remote_end_offset"`
	LocalStart     int64   `json:"local_start_offset"`
	ProduceSeconds float64 `json:"produce_seconds"`
	TierSeconds    float64 `json:"tier_seconds"`
	ReplaySeconds  float64 `json:"replay_seconds"` // the slower of the two replays
	ReplayRate     float64 `json:"replay_events_per_second"`
	Day            string  `json:"day"` // the one looked up, with its range of offsets
	DayStart       int64   `json:"day_start_offset"`
	DayEnd         int64   `json:"day_end_offset"`
	RestoreSeconds float64 `json:"restore_seconds"`
	RestoredEnd    int64   `json:"restored_end_offset"`
	Same           bool    `json:"same"` // everything read was what was produced, each time
	Seconds        float64 `json:"seconds"`
	Dir            string  `json:"dir,omitempty"` // where the data is, if it was kept
}

// show is a run under way.
type show struct {
	options Options
	display *display
	dir     string
	events  []event
	cluster string // id of the first broker's
	summary Summary
}

// Run does the whole demo. It returns an error if anything differs from what was produced.
func Run(ctx context.Context, options Options) (summary *Summary, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the demo took longer than %v", patience))
	defer stop()
	s := &show{options: options, display: &display{out: options.Out, terminal: options.Terminal}}
	cleanUp, err := s.makeDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cleanUp()) }()
	began := time.Now()
	if err := s.withNode(ctx, s.firstLife); err != nil {
		return nil, err
	}
	s.display.say("Stopped the broker; starting it again on the same data.")
	if err := s.withNode(ctx, s.secondLife); err != nil {
		return nil, err
	}
	if err := s.loseAndRestore(ctx); err != nil {
		return nil, err
	}
	if err := s.withNode(ctx, s.thirdLife); err != nil {
		return nil, err
	}
	s.summary.Same = true
	s.summary.Seconds = time.Since(began).Seconds()
	return &s.summary, nil
}

// makeDir finds a place for the data and returns what undoes it.
func (s *show) makeDir() (cleanUp func() error, err error) {
	keep := func() error { return nil }
	if s.options.Dir == "" {
		if s.dir, err = os.MkdirTemp("", "firn-demo-"); err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		if s.options.Keep {
			s.summary.Dir = s.dir
			return keep, nil
		}
		return func() error { return os.RemoveAll(s.dir) }, nil
	}
	s.dir, s.summary.Dir = s.options.Dir, s.options.Dir
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look into --dir: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("--dir %s is not empty: the demo needs a directory of its own", s.dir)
	}
	return keep, nil
}

// withNode runs act while a node is up. A node that fails meanwhile ends act.
func (s *show) withNode(ctx context.Context, act func(context.Context, Node) error) error {
	node, err := s.options.Start(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("start a broker in %s: %w", s.dir, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-node.Failed():
			cancel(errBrokerFailed)
		case <-ctx.Done():
		}
	})
	err = act(ctx, node)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // what act met is only what followed from it
	}
	cancel(nil)
	watching.Wait()
	stopCtx, done := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer done()
	stopErr := node.Stop(stopCtx)
	switch {
	case stopErr == nil:
		return err
	case errors.Is(err, errBrokerFailed):
		return fmt.Errorf("%w: %w", err, stopErr)
	}
	return errors.Join(err, fmt.Errorf("stop the broker: %w", stopErr))
}

var errBrokerFailed = errors.New("the broker failed")

// firstLife produces everything, sees it sink and reads it back.
func (s *show) firstLife(ctx context.Context, node Node) (err error) {
	if s.events, err = loadEvents(); err != nil {
		return err
	}
	s.summary.Events, s.summary.EventBytes, s.summary.Keys = len(s.events), bytesOf(s.events), distinctKeys(s.events)
	if s.options.Store == "" {
		s.display.say("Started a broker on %s, its data and its bucket in %s.", node.Addr(), s.dir)
	} else {
		s.display.say("Started a broker on %s, its data in %s and its bucket at %s.", node.Addr(), s.dir, s.options.Store)
	}
	if err := s.createTopic(ctx, node); err != nil {
		return err
	}
	if err := s.fillAndSink(ctx, node); err != nil {
		return err
	}
	if err := s.replay(ctx, node, int64(len(s.events))); err != nil {
		return err
	}
	return s.lookUpDay(ctx, node)
}

// secondLife reads everything again from a broker that has been started anew.
func (s *show) secondLife(ctx context.Context, node Node) (err error) {
	if s.cluster, err = clusterOf(ctx, node); err != nil {
		return err
	}
	return s.replay(ctx, node, int64(len(s.events)))
}

func distinctKeys(events []event) int {
	keys := make(map[string]struct{})
	for _, e := range events {
		if e.key != nil {
			keys[string(e.key)] = struct{}{}
		}
	}
	return len(keys)
}
