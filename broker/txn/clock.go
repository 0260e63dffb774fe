package txn

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/firnlog/firn/broker/coordinator"
)

// idleTime is how long an id without a transaction stays in memory, where alone its last epoch is known: the time in
// which a client repeats a question whose answer got lost.
const idleTime = 5 * time.Minute

// maxExpired is how many ids are looked at under one lock, and removed by one batch.
const maxExpired = 500

// alarm is when the next transaction is past its time. It may be early: a transaction that has ended is not taken out.
type alarm struct {
	mu      sync.Mutex // guards at; a leaf
	at      time.Time
	earlier chan struct{} // a token when at has come nearer
}

func (a *alarm) set(at time.Time) {
	a.mu.Lock()
	nearer := a.at.IsZero() || at.Before(a.at)
	if nearer {
		a.at = at
	}
	a.mu.Unlock()
	if nearer {
		signal(a.earlier)
	}
}

func (a *alarm) get() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// clear forgets the time, if it has come.
func (a *alarm) clear(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || a.at.After(now) {
		return false
	}
	a.at = time.Time{}
	return true
}

// watchTime aborts transactions when their time is over, and forgets ids that nobody uses.
func (c *Coordinator) watchTime(ctx context.Context) {
	look := time.NewTicker(c.options.Config.AbortInterval)
	defer look.Stop()
	remove := time.NewTicker(c.options.Config.RemoveInterval)
	defer remove.Stop()
	due := time.NewTimer(c.options.Config.AbortInterval)
	defer due.Stop()
	for {
		select {
		case <-c.alarm.earlier:
		case <-due.C:
		case <-look.C: // what could not be aborted when its time came is tried again
			c.eachShard(func(r *registry) { r.abortOverdue(time.Now()) })
			c.eachShard(func(r *registry) { r.forgetIdle(time.Now()) })
		case <-remove.C:
			c.expire(ctx, time.Now())
		case <-ctx.Done():
			return
		}
		if c.alarm.clear(time.Now()) {
			c.eachShard(func(r *registry) { r.abortOverdue(time.Now()) })
		}
		if at := c.alarm.get(); !at.IsZero() {
			due.Reset(time.Until(at))
		}
	}
}

func (c *Coordinator) eachShard(do func(*registry)) {
	shards, _ := c.runtime.Shards()
	for _, shard := range shards {
		_ = whileServing(shard, do) // one that does not serve any more is another coordinator's
	}
}

// abortOverdue aborts the transactions whose time is over, in place of their producers.
func (r *registry) abortOverdue(now time.Time) {
	for id, e := range r.ids {
		if e.State != Ongoing {
			continue
		}
		if e.deadline.After(now) {
			r.alarm.set(e.deadline)
			continue
		}
		d := r.unused.use(e.Transaction, func(unused int64) Decision { return e.Fence(unused, now.UnixMilli()) })
		if !d.Write { // for want of a producer id, which is being asked for
			continue
		}
		producer := e.Producer
		r.write(id, e, d.Next, func(err error) {
			if err != nil {
				r.options.Logger.Warn("a transaction past its time could not be aborted yet", "transactional_id", id, "err", err)
				return
			}
			r.metrics.timedOut.Inc()
			r.options.Logger.Info("a transaction past its time is aborted", "transactional_id", id,
				"producer_id", producer.ID, "epoch", producer.Epoch)
		})
	}
}

// forgetIdle takes ids out of memory that the view has and nobody has used for a while.
func (r *registry) forgetIdle(now time.Time) {
	for id, e := range r.ids {
		if e.State.idle() && e.committed.Load() >= e.end && now.Sub(e.touched) > idleTime {
			delete(r.ids, id)
		}
	}
}

// expire removes the transactional ids that nobody has used for transactional.id.expiration.ms.
func (c *Coordinator) expire(ctx context.Context, now time.Time) {
	shards, _ := c.runtime.Shards()
	for _, shard := range shards {
		for {
			more, err := c.expireSome(ctx, shard, now)
			if err != nil {
				c.options.Logger.Warn("expired transactional ids could not be removed yet",
					"partition", shard.Partition(), "err", err)
			}
			if err != nil || !more {
				break
			}
		}
	}
}

// expireSome removes a bounded number of expired ids, and waits for that; more tells that there may be others.
func (c *Coordinator) expireSome(ctx context.Context, shard *coordinator.Shard, now time.Time) (more bool, err error) {
	var ids []string
	err = shard.Scan(nil, func(key []byte, found coordinator.Entry) error {
		id, t, err := decode(key, found.Value)
		if err == nil && c.expired(t, now) {
			ids = append(ids, id)
		}
		if len(ids) == maxExpired {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return false, err
	}
	removed := coordinator.NewPromise[error]()
	if err := whileServing(shard, func(r *registry) { r.remove(ids, now, removed.Resolve) }); err != nil {
		return false, nil // the next coordinator will
	}
	select {
	case <-removed.Done():
		return len(ids) == maxExpired, removed.Value()
	case <-ctx.Done():
		return false, nil
	}
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

func (c *Coordinator) expired(t Transaction, now time.Time) bool {
	return t.State.idle() && t.ID != NoProducer.ID && now.Sub(time.UnixMilli(t.UpdatedMs)) >= c.options.Config.Expiration
}

// remove writes tombstones for those of the ids that are expired still, and calls done when they are committed.
func (r *registry) remove(ids []string, now time.Time, done func(error)) {
	var records []coordinator.Record
	expired := map[string]*entry{}
	for _, id := range ids {
		if e, err := r.find(id); err == nil && r.expired(e.Transaction, now) {
			records, expired[id] = append(records, coordinator.Record{Key: encodeKey(id)}), e
		}
	}
	if len(records) == 0 {
		done(nil)
		return
	}
	end, err := r.shard.Append(nil, records...)
	if err != nil {
		done(err)
		return
	}
	for id, e := range expired {
		e.Transaction, e.end = unknown(), end // in memory, until the view has forgotten it too
		r.keep(id, e)
	}
	r.shard.Await(end, func(err error) {
		if err == nil {
			for _, e := range expired {
				e.committed.Store(end)
			}
		}
		done(err)
	})
}

// unusedID is a producer id that is kept ready for an epoch that is the last one of its id, since whoever finds that
// holds a lock.
type unusedID struct {
	mu     sync.Mutex // guards id; a leaf
	id     int64      // −1 for none
	wanted chan struct{}
}

// use has an event decide with the id, if the transaction's own is exhausted, and keeps it if it was not taken.
func (u *unusedID) use(t Transaction, decide func(unused int64) Decision) Decision {
	if !t.exhausted() {
		return decide(NoProducer.ID)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	d := decide(u.id)
	switch {
	case d.Write:
		u.id = NoProducer.ID
	case u.id == NoProducer.ID:
		signal(u.wanted)
	}
	return d
}

// fill gets an id whenever one is wanted, until ctx ends.
func (u *unusedID) fill(ctx context.Context, ids *ProducerIDs, logger *slog.Logger) {
	for {
		select {
		case <-u.wanted:
		case <-ctx.Done():
			return
		}
		id, err := ids.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				logger.Error("no producer id", "err", err) // who wants it asks again
			}
			continue
		}
		u.mu.Lock()
		u.id = id
		u.mu.Unlock()
	}
}
