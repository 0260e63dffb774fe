package api

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/replica"
	"github.com/firnlog/firn/internal/kafka"
)

// The epochs of a fetch session that are not counts (KIP-227).
const (
	sessionEpochInitial int32 = 0  // a full request that asks for a new session
	sessionEpochFinal   int32 = -1 // a full request without a session, which ends the one it names
)

// sessionIdle is how long a session must have been unused before any new one may take its place, and how old it must be
// before a larger one may (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS, a constant in Kafka, too).
const sessionIdle = 2 * time.Minute

// fetchPartition is one partition that a client wants, as it last asked for it.
type fetchPartition struct {
	topic            string        // up to v12
	id               kafka.TopicID // from v13 on
	partition        int32
	offset           int64
	maxBytes         int32
	leaderEpoch      kafka.LeaderEpoch
	lastFetchedEpoch kafka.LeaderEpoch
}

// fetch is what the replica manager is asked for, once it is known which partition that is.
func (f *fetchPartition) fetch(p *replica.Partition, err error) replica.FetchPartition {
	return replica.FetchPartition{
		Partition: p, Err: err, Offset: f.offset, MaxBytes: int(f.maxBytes),
		CurrentLeaderEpoch: max(f.leaderEpoch, kafka.NoLeaderEpoch), LastFetchedEpoch: f.lastFetchedEpoch,
	}
}

func (f *fetchPartition) topicPartition() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: f.topic, Partition: f.partition}
}

func (f *fetchPartition) idPartition() kafka.TopicIDPartition {
	return kafka.TopicIDPartition{ID: f.id, Partition: f.partition}
}

func (f *fetchPartition) sameTopic(other *fetchPartition) bool {
	return f.id == other.id && f.topic == other.topic
}

// sessionKey names a partition of a session: by id or by name, whichever the session's requests use.
type sessionKey struct {
	topic     string
	id        kafka.TopicID
	partition int32
}

// sessionEntry is a partition of a session, and what its client was last told.
type sessionEntry struct {
	subscription   replica.Subscription
	wanted         fetchPartition
	topic          string // the name of a topic that is asked for by id, once it was found
	highWatermark  int64
	logStartOffset int64
}

// untold makes the next answer carry the partition, whatever it says.
const untold = -1

// fetchSession remembers what a client fetches, so that its requests and answers carry only what has changed. A nil
// session stands for a request without one.
type fetchSession struct {
	id      int32
	byID    bool
	created time.Time

	mu       sync.Mutex // guards the fields below
	epoch    int32      // of the next request
	lastUsed time.Time
	entries  map[sessionKey]*sessionEntry
	full     bool // the answer being made is to the request that began the session: it carries everything
	// isolation of the last request; where the next one has another, each partition must be looked at again.
	isolation int8

	fetched replica.Session // has a lock of its own, but is changed under this one
}

func (s *fetchSession) lock() {
	if s != nil {
		s.mu.Lock()
	}
}

func (s *fetchSession) unlock() {
	if s != nil {
		s.full = false
		s.mu.Unlock()
	}
}

// changed tells whether the answer has to carry the partition, and remembers what it says. Errors are always carried,
// and again when they are over. The caller holds the lock.
func (s *fetchSession) changed(entry *sessionEntry, result *replica.FetchResult) bool {
	if s == nil {
		return true
	}
	changed := s.full || result.Size() > 0 || result.Err != nil || result.Diverging != nil ||
		entry.highWatermark != result.HighWatermark || entry.logStartOffset != result.LogStartOffset
	entry.highWatermark, entry.logStartOffset = result.HighWatermark, result.LogStartOffset
	if result.Err != nil {
		entry.highWatermark = untold
	}
	return changed
}

// staleID is what to answer where a topic id is not known any more: within a session we know which topic it was, and
// so whether that is gone or was created again (KIP-516). The caller holds the lock.
func (s *fetchSession) staleID(replicas *replica.Manager, entry *sessionEntry, err error) error {
	if s == nil || entry.topic == "" || !errors.Is(err, kafka.UnknownTopicID) {
		return err
	}
	if _, err := replicas.Partition(kafka.TopicPartition{
		Topic: entry.topic, Partition: entry.wanted.partition,
	}); err != nil {
		return err
	}
	return kafka.InconsistentTopicID
}

// update takes over what an incremental request adds, changes and forgets. The caller holds the lock.
func (s *fetchSession) update(request *kmsg.FetchRequest) {
	eachPartition(request, s.put)
	for i := range request.ForgottenTopics {
		topic := &request.ForgottenTopics[i]
		for _, partition := range topic.Partitions {
			key := sessionKey{topic: topic.Topic, id: topic.TopicID, partition: partition}
			if entry, known := s.entries[key]; known {
				s.fetched.Forget(&entry.subscription)
				delete(s.entries, key)
			}
		}
	}
	if s.isolation != request.IsolationLevel {
		s.isolation = request.IsolationLevel
		for _, entry := range s.entries {
			s.put(entry.wanted)
		}
	}
}

func (s *fetchSession) put(wanted fetchPartition) {
	key := sessionKey{topic: wanted.topic, id: wanted.id, partition: wanted.partition}
	entry, known := s.entries[key]
	if !known {
		entry = &sessionEntry{highWatermark: untold, logStartOffset: untold}
		entry.subscription.Owner = entry
		s.entries[key] = entry
	}
	entry.wanted = wanted
	s.fetched.Want(&entry.subscription, wanted.fetch(nil, nil))
}

// close lets go of the partitions. The session is in no cache any more.
func (s *fetchSession) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched.Close()
	for _, entry := range s.entries {
		s.fetched.Forget(&entry.subscription)
	}
}

// eachPartition yields the partitions that a request lists.
func eachPartition(request *kmsg.FetchRequest, visit func(fetchPartition)) {
	for i := range request.Topics {
		topic := &request.Topics[i]
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			visit(fetchPartition{
				topic: topic.Topic, id: topic.TopicID, partition: p.Partition,
				offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes,
				leaderEpoch:      kafka.LeaderEpoch(p.CurrentLeaderEpoch),
				lastFetchedEpoch: kafka.LeaderEpoch(p.LastFetchedEpoch),
			})
		}
	}
}

// sessionCache holds the fetch sessions of all clients, up to a number of slots.
type sessionCache struct {
	slots int

	mu       sync.Mutex // guards the field below; taken before a session's own
	sessions map[int32]*fetchSession
}

func newSessionCache(slots int) *sessionCache {
	return &sessionCache{slots: slots, sessions: map[int32]*fetchSession{}}
}

// begin finds or makes the session of a request, or appends what it wants to wanted if it gets none. Errors are those
// of KIP-227: FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH.
func (c *sessionCache) begin(request *kmsg.FetchRequest, wanted []fetchPartition) (
	*fetchSession, []fetchPartition, error,
) {
	if request.SessionEpoch == sessionEpochInitial || request.SessionEpoch == sessionEpochFinal {
		c.remove(request.SessionID)
		var session *fetchSession
		if request.SessionEpoch == sessionEpochInitial && request.Version >= fetchSessionsFrom {
			session = c.create(request)
		}
		if session == nil {
			eachPartition(request, func(one fetchPartition) { wanted = append(wanted, one) })
			return nil, wanted, nil
		}
		return session, wanted, nil
	}
	c.mu.Lock()
	session, ok := c.sessions[request.SessionID]
	c.mu.Unlock()
	if !ok {
		return nil, wanted, kafka.FetchSessionIDNotFound
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	switch {
	case session.byID != (request.Version >= fetchTopicIDsFrom):
		return nil, wanted, kafka.FetchSessionTopicIDError
	case session.epoch != request.SessionEpoch:
		return nil, wanted, kafka.InvalidFetchSessionEpoch
	}
	session.epoch = nextSessionEpoch(session.epoch)
	session.lastUsed = time.Now()
	session.update(request)
	return session, wanted, nil
}

const fetchSessionsFrom = 7

// nextSessionEpoch wraps to 1, as 0 begins a session.
func nextSessionEpoch(epoch int32) int32 {
	if epoch+1 <= 0 {
		return 1
	}
	return epoch + 1
}

// create makes a session, or returns nil when all slots are in use: the client then sends full requests, and loses
// nothing but some bytes.
func (c *sessionCache) create(request *kmsg.FetchRequest) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(request.Topics) == 0 {
		return nil
	}
	now := time.Now()
	session := &fetchSession{
		byID: request.Version >= fetchTopicIDsFrom, created: now,
		epoch: 1, lastUsed: now, full: true, entries: map[sessionKey]*sessionEntry{},
		isolation: request.IsolationLevel,
	}
	eachPartition(request, session.put)
	if len(c.sessions) >= c.slots && !c.evict(len(session.entries), now) {
		return nil
	}
	session.id = c.freeID()
	c.sessions[session.id] = session
	return session
}

// freeID picks an id at random, so that a client of an earlier run of this broker does not meet a stranger's session.
func (c *sessionCache) freeID() int32 {
	for {
		id := 1 + rand.Int32N(1<<31-1)
		if _, taken := c.sessions[id]; !taken {
			return id
		}
	}
}

// evict makes room for a session of so many partitions: of the session that has been unused for the longest time, if
// it is idle, else of the smallest one that is not new, if it has fewer partitions, since a large session saves more
// (KIP-227). The caller holds the lock.
func (c *sessionCache) evict(partitions int, now time.Time) bool {
	var idlest, smallest *fetchSession
	var lastUsed time.Time
	fewest := partitions
	for _, session := range c.sessions {
		session.mu.Lock()
		used, size := session.lastUsed, len(session.entries)
		session.mu.Unlock()
		if idlest == nil || used.Before(lastUsed) {
			idlest, lastUsed = session, used
		}
		if size < fewest && now.Sub(session.created) > sessionIdle {
			smallest, fewest = session, size
		}
	}
	switch {
	case idlest != nil && now.Sub(lastUsed) > sessionIdle:
		c.end(idlest)
	case smallest != nil:
		c.end(smallest)
	default:
		return false
	}
	return true
}

func (c *sessionCache) remove(id int32) {
	if id == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if session, known := c.sessions[id]; known {
		c.end(session)
	}
}

// end needs the lock.
func (c *sessionCache) end(session *fetchSession) {
	delete(c.sessions, session.id)
	session.close()
}

// Len is the number of sessions.
func (c *sessionCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}
