package txn

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/internal/kafka"
)

// registry is what is in memory of the transactional ids of one journal: those with a transaction, and those that were
// used a short while ago. The view has them all.
type registry struct {
	*Coordinator
	shard *coordinator.Shard
	ids   map[string]*entry
}

// entry is a transactional id in memory. It may be ahead of the view.
type entry struct {
	Transaction
	end       int64        // of its newest record in the journal; 0: it is as the view has it
	committed atomic.Int64 // the end of its newest record that is committed
	touched   time.Time
	deadline  time.Time // of a transaction that is going on
	parked    []*call   // until the markers are written
}

// loaded fills a shard's memory with the transactions that are under way, and goes on with them.
func (c *Coordinator) loaded(shard *coordinator.Shard) error {
	r := &registry{Coordinator: c, shard: shard, ids: map[string]*entry{}}
	shard.State = r
	return shard.Scan(nil, func(key []byte, found coordinator.Entry) error {
		id, t, err := decode(key, found.Value)
		if err != nil {
			c.options.Logger.Error("a transactional id is left as it is", "partition", shard.Partition(), "err", err)
			return nil
		}
		switch {
		case t.State == Ongoing:
			e := r.keep(id, &entry{Transaction: t})
			e.deadline = time.UnixMilli(t.StartedMs).Add(t.timeout())
			c.alarm.set(e.deadline)
		case t.State.prepared():
			r.keep(id, &entry{Transaction: t})
			c.jobs.add(job{shard: shard, id: id, transaction: t})
		}
		return nil
	})
}

// lost ends a shard's memory. The transactions go on at the next coordinator.
func lost(shard *coordinator.Shard) {
	for _, e := range shard.State.(*registry).ids {
		for _, cl := range e.parked {
			cl.parked.Stop()
			cl.fail(fmt.Errorf("the coordinator of %q is not here any more: %w", cl.id, kafka.NotCoordinator))
		}
		e.parked = nil
	}
}

// decode reads a record. What is not known is an error.
func decode(key, value []byte) (string, Transaction, error) {
	id, known, err := decodeKey(key)
	if err == nil && !known {
		err = errors.New("its record is of an unknown kind")
	}
	if err != nil {
		return "", unknown(), err
	}
	t, err := decodeValue(value)
	if err != nil {
		return id, unknown(), fmt.Errorf("transactional id %q: %w", id, err)
	}
	return id, t, nil
}

func (t Transaction) timeout() time.Duration { return time.Duration(t.TimeoutMs) * time.Millisecond }

func (r *registry) keep(id string, e *entry) *entry {
	e.touched = time.Now()
	r.ids[id] = e
	return e
}

// find returns what is known of an id. What is nowhere is not kept before something is written.
func (r *registry) find(id string) (*entry, error) {
	if e, ok := r.ids[id]; ok {
		return e, nil
	}
	found, ok, err := r.shard.Get(encodeKey(id))
	if err != nil {
		return nil, fmt.Errorf("look up transactional id %q: %w", id, err)
	}
	if !ok {
		return &entry{Transaction: unknown()}, nil
	}
	t, err := decodeValue(found.Value)
	if err != nil {
		return nil, fmt.Errorf("transactional id %q: %w", id, err)
	}
	return &entry{Transaction: t}, nil
}

// judge has a call's event decide, and does what was decided. The answer waits until all that it rests on is committed.
func (r *registry) judge(cl *call) {
	e, err := r.find(cl.id)
	if err != nil {
		cl.fail(err)
		return
	}
	d := cl.event(e.Transaction)
	switch {
	case d.Write:
		r.write(cl.id, e, d.Next, func(err error) { cl.answer(d, err) })
	case kafka.CodeOf(d.Err) == kafka.ConcurrentTransactions && e.State.prepared() && cl.parked == nil:
		e.parked = append(e.parked, cl)
		cl.parked = time.AfterFunc(parkTime, func() { r.unpark(cl) })
	default:
		r.awaitCommitted(e, func(err error) { cl.answer(d, err) })
	}
}

// unpark sends a call away that has waited for the markers long enough.
func (r *registry) unpark(cl *call) {
	r.shard.Lock()
	defer r.shard.Unlock()
	e := r.ids[cl.id]
	if i := slices.Index(e.parked, cl); i >= 0 { // else it went on while this waited for the lock
		e.parked = slices.Delete(e.parked, i, i+1)
		cl.fail(kafka.ConcurrentTransactions)
	}
}

// awaitCommitted calls done when the newest record of an id is committed.
func (r *registry) awaitCommitted(e *entry, done func(error)) {
	if e.committed.Load() >= e.end {
		done(nil)
		return
	}
	r.shard.Await(e.end, done)
}

// write moves an id to its next state, which counts from now on, and calls done when that is committed. If it cannot be
// appended nothing has happened.
func (r *registry) write(id string, e *entry, next Transaction, done func(error)) {
	end, err := r.shard.Append(nil, coordinator.Record{Key: encodeKey(id), Value: encodeValue(next)})
	if err != nil {
		done(appendError(err))
		return
	}
	if next.State == Ongoing && e.State != Ongoing {
		e.deadline = time.Now().Add(next.timeout())
		r.alarm.set(e.deadline)
	}
	e.Transaction, e.end = next, end
	r.keep(id, e)
	r.shard.Await(end, func(err error) {
		if err == nil {
			e.committed.Store(end)
			if next.State.prepared() {
				r.jobs.add(job{shard: r.shard, id: id, transaction: next})
			}
		}
		done(err)
	})
}

// appendError hides from clients what they could not help: a record that is too large for the journal.
func appendError(err error) error {
	if code := kafka.CodeOf(err); code == kafka.MessageTooLarge || code == kafka.RecordListTooLarge {
		return fmt.Errorf("%s: %w", err.Error(), kafka.UnknownServerError)
	}
	return err
}

// marked takes note of partitions that have their marker. When none is left the transaction is complete, and what was
// waiting for that goes on. It tells whether the markers of this transaction are still to be written.
func (r *registry) marked(j job, done []kafka.TopicPartition) (goesOn bool) {
	e, ok := r.ids[j.id]
	if !ok || e.State != j.transaction.State || e.Producer != j.transaction.Producer {
		return false
	}
	if e.Transaction = e.without(done); len(e.Partitions) != 0 {
		return true
	}
	state := e.State
	r.write(j.id, e, e.completed(time.Now().UnixMilli()), func(err error) {
		if err != nil {
			r.options.Logger.Warn("the end of a transaction could not be written and is written again",
				"transactional_id", j.id, "err", err)
		}
	})
	if e.State == state {
		return true
	}
	r.metrics.ended(state)
	parked := e.parked
	e.parked = nil
	for _, cl := range parked {
		cl.parked.Stop()
		r.judge(cl)
	}
	return false
}
