package replica

import (
	"sync"
	"sync/atomic"

	"github.com/firnlog/firn/internal/kafka"
)

// Session is a set of partitions that one client fetches again and again (KIP-227). It knows which of them may have
// something for the client, so that a fetch costs what has changed, and not what is followed: of ten thousand
// partitions nearly all are quiet. The zero value is an empty session.
//
// A subscription stands in the queue from the moment on at which its partition changes, or the client asks for another
// offset, until a fetch has found nothing in it that the client does not know. The queue is also the order in which
// partitions get their share of an answer.
type Session struct {
	waiting atomic.Int32 // fetches under way, for whose sake the disk is asked at once

	mu     sync.Mutex // guards the fields below and those of the subscriptions
	queue  []*Subscription
	served []*Subscription // scratch of Settle
	stale  []*Subscription // scratch of Resolve
	closed bool            // nothing follows a partition any more
}

// Subscription is one partition of a session.
type Subscription struct {
	// Owner is what the client of this package knows the subscription by.
	Owner any

	session *Session
	wanted  FetchPartition
	changes uint64 // of the partition; a look at it that began before the last one may have missed something
	queued  bool
	gone    bool // forgotten, and to be left out of the queue
	place   int  // in the partition's followers, and guarded by their lock
}

// Want adds a subscription, or changes what is wanted of it: offset, epochs and size. Which partition it is Resolve
// finds out. The session may not be in use by another call that changes it.
func (s *Session) Want(sub *Subscription, wanted FetchPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted.Partition, wanted.Err = sub.wanted.Partition, sub.wanted.Err
	if sub.session == nil {
		sub.session, wanted.Err = s, kafka.UnknownTopicOrPartition
	}
	wanted.Subscription = sub
	sub.wanted = wanted
	sub.enqueue()
}

// Resolve finds the partitions of subscriptions that have none, or one that was deleted, as a topic may have been
// created, or deleted and created again, while the session lives. The rule for Want holds here, too.
func (s *Session) Resolve(find func(*Subscription) (*Partition, error)) {
	s.mu.Lock()
	stale := s.stale[:0]
	for _, sub := range s.queue {
		if p := sub.wanted.Partition; !sub.gone && (p == nil || p.state.Load().deleted) {
			stale = append(stale, sub)
		}
	}
	closed := s.closed
	s.mu.Unlock()
	for _, sub := range stale {
		p, err := find(sub)
		sub.unfollow()
		if err == nil && !closed {
			p.followers.add(sub)
		}
		s.mu.Lock()
		sub.wanted.Partition, sub.wanted.Err = p, err
		sub.changes++
		s.mu.Unlock()
	}
	clear(stale)
	s.stale = stale
}

// Forget takes a subscription out of the session.
func (s *Session) Forget(sub *Subscription) {
	sub.unfollow()
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.gone = true
}

// Close says that no partition may be followed any more; the subscriptions are forgotten one by one. A fetch that waits
// meanwhile ends at its deadline.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// pending appends to into what may have something for the client.
func (s *Session) pending(into []FetchPartition) []FetchPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.queue {
		if !sub.gone {
			into = append(into, sub.wanted)
			into[len(into)-1].seen = sub.changes
		}
	}
	return into
}

// Settle takes out of the queue what has nothing more for the client than it was told, and lets what was served stand
// behind the others: with a small max_bytes nobody starves. results are the answers for the partitions of a fetch.
func (s *Session) Settle(partitions []FetchPartition, results []FetchResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range partitions {
		sub := partitions[i].Subscription
		switch {
		case !sub.queued || sub.gone:
		case results[i].Size() > 0:
			sub.queued = false
			s.served = append(s.served, sub)
		case results[i].AtEnd && sub.changes == partitions[i].seen:
			sub.queued = false
		}
	}
	kept := s.queue[:0]
	for _, sub := range s.queue {
		if sub.queued && !sub.gone {
			kept = append(kept, sub)
		}
	}
	clear(s.queue[len(kept):])
	s.queue = kept
	for _, sub := range s.served {
		sub.enqueue()
	}
	clear(s.served)
	s.served = s.served[:0]
}

// enqueue needs the session's lock.
func (sub *Subscription) enqueue() {
	if !sub.queued {
		sub.queued = true
		sub.session.queue = append(sub.session.queue, sub)
	}
}

// mark says that the partition has changed.
func (sub *Subscription) mark() {
	sub.session.mu.Lock()
	defer sub.session.mu.Unlock()
	sub.changes++
	sub.enqueue()
}

func (sub *Subscription) unfollow() {
	if p := sub.wanted.Partition; p != nil {
		p.followers.remove(sub)
	}
}

// followers are the subscriptions to one partition.
type followers struct {
	count atomic.Int32 // a copy for those who only want to know whether there are any

	mu   sync.Mutex // guards the field below; the lock of a session may be taken under it
	list []*Subscription
}

func (f *followers) add(sub *Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sub.place = len(f.list)
	f.list = append(f.list, sub)
	f.count.Store(int32(len(f.list)))
}

func (f *followers) remove(sub *Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sub.place >= len(f.list) || f.list[sub.place] != sub {
		return
	}
	last := len(f.list) - 1
	f.list[sub.place] = f.list[last]
	f.list[sub.place].place = sub.place
	f.list[last] = nil
	f.list = f.list[:last]
	f.count.Store(int32(last))
}

// mark says that the partition has changed, and appends to into the sessions in which a fetch waits for that.
func (f *followers) mark(into []*Session) []*Session {
	if f.count.Load() == 0 {
		return into
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, sub := range f.list {
		sub.mark()
		if sub.session.waiting.Load() > 0 {
			into = append(into, sub.session)
		}
	}
	return into
}

// changed lets everybody who waits for the partition look again. What has changed is visible already.
func (p *Partition) changed() {
	p.manager.waiters.Check(p)
	var few [8]*Session
	for _, session := range p.followers.mark(few[:0]) {
		p.manager.sessions.Check(session)
	}
}

// awaited tells whether somebody waits for what was appended a moment ago. Whoever follows the partition without
// waiting at the moment finds it in the queue, and asks for the flush then.
func (p *Partition) awaited() bool {
	var few [8]*Session
	return len(p.followers.mark(few[:0])) > 0 || p.manager.waiters.Watched(p)
}
