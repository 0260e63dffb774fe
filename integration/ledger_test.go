package integration

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ledger is what the outside world knows of one partition: what was acknowledged to a producer, and what a consumer has
// seen. None of it may ever be otherwise.
type ledger struct {
	mu    sync.Mutex // guards the fields below
	known map[int64]fact
}

type fact struct {
	value string
	how   string
}

func (l *ledger) note(t testing.TB, record *kgo.Record, how string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[int64]fact{}
	}
	if before, ok := l.known[record.Offset]; ok && before.value != string(record.Value) {
		t.Errorf("offset %d was %s as %q and is now %s as %q", record.Offset,
			before.how, shorten([]byte(before.value)), how, shorten(record.Value))
		return
	}
	l.known[record.Offset] = fact{value: string(record.Value), how: how}
}

// size is how many records are known.
func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.known)
}

// check compares what is in the partition now, from logStart on, with everything that was ever known of it.
func (l *ledger) check(t testing.TB, logStart int64, records []*kgo.Record) {
	t.Helper()
	l.mu.Lock()
	end := logStart + int64(len(records))
	for offset, before := range l.known {
		if offset >= end {
			t.Errorf("offset %d, which was %s, is gone: the log ends at %d", offset, before.how, end)
		}
	}
	l.mu.Unlock()
	for _, record := range records {
		l.note(t, record, "read")
	}
}

// follow reads a partition from its start, for as long as the scenario lasts, and tells the ledger.
func (s *scenario) follow(topic string, partition int32, ledger *ledger) (stop func()) {
	client := s.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil && !errors.Is(err, context.Canceled) {
				s.t.Errorf("consuming %s-%d: %v", topic, partition, err)
				return
			}
			for _, record := range fetches.Records() {
				ledger.note(s.t, record, "seen by a consumer")
			}
		}
	})
	stop = func() {
		cancel()
		reading.Wait()
		client.Close()
	}
	s.t.Cleanup(stop) // a test that fails must not leave it behind
	return stop
}

// stream is a producer that has one record after the other on its way, and tells the ledger of each acknowledgement. It
// is idempotent, and outlives the broker.
type stream struct {
	s      *scenario
	client *kgo.Client
	ledger *ledger
	sent   []*kgo.Record
	flying sync.WaitGroup
}

func (s *scenario) stream(ledger *ledger, options ...kgo.Opt) *stream {
	s.t.Helper()
	return &stream{s: s, ledger: ledger, client: s.client(append([]kgo.Opt{
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100_000),
	}, options...)...)}
}

// send hands records to the client, in batches of a few, so that each batch is a request.
func (p *stream) send(records ...*kgo.Record) {
	p.sent = append(p.sent, records...)
	for _, record := range records {
		p.flying.Add(1)
		p.client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			defer p.flying.Done()
			if err != nil {
				if errors.Is(err, kgo.ErrClientClosed) { // the test has failed already
					return
				}
				p.s.t.Errorf("%q was not acknowledged: %v", shorten(record.Value), err)
				return
			}
			p.ledger.note(p.s.t, record, "acknowledged")
		})
	}
}

// wait returns when everything that was sent is acknowledged.
func (p *stream) wait() {
	p.s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.flying.Wait()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		p.s.t.Fatalf("%d records were never acknowledged", p.client.BufferedProduceRecords())
	}
}
