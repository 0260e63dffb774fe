package bench

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/latency"
)

// overrun is how long after its end a schedule that is behind may still be sent: a short pause of the cluster at the
// end must not look as if it could not take the rate.
const overrun = time.Second

// Load is what is produced.
type Load struct {
	// Clients share the records: each sends every so manieth.
	Clients []*kgo.Client
	Topic   string
	// Values are sent in turn; all have the same length.
	Values [][]byte
	// Keys are drawn at random by Seed; none: the records have no key.
	Keys [][]byte
	Seed uint64
	// PerSecond is the rate of the open loop in records; 0 is as fast as it goes, a closed loop.
	PerSecond float64
	// WarmUp goes before what is measured, at the same rate. Its records are not counted.
	WarmUp time.Duration
	// Duration and Records end the load, whichever is reached first; 0 is no such end, and one of them must be there.
	Duration time.Duration
	Records  int64
	// Timeout ends a run in which nothing was acknowledged for as long.
	Timeout time.Duration
	// Observe is called once a second; nil: nobody looks.
	Observe func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	WarmUp  bool
	Elapsed time.Duration // since the warm-up, or what is measured, began
	Records int64         // acknowledged
	Failed  int64
	// RecentBytes of keys and values were acknowledged in the last second.
	RecentBytes int64
}

// Produced is what a load has come to.
type Produced struct {
	Records int64 // acknowledged
	Bytes   int64 // of their keys and values
	Failed  int64
	Unknown int64 // neither acknowledged nor refused when the run was given up
	Unsent  int64 // due before the end of the schedule, which was too far behind
	// FirstFailure is why the first of the failed records failed.
	FirstFailure error
	// Elapsed is from the beginning to the last acknowledgement.
	Elapsed time.Duration
	// Latency is from when a record was due to its acknowledgement; in a closed loop, from the call that sent it.
	Latency *latency.Histogram
	// StartDelay is how long after it was due a record was given to its client. What makes it long is this process, its
	// machine, or a client whose buffer is full because the cluster is behind. A closed loop has none.
	StartDelay *latency.Histogram
}

// Run produces until the load is at its end, or until the interrupt, and waits for the acknowledgements. What was
// produced is returned even when there is an error: that of ctx, which gives everything up, or of a stall.
func (l *Load) Run(ctx, interrupt context.Context) (Produced, error) {
	if l.WarmUp > 0 {
		warmUp := l.warmUp()
		if _, err := l.run(ctx, interrupt, warmUp); err != nil || interrupt.Err() != nil {
			return newTally().Produced, err
		}
	}
	return l.run(ctx, interrupt, l.measured())
}

// phase is one run through a schedule: the warm-up, or what is measured.
type phase struct {
	isWarmUp bool
	began    time.Time
	schedule latency.Schedule
	open     bool
	total    int64     // records; a closed loop may have no limit
	bounded  bool      // by time, so that some of total may remain unsent
	deadline time.Time // nothing is sent after it
	track    tracker   // nil: nobody wants to know
}

// tracker follows each record by its number.
type tracker interface {
	// stamp writes the number into a value.
	stamp(value []byte, number int64)
	// acknowledged is told of each record that the cluster has.
	acknowledged(number int64)
}

func (l *Load) warmUp() phase {
	p := l.phase(l.WarmUp, math.MaxInt64)
	p.isWarmUp = true
	return p
}

func (l *Load) measured() phase {
	records := l.Records
	if records == 0 {
		records = math.MaxInt64
	}
	return l.phase(l.Duration, records)
}

// phase begins now. A duration of 0 is none.
func (l *Load) phase(duration time.Duration, records int64) phase {
	now := time.Now()
	p := phase{began: now, total: records}
	if l.PerSecond > 0 {
		p.open, p.schedule = true, latency.NewSchedule(now, l.PerSecond)
	}
	if duration == 0 {
		return p
	}
	p.bounded, p.deadline = true, now.Add(duration)
	if p.open {
		p.total = min(records, p.schedule.Operations(duration))
		p.deadline = p.deadline.Add(overrun)
	}
	return p
}

func (l *Load) run(ctx, interrupt context.Context, p phase) (Produced, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	senders := make([]*sender, len(l.Clients))
	for i := range senders {
		senders[i] = newSender(l, i)
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watcher, sending sync.WaitGroup
	watcher.Go(func() { l.watch(watching, p, senders, giveUp) })
	for i, s := range senders {
		sending.Go(func() { s.run(ctx, interrupt, p, int64(i), int64(len(senders))) })
	}
	sending.Wait()
	stopWatching()
	watcher.Wait()
	return l.result(ctx, interrupt, p, senders)
}

func (l *Load) result(ctx, interrupt context.Context, p phase, senders []*sender) (Produced, error) {
	total := newTally()
	given := int64(0)
	for _, s := range senders {
		total.add(s)
		given += s.given.Load()
	}
	total.Unknown = given - total.Records - total.Failed
	if !total.last.IsZero() {
		total.Elapsed = total.last.Sub(p.began)
	}
	if p.open && p.bounded && interrupt.Err() == nil && ctx.Err() == nil {
		total.Unsent = p.total - given
	}
	return total.Produced, context.Cause(ctx)
}

// watch tells the observer, and gives a run up in which nothing moves.
func (l *Load) watch(ctx context.Context, p phase, senders []*sender, giveUp context.CancelCauseFunc) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var before Progress
	bytesBefore, moved := int64(0), p.began
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		progress := Progress{WarmUp: p.isWarmUp, Elapsed: now.Sub(p.began)}
		given, bytes := int64(0), int64(0)
		for _, s := range senders {
			given += s.given.Load()
			bytes += s.addProgress(&progress)
		}
		progress.RecentBytes = bytes - bytesBefore
		if done := progress.Records + progress.Failed; done != before.Records+before.Failed || done == given {
			moved = now
		}
		if l.Timeout > 0 && now.Sub(moved) >= l.Timeout {
			giveUp(fmt.Errorf("the cluster has acknowledged nothing for %v; see its log, or raise --timeout", l.Timeout))
			return
		}
		before, bytesBefore = progress, bytes
		if l.Observe != nil {
			l.Observe(progress)
		}
	}
}
