package classic

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
)

// member is one member of a group.
type member struct {
	id         string
	instanceID *string // of a static member (KIP-345)
	client     machine.Client

	sessionTimeout   time.Duration
	rebalanceTimeout time.Duration
	protocols        []protocol // in the member's order of preference
	assignment       []byte

	isNew    bool           // its first JoinGroup is not answered yet
	join     machine.Waiter // the JoinGroup that waits for the end of a rebalance; 0 if there is none
	sync     machine.Waiter // the SyncGroup that waits for the assignment; 0 if there is none
	unsynced bool           // it has joined the generation and not asked for its assignment yet
	session  time.Time      // when it has been silent for too long; zero while the group owes it an answer
}

// protocol is one way to assign partitions, and what the member has to say to whoever does it that way.
type protocol struct {
	name     string
	metadata []byte
}

// newProtocols copies what a request says, since its bytes are those of the frame. Of two with one name the first
// counts.
func newProtocols(list []kmsg.JoinGroupRequestProtocol) []protocol {
	protocols := make([]protocol, 0, len(list))
	for _, p := range list {
		if !slices.ContainsFunc(protocols, func(known protocol) bool { return known.name == p.Name }) {
			protocols = append(protocols, protocol{name: p.Name, metadata: bytes.Clone(p.Metadata)})
		}
	}
	return protocols
}

// metadata is what the member says to a protocol.
func (m *member) metadata(name *string) []byte {
	for _, p := range m.protocols {
		if name != nil && p.name == *name {
			return p.metadata
		}
	}
	return nil
}

// says tells whether the member has joined with just these protocols.
func (m *member) says(protocols []protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// set takes over what a JoinGroup says of the member, who it is and where it runs included: a static member that has
// moved to another machine joins under its old instance id.
func (m *member) set(j Join) {
	m.client = j.Client
	m.protocols = newProtocols(j.Request.Protocols)
	m.sessionTimeout = milliseconds(j.Request.SessionTimeoutMillis)
	m.rebalanceTimeout = milliseconds(j.Request.RebalanceTimeoutMillis)
	if j.Request.RebalanceTimeoutMillis <= 0 {
		m.rebalanceTimeout = m.sessionTimeout // version 0 has no other, and in no time nobody joins
	}
}

func milliseconds(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
