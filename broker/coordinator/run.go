package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/firnlog/firn/internal/kafka"
)

const (
	// retryAfter is how long a shard waits that could not be loaded, or whose journal could not be read.
	retryAfter = time.Second
	// readBytes bounds what is read of a journal at a time.
	readBytes = 1 << 20
)

// run loads the shard and keeps its view up with the journal until the leadership or ctx ends.
func (s *Shard) run(ctx context.Context) {
	defer close(s.ended)
	if s.previous != nil {
		<-s.previous.ended
		s.previous = nil
	}
	tried := sync.OnceFunc(func() { close(s.tried) })
	defer tried()
	for !s.over(ctx) {
		if err := s.serve(ctx, tried); err != nil {
			tried()
			s.lose(failed)
			s.fail(err)
			if !errors.Is(err, errReload) && !s.over(ctx) {
				s.logger.Error("a coordinator's partition does not serve and is tried again", "err", err)
				s.pause(ctx, retryAfter)
			}
		}
	}
	s.lose(resigned)
	s.fail(errStopped)
}

// over tells whether there is nothing more to do.
func (s *Shard) over(ctx context.Context) bool {
	select {
	case <-s.gone:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func (s *Shard) pause(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gone:
	case <-ctx.Done():
	}
}

// fail tells everybody who waits that the shard does not serve any more.
func (s *Shard) fail(cause error) {
	for _, w := range s.takeWaiters(maxOffset) {
		w.done(recoded{fmt.Errorf("%s-%d: %w", s.runtime.options.Topic, s.partition, cause), kafka.NotCoordinator})
	}
}

// serve loads the shard, calls loaded, and then follows the journal. It returns nil when that is over.
func (s *Shard) serve(ctx context.Context, loaded func()) error {
	if !s.change(loading) { // the node is about to stop
		s.pause(ctx, retryAfter)
		return nil
	}
	apply := &applier{view: s.view}
	if err := s.load(ctx, apply); err != nil {
		return err
	}
	loaded()
	for !s.over(ctx) {
		if err := s.catchUp(ctx, apply); err != nil {
			return err
		}
		for _, w := range s.takeWaiters(s.view.applied) {
			w.done(nil)
		}
		if err := s.takeReload(); err != nil {
			return err
		}
		s.await(ctx)
	}
	return nil
}

// takeReload fails those that wait, if Reload was called, with its error.
func (s *Shard) takeReload() error {
	s.waiting.Lock()
	err := s.reloaded
	s.reloaded = nil
	s.waiting.Unlock()
	if err == nil {
		return nil
	}
	for _, w := range s.takeWaiters(maxOffset) {
		w.done(err)
	}
	return fmt.Errorf("%w: %w", errReload, err)
}

// await waits until there may be something to do.
func (s *Shard) await(ctx context.Context) {
	select {
	case <-s.wake:
	case <-s.gone:
	case <-ctx.Done():
	}
}

// catchUp applies the journal up to the high watermark.
func (s *Shard) catchUp(ctx context.Context, apply *applier) error {
	for s.view.applied < s.journal.Bounds().HighWatermark && !s.over(ctx) {
		data, err := s.journal.Read(ctx, s.view.applied, readBytes)
		if err != nil {
			return fmt.Errorf("read the journal from offset %d: %w", s.view.applied, err)
		}
		if len(data) == 0 {
			return nil
		}
		before := s.view.applied
		if err := apply.apply(data); err != nil {
			return err
		}
		if s.view.applied == before {
			return fmt.Errorf("the journal has nothing at offset %d, below its high watermark", before)
		}
	}
	return nil
}

// load brings the view to what the journal had when the broker began to lead it, lets the coordinator build its state,
// and begins to serve.
func (s *Shard) load(ctx context.Context, apply *applier) error {
	begun := time.Now()
	if err := s.openView(); err != nil {
		return err
	}
	from, target := s.view.applied, s.journal.Bounds().End
	for {
		if err := s.catchUp(ctx, apply); err != nil {
			return err
		}
		if s.over(ctx) {
			return nil
		}
		if s.view.applied >= min(target, s.journal.Bounds().End) {
			break
		}
		s.await(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.runtime.options.Loaded(s); err != nil {
		return fmt.Errorf("build the state in memory: %w", err)
	}
	if s.status.CompareAndSwap(loading, serving) {
		s.logger.Debug("a coordinator's partition serves", "from", from, "applied", s.view.applied,
			"took", time.Since(begun))
	} else {
		s.runtime.options.Lost(s) // it was lost before anybody could use it
		s.State = nil
	}
	return nil
}

// change sets the status, unless the shard does not come back.
func (s *Shard) change(status int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.status.Load(); before == draining || before == resigned {
		return false
	}
	s.status.Store(status)
	return true
}

// openView finds out where the view stands. One that does not belong to the journal as it is now begins anew: a power
// cut may have taken from the log what the view has seen, and what was appended since is of another leader epoch.
func (s *Shard) openView() error {
	exists, err := s.view.open()
	if err != nil {
		return err
	}
	bounds := s.journal.Bounds()
	if !exists {
		s.view.applied = bounds.Start
		return nil
	}
	applied, epoch := s.view.applied, s.view.epoch
	reason := ""
	switch {
	case applied < bounds.Start:
		reason = "the journal begins later"
	case applied > bounds.End:
		reason = "the journal ends earlier"
	case epoch != kafka.NoLeaderEpoch:
		if known, end := s.journal.EpochEnd(epoch); known != epoch || end < applied {
			reason = "the journal has another history"
		}
	}
	if reason == "" {
		return nil
	}
	s.logger.Warn("the view of a journal is built anew", "reason", reason, "applied", applied, "leader_epoch", epoch,
		"start", bounds.Start, "end", bounds.End)
	return s.view.drop(bounds.Start)
}

const maxOffset = int64(1<<63 - 1)

// errReload is why a shard begins again without a pause.
var errReload = errors.New("the state in memory is loaded again")
