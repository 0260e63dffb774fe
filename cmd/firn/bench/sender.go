package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/internal/latency"
)

// sender gives one client its share of the records.
type sender struct {
	client *kgo.Client
	load   *Load
	random *rand.Rand
	idle   sync.Pool    // of *sending: a record costs no allocation of ours
	given  atomic.Int64 // records that the client was given
	// startDelay is for the goroutine that sends until that has ended.
	startDelay *latency.Histogram

	mu    sync.Mutex // guards the field below, which the client's answers change
	tally tally
}

// tally counts answers.
type tally struct {
	Produced
	last time.Time // of the acknowledgements
}

func newTally() tally {
	return tally{Produced: Produced{Latency: latency.NewHistogram(), StartDelay: latency.NewHistogram()}}
}

// add counts what a sender has counted, which has ended.
func (t *tally) add(s *sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Records += s.tally.Records
	t.Bytes += s.tally.Bytes
	t.Failed += s.tally.Failed
	t.Latency.Add(s.tally.Latency)
	t.StartDelay.Add(s.startDelay)
	if t.FirstFailure == nil {
		t.FirstFailure = s.tally.FirstFailure
	}
	if s.tally.last.After(t.last) {
		t.last = s.tally.last
	}
}

func newSender(load *Load, place int) *sender {
	s := &sender{client: load.Clients[place], load: load, random: rand.New(rand.NewPCG(load.Seed, uint64(place))),
		startDelay: latency.NewHistogram(), tally: newTally()}
	s.idle.New = func() any {
		next := &sending{sender: s}
		next.promise = next.answered
		return next
	}
	return s
}

// sending is a record under way.
type sending struct {
	sender  *sender
	record  kgo.Record
	value   []byte // of a record that is tracked
	number  int64
	due     time.Time
	track   tracker
	ctx     context.Context
	promise func(*kgo.Record, error) // answered, made a function once
}

// run sends the records first, first+step and so on, each when it is due, and waits for the answers.
func (s *sender) run(ctx, interrupt context.Context, p phase, first, step int64) {
	for number := first; number < p.total && ctx.Err() == nil && interrupt.Err() == nil; number += step {
		if p.open && p.schedule.Wait(interrupt, number) != nil {
			break
		}
		now := time.Now()
		if p.bounded && now.After(p.deadline) {
			break
		}
		due := now
		if p.open {
			due = p.schedule.At(number)
			s.startDelay.Record(now.Sub(due))
		}
		s.send(ctx, p.track, number, due)
	}
	// The error is that of ctx, which whoever has called Run gets to see.
	_ = s.client.Flush(ctx)
}

func (s *sender) send(ctx context.Context, track tracker, number int64, due time.Time) {
	next := s.idle.Get().(*sending)
	next.number, next.due, next.track, next.ctx = number, due, track, ctx
	value := s.load.Values[number%int64(len(s.load.Values))]
	if track != nil {
		next.value = append(next.value[:0], value...)
		track.stamp(next.value, number)
		value = next.value
	}
	next.record = kgo.Record{Topic: s.load.Topic, Partition: -1, Value: value}
	if len(s.load.Keys) > 0 {
		next.record.Key = s.load.Keys[s.random.IntN(len(s.load.Keys))]
	}
	s.given.Add(1)
	s.client.Produce(ctx, &next.record, next.promise)
}

// answered counts what has become of a record.
func (n *sending) answered(record *kgo.Record, err error) {
	now := time.Now()
	s := n.sender
	if err == nil && n.track != nil {
		n.track.acknowledged(n.number)
	}
	s.mu.Lock()
	switch {
	case err == nil:
		s.tally.Records++
		s.tally.Bytes += int64(len(record.Key) + len(record.Value))
		s.tally.Latency.Record(now.Sub(n.due))
		s.tally.last = now
	case n.ctx.Err() == nil:
		s.tally.Failed++
		if s.tally.FirstFailure == nil {
			s.tally.FirstFailure = err
		}
	}
	s.mu.Unlock()
	if err == nil { // else a request that was given up may still hold the record
		s.idle.Put(n)
	}
}

// addProgress adds what was acknowledged, and returns its bytes.
func (s *sender) addProgress(to *Progress) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Records += s.tally.Records
	to.Failed += s.tally.Failed
	return s.tally.Bytes
}
