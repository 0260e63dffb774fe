package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/firnlog/firn/internal/kafka"
)

// ErrUnknown says that what a log holds is not known yet. It is the way of things for a moment after a start, so nobody
// is told; the log is left alone.
var ErrUnknown = errors.New("what the log holds is not known yet")

// Log is a log as retention needs it.
type Log interface {
	// View is the log at this moment. An error leaves the log alone in this run: what is not known for sure is kept.
	View(ctx context.Context) (View, error)
	// Roll seals the active segment.
	Roll() error
	// MoveLogStart moves the log start offset, by a commit of the metastore where the log is tiered.
	MoveLogStart(ctx context.Context, offset int64) error
	// MoveLocalStart removes local segments that end at or before the offset.
	MoveLocalStart(offset int64) error
}

// Options are what an Enforcer is made of.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	// Interval is the time between two runs over all logs (log.retention.check.interval.ms).
	Interval time.Duration
	// Partitions lists the logs there are, Find finds one; it returns nil when the log is gone.
	Partitions func() []kafka.TopicPartition
	Find       func(tp kafka.TopicPartition) Log
}

// Enforcer applies retention to all logs, one at a time: it is never in a hurry.
type Enforcer struct {
	options Options
	metrics *metrics
	woken   chan struct{} // a token when due has grown

	mu  sync.Mutex // guards the field below
	due map[kafka.TopicPartition]struct{}
}

// New makes an Enforcer that Run runs.
func New(options Options) *Enforcer {
	return &Enforcer{
		options: options,
		metrics: newMetrics(options.Registerer),
		woken:   make(chan struct{}, 1),
		due:     map[kafka.TopicPartition]struct{}{},
	}
}

// Wake asks for a run over one log soon: more of it may go, since the bucket has got a copy. It returns at once.
func (e *Enforcer) Wake(tp kafka.TopicPartition) {
	e.mu.Lock()
	e.due[tp] = struct{}{}
	e.mu.Unlock()
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

func (e *Enforcer) takeDue() []kafka.TopicPartition {
	e.mu.Lock()
	defer e.mu.Unlock()
	due := make([]kafka.TopicPartition, 0, len(e.due))
	for tp := range e.due {
		due = append(due, tp)
	}
	clear(e.due)
	return due
}

// Run enforces retention until ctx ends.
func (e *Enforcer) Run(ctx context.Context) error {
	ticker := time.NewTicker(e.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			e.metrics.retainedBytes.Set(float64(e.enforceAll(ctx, e.options.Partitions())))
		case <-e.woken:
			e.enforceAll(ctx, e.takeDue())
		}
	}
}

// enforceAll brings logs within their limits, and returns how many bytes are left of those that could be looked at.
func (e *Enforcer) enforceAll(ctx context.Context, work []kafka.TopicPartition) (retained int64) {
	for _, tp := range work {
		if ctx.Err() != nil {
			return retained
		}
		bytes, err := e.enforce(ctx, tp)
		retained += bytes
		if err != nil && !errors.Is(err, ErrUnknown) {
			e.metrics.failures.Inc()
			e.options.Logger.Warn("retention left a log alone, the next run tries again",
				"partition", tp.String(), "err", err)
		}
	}
	return retained
}

// enforce brings one log within its limits, and returns its bytes then. The new start is published before anything is
// removed.
func (e *Enforcer) enforce(ctx context.Context, tp kafka.TopicPartition) (retained int64, err error) {
	log := e.options.Find(tp)
	if log == nil {
		return 0, nil
	}
	view, err := log.View(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now().UnixMilli()
	if RollDue(view, now) {
		if err := log.Roll(); err != nil {
			return view.Bytes(), fmt.Errorf("roll the expired active segment: %w", err)
		}
		if view.Tiered {
			return view.Bytes(), nil // the bucket gets the segment first; the next run lets it go
		}
		if view, err = log.View(ctx); err != nil {
			return 0, err
		}
	}
	retained = view.Bytes()
	start, lost, err := Start(view, now)
	if err != nil {
		return retained, err
	}
	if start > view.LogStart {
		if err := log.MoveLogStart(ctx, start); err != nil {
			return retained, fmt.Errorf("move the log start offset to %d: %w", start, err)
		}
		e.metrics.logStartMoves.Inc()
		view.LogStart = start
	}
	if start := LocalStart(view, now); start > 0 {
		if err := log.MoveLocalStart(start); err != nil {
			return retained, fmt.Errorf("remove local segments below %d: %w", start, err)
		}
	}
	return retained - e.metrics.deleted(lost), nil
}
