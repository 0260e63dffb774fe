package coordinator

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/firnlog/firn/internal/kafka"
)

// Shard is one journal that this broker leads, in one leader epoch, with its view, and the lock of what its coordinator
// keeps in memory. What is in memory may be ahead of the view; what is answered never is.
type Shard struct {
	// State is the coordinator's own, to be used with the lock held. Loaded sets it.
	State any

	runtime   *Runtime
	partition int32
	epoch     kafka.LeaderEpoch
	journal   Journal
	view      *view
	logger    *slog.Logger
	previous  *Shard        // of the same partition, which may still be writing the view; nil if there is none
	wake      chan struct{} // a token when there is something to do
	gone      chan struct{} // closed when the leadership is over
	resigned  sync.Once
	ended     chan struct{} // closed when the view is not written any more
	tried     chan struct{} // closed when the first attempt to load has ended, whether the shard serves or not

	status atomic.Int32 // of the statuses below; changed with mu held

	mu sync.Mutex // the coordinator's: see Lock

	waiting  sync.Mutex // guards the fields below; a leaf
	waiters  []waiter   // by the offset they wait for
	reloaded error      // why Reload was called; nil if it was not
}

// waiter waits until the view has applied the journal up to an offset.
type waiter struct {
	end  int64
	done func(error)
}

// What a shard is doing.
const (
	loading  int32 = iota
	serving        // the only one in which anything is appended
	failed         // what has failed is tried again some time later
	draining       // what was appended is still answered
	resigned
)

func newShard(r *Runtime, partition int32, epoch kafka.LeaderEpoch, journal Journal) *Shard {
	return &Shard{
		runtime: r, partition: partition, epoch: epoch, journal: journal,
		view:     newView(r.options.Store, r.topic, partition),
		logger:   r.options.Logger.With("topic", r.options.Topic, "partition", partition, "epoch", epoch),
		previous: r.last[partition],
		wake:     make(chan struct{}, 1),
		gone:     make(chan struct{}),
		ended:    make(chan struct{}),
		tried:    make(chan struct{}),
	}
}

// Partition is the journal's.
func (s *Shard) Partition() int32 { return s.partition }

// Epoch is the leader epoch, which is the coordinator's epoch, too.
func (s *Shard) Epoch() kafka.LeaderEpoch { return s.epoch }

// Lock takes the shard's one lock: requests are judged, and the state in memory is changed, one after the other.
func (s *Shard) Lock() { s.mu.Lock() }

// Unlock gives the lock back.
func (s *Shard) Unlock() { s.mu.Unlock() }

// Serving says why the shard does not serve, or nil. The lock must be held; the answer holds until it is given back.
// Whoever has found a shard asks this after Lock, and may use State then.
func (s *Shard) Serving() error { return s.err() }

func (s *Shard) err() error {
	switch s.status.Load() {
	case serving:
		return nil
	case loading:
		return fmt.Errorf("%s-%d is being loaded: %w", s.runtime.options.Topic, s.partition,
			kafka.CoordinatorLoadInProgress)
	case draining:
		return fmt.Errorf("the broker is about to stop: %w", kafka.CoordinatorNotAvailable)
	}
	return s.notCoordinator()
}

func (s *Shard) notCoordinator() error {
	return fmt.Errorf("%s-%d is not led here: %w", s.runtime.options.Topic, s.partition, kafka.NotCoordinator)
}

// Entry is what the view holds for a key.
type Entry struct {
	Offset int64 // of the record in the journal
	Value  []byte
}

// Get returns the newest committed record of a key; false if there is none.
func (s *Shard) Get(key []byte) (Entry, bool, error) { return s.view.get(key) }

// Scan visits the committed records whose keys begin with prefix, in the order of the keys, until visit returns an
// error. Key and value are valid during the visit only.
func (s *Shard) Scan(prefix []byte, visit func(key []byte, entry Entry) error) error {
	return s.view.scan(prefix, visit)
}

// Staged tells whether an open transaction has a record for the key that is answered already. Whoever wants both asks
// this before Get: a transaction that is committed meanwhile is seen in one of the two.
func (s *Shard) Staged(key []byte) bool { return s.view.staged.has(key) }

// StagedKeys lists the keys that begin with prefix for which an open transaction has a record.
func (s *Shard) StagedKeys(prefix []byte) [][]byte { return s.view.staged.keys(prefix) }

// Append appends one batch to the journal, with the lock held, and returns the offset after it. A producer makes the
// records a part of its transaction, which the view takes over when that is committed. After an error nothing was
// appended, and the state in memory must be as before: NOT_COORDINATOR when the leadership is over,
// COORDINATOR_NOT_AVAILABLE when it cannot be written for now, MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE when the
// records are too large for a batch of the topic.
func (s *Shard) Append(producer *Producer, records ...Record) (end int64, err error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	end, err = s.journal.Append(producer, records)
	if err != nil {
		return 0, appendError(err)
	}
	return end, nil
}

// appendError gives an error of the journal the code that clients of a coordinator know what to do with, as Kafka does.
func appendError(err error) error {
	switch code := kafka.CodeOf(err); code {
	case kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch, kafka.KafkaStorageError:
		return recoded{err, kafka.NotCoordinator}
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAppended,
		kafka.RequestTimedOut:
		return recoded{err, kafka.CoordinatorNotAvailable}
	}
	return err
}

// recoded is an error with another code.
type recoded struct {
	error
	code kafka.Errno
}

func (e recoded) Unwrap() error { return e.code }

// Await calls done once, when everything below end is committed and in the view: what the journal's records say may be
// answered. It is called with the lock held, right after Append has returned end; done is called later, by a goroutine
// that holds no lock, with NOT_COORDINATOR if the leadership ends first. The records may or may not survive then.
func (s *Shard) Await(end int64, done func(error)) {
	s.waiting.Lock()
	at, _ := slices.BinarySearchFunc(s.waiters, end, func(w waiter, end int64) int {
		if w.end <= end { // after those that wait for the same offset
			return -1
		}
		return 1
	})
	s.waiters = slices.Insert(s.waiters, at, waiter{end, done})
	s.waiting.Unlock()
	s.wakeUp()
}

// Reload gives the state in memory up and loads it again from the view, with the lock held: for a coordinator whose
// memory and journal do not agree any more. Who waits by Await is told err.
func (s *Shard) Reload(err error) {
	if s.status.Load() != serving {
		return
	}
	s.setLost(failed)
	s.waiting.Lock()
	s.reloaded = err
	s.waiting.Unlock()
	s.wakeUp()
}

// lose ends serving, if the shard serves.
func (s *Shard) lose(status int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLost(status)
}

// setLost needs the lock. What is draining or resigned does not come back.
func (s *Shard) setLost(status int32) {
	before := s.status.Load()
	if before == resigned || before == draining && status != resigned {
		return
	}
	s.status.Store(status)
	if before == serving {
		s.runtime.options.Lost(s)
		s.State = nil
	}
}

// resign ends the leadership. What waits is answered by the shard's own goroutine, since the caller is in a hurry.
func (s *Shard) resign() { s.resigned.Do(func() { close(s.gone) }) }

func (s *Shard) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it has not begun to look since the last time
	}
}

// takeWaiters takes those that wait for an offset at or below applied.
func (s *Shard) takeWaiters(applied int64) []waiter {
	s.waiting.Lock()
	defer s.waiting.Unlock()
	count := 0
	for count < len(s.waiters) && s.waiters[count].end <= applied {
		count++
	}
	taken := slices.Clone(s.waiters[:count])
	s.waiters = slices.Delete(s.waiters, 0, count)
	return taken
}
