package consumer

import (
	"iter"
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/assignor"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// Settings bound the groups of a broker.
type Settings struct {
	MaxSize   int       // group.consumer.max.size, in members
	Assignors []string  // group.consumer.assignors: the first is for members that name none
	Migration Migration // group.consumer.migration.policy
	// Classic are those that hold once a group has become one of the classic protocol.
	Classic classic.Settings
}

// Intervals are settings that a group may have of its own, and that may change while it lives. Without its own they are
// the broker's group.consumer.*.
type Intervals struct {
	Session    time.Duration // consumer.session.timeout.ms: how long a member may be silent
	Heartbeat  time.Duration // consumer.heartbeat.interval.ms: what members are told
	Assignment time.Duration // consumer.assignment.interval.ms: at least between two target assignments
}

// Cluster is what a group asks of its surroundings, at each event anew.
type Cluster struct {
	Topics    func() Topics
	Intervals func(group string) Intervals
}

// Topics is what the cluster's metadata says of topics at one moment. Two of them are compared with ==: equal ones must
// say the same.
type Topics interface {
	Named(name string) (Topic, bool)
	WithID(id kafka.TopicID) (Topic, bool)
	Names() iter.Seq[string]
}

// Topic is a topic as far as groups are concerned.
type Topic struct {
	ID         kafka.TopicID
	Name       string
	Partitions int32
}

// Group is one group. Its members are values that are replaced, never changed.
type Group struct {
	id       string
	settings Settings
	cluster  Cluster

	// What records say.
	epoch        int32 // grows with each change that asks for a new target
	metadataHash int64 // of the topics that the group reads, as they were in this epoch
	members      map[string]*member
	targetEpoch  int32 // the epoch for which the target was computed
	targetAt     int64 // and when, in Unix milliseconds; of a group without members: when the last one went
	target       map[string]assignor.Assignment
	expressions  map[string]*expression

	// What follows from it.
	static map[string]string // member id by instance id
	owners map[kafka.TopicIDPartition]string
	names  map[string]int // how many members name a topic
	regexs map[string]int // how many members subscribe to a regular expression

	// What is forgotten with the process.
	timers     map[string]*timers
	next       time.Time // no deadline is before; zero if there is none
	hashed     Topics    // what metadataHash was last compared with
	resolved   Topics    // what expressions were last resolved with
	resolvedAt time.Time
}

// timers are the deadlines of a member; zero: it has none of that kind.
type timers struct {
	session   time.Time
	rebalance time.Time // for giving up partitions
	join      time.Time // of a classic member: for joining again in a rebalance
	sync      time.Time // of a classic member: for asking for its assignment
}

var _ machine.Group = (*Group)(nil)

// New makes a group without members that nobody has heard of yet.
func New(id string, settings Settings, cluster Cluster) *Group {
	return &Group{
		id: id, settings: settings, cluster: cluster,
		members: map[string]*member{}, target: map[string]assignor.Assignment{}, expressions: map[string]*expression{},
		static: map[string]string{}, owners: map[kafka.TopicIDPartition]string{}, names: map[string]int{},
		regexs: map[string]int{}, timers: map[string]*timers{},
	}
}

func (g *Group) topics() Topics { return g.cluster.Topics() }

func (g *Group) intervals() Intervals { return g.cluster.Intervals(g.id) }

// Epoch is the group's epoch, 0 before its first member.
func (g *Group) Epoch() int32 { return g.epoch }

// Summary describes the group as it is now.
func (g *Group) Summary() machine.Summary {
	return machine.Summary{
		Type: machine.Consumer, State: g.state(), ProtocolType: consumerProtocolType,
		Members: len(g.members), Empty: len(g.members) == 0, Subscribed: g.subscribed(),
	}
}

// state is what the group is doing, as Kafka spells it.
func (g *Group) state() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case g.epoch > g.targetEpoch:
		return "Assigning"
	}
	for _, m := range g.members {
		if !m.reconciledTo(g.targetEpoch) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// subscribed tells of a topic whether a member reads it.
func (g *Group) subscribed() func(topic string) bool {
	if len(g.members) == 0 {
		return nil
	}
	return func(topic string) bool {
		if g.names[topic] > 0 {
			return true
		}
		for regex := range g.regexs {
			if e, ok := g.expressions[regex]; ok && e.matches(topic) {
				return true
			}
		}
		return false
	}
}

// Expiry keeps the offsets of topics that members read. Of others the time of the commit counts, as in Kafka, but not
// one at which the group still had members.
func (g *Group) Expiry() machine.Expiry {
	if len(g.members) == 0 {
		return machine.Expiry{NotBefore: time.UnixMilli(g.targetAt)}
	}
	return machine.Expiry{Keep: g.subscribed()}
}

// CheckCommit tells whether offsets may be committed: by a member in its epoch, or from outside into a group without
// members. A member that does not know yet that its epoch has grown may commit what has been its own since the epoch it
// knows (KIP-1251).
func (g *Group) CheckCommit(_ time.Time, by machine.Committer) (machine.PartitionCheck, error) {
	if by.Generation < 0 && len(g.members) == 0 {
		return nil, nil
	}
	m, err := g.member(by.MemberID)
	switch {
	case err != nil:
		return nil, err
	case m.classic() && by.Generation != m.epoch:
		return nil, kafka.IllegalGeneration
	case m.classic():
		return nil, nil
	case !by.Transactional && by.Version < memberEpochVersion:
		return nil, kafka.UnsupportedVersion
	case by.Generation == m.epoch:
		return nil, nil
	case by.Generation > m.epoch || by.Generation < 0:
		return nil, kafka.StaleMemberEpoch
	}
	return g.sinceEpoch(m, by.Generation), nil
}

// memberEpochVersion is the first version of OffsetCommit in which members of this protocol may commit.
const memberEpochVersion = 9

// sinceEpoch lets pass what a member has had since an epoch.
func (g *Group) sinceEpoch(m *member, epoch int32) machine.PartitionCheck {
	topics := g.topics()
	return func(topic string, id kafka.TopicID, partition int32) error {
		if id.IsZero() {
			named, ok := topics.Named(topic)
			if !ok {
				return kafka.StaleMemberEpoch
			}
			id = named.ID
		}
		since, ok := m.assigned[id][partition]
		if !ok {
			since, ok = m.revoking[id][partition]
		}
		if !ok || epoch < since {
			return kafka.StaleMemberEpoch
		}
		return nil
	}
}

// CheckFetch tells whether offsets may be read: by a member in its epoch, and by everybody who is none.
func (g *Group) CheckFetch(memberID *string, memberEpoch int32) error {
	if memberID == nil && memberEpoch < 0 {
		return nil
	}
	var id string
	if memberID != nil {
		id = *memberID
	}
	m, err := g.member(id)
	switch {
	case err != nil:
		return err
	case m.epoch == memberEpoch:
		return nil
	case m.classic():
		return kafka.IllegalGeneration
	}
	return kafka.StaleMemberEpoch
}

// Tombstones remove the group from the journal, its members included.
func (g *Group) Tombstones() []coordinator.Record {
	c := &change{Group: g}
	memberIDs := sortedKeys(g.members)
	for _, kind := range []records.Kind{records.ConsumerCurrentMember, records.ConsumerTargetMember} {
		for _, id := range memberIDs {
			c.write(g.memberKey(kind, id), nil)
		}
	}
	c.write(g.key(records.ConsumerTarget), nil)
	for _, id := range memberIDs {
		c.write(g.memberKey(records.ConsumerMember, id), nil)
	}
	for _, regex := range sortedKeys(g.expressions) {
		c.write(g.regexKey(regex), nil)
	}
	c.write(g.key(records.ConsumerMetadata), nil)
	return c.records
}
