package machine

import (
	"time"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/internal/kafka"
)

// Type is the protocol of a group as ListGroups names it.
type Type string

// The types of groups.
const (
	Classic  Type = "classic"
	Consumer Type = "consumer" // KIP-848
)

// Group is the state machine of one group of either protocol, as far as the coordinator treats them alike. What only
// one protocol knows (JoinGroup, ConsumerGroupHeartbeat, the two Describes, ...) are methods of the concrete type. It
// has more methods than an interface should, because a group is asked all of this by one caller.
type Group interface {
	// NextDeadline is when Tick is due: of all sessions, rebalances and delays of the group the first. The coordinator
	// asks after each event.
	NextDeadline() (time.Time, bool)
	// Tick lets everything happen that is due at now.
	Tick(now time.Time) Step
	// CheckCommit tells whether offsets may be committed, and keeps the member's session alive where its protocol says
	// so. The error is a kafka.Errno for the whole request. Members of KIP-848 may commit with an older epoch what was
	// theirs in it: the check that is returned tells for each partition; nil is yes to all. Its error is one for the
	// whole request too.
	CheckCommit(now time.Time, by Committer) (PartitionCheck, error)
	// CheckFetch tells whether a member may read offsets: of the classic protocol everybody may. A nil member id is that
	// of a client outside of the group.
	CheckFetch(memberID *string, memberEpoch int32) error
	// Summary describes the group as it is now.
	Summary() Summary
	// Expiry says which offsets of the group may expire.
	Expiry() Expiry
	// Tombstones remove the group, all but its offsets, from the journal. The coordinator asks an empty group only, and
	// forgets the machine once they are appended.
	Tombstones() []coordinator.Record
}

// PartitionCheck tells whether one partition's offset may be committed. The topic id is zero below OffsetCommit v10.
type PartitionCheck func(topic string, id kafka.TopicID, partition int32) error

// Committer is who commits offsets.
type Committer struct {
	MemberID   string
	InstanceID *string
	// Generation is the generation of a classic member or the epoch of a KIP-848 one; negative: none.
	Generation int32
	// Transactional is set for TxnOffsetCommit, Version is that of OffsetCommit otherwise: error codes depend on both.
	Transactional bool
	Version       int16
}

// Summary is what ListGroups, DeleteGroups and the metrics ask of a group.
type Summary struct {
	Type         Type
	State        string // as Kafka spells it: "Stable", "PreparingRebalance", "Assigning", ...
	ProtocolType string // "consumer", "connect", ...; empty for a group that only stores offsets
	Members      int
	// Empty says that the group has no members: its offsets may be changed from outside, and it may be deleted.
	Empty bool
	// Subscribed tells whether a member reads a topic; nil when that is not known of any topic or the group has no
	// members.
	Subscribed func(topic string) bool
}

// Expiry is from when on the retention of a group's offsets (offsets.retention.minutes) counts.
type Expiry struct {
	// Never keeps all offsets, as while members of a classic group rebalance.
	Never bool
	// Since, if not zero, is when the group became empty; it counts in place of the time of each commit.
	Since time.Time
	// NotBefore, if not zero, is when the group became empty; it counts in place of the times of earlier commits.
	NotBefore time.Time
	// Keep tells the topics whose offsets do not expire: those that members read. May be nil.
	Keep func(topic string) bool
}
