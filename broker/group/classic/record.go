package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/invariant"
)

// valueVersion is that of the records that Kafka 4.4 writes.
const valueVersion = 3

// Load makes a group of its record. Each member begins a new session: how long it has been silent nobody knows.
func Load(id string, settings Settings, record *kmsg.GroupMetadataValue, now time.Time) *Group {
	g := New(id, settings, now)
	g.protocolType, g.protocol = record.ProtocolType, record.Protocol
	g.generation, g.stateSince = record.Generation, record.CurrentStateTimestamp
	for i := range record.Members {
		m := loadMember(&record.Members[i], record.Protocol)
		g.add(m)
		g.state = Stable
		g.expect(m, now.Add(m.sessionTimeout))
	}
	if record.Leader != nil {
		g.leader = *record.Leader
	}
	g.topics = g.subscription()
	if len(g.members) > settings.MaxSize { // it was lowered: those that join last are turned away
		var nobodyWaits machine.Step
		g.prepare(now, &nobodyWaits, machine.Rebalance{Cause: "the group is larger than it may be"})
	}
	return g
}

func loadMember(record *kmsg.GroupMetadataValueMember, chosen *string) *member {
	m := &member{
		id: record.MemberID, instanceID: record.InstanceID, assignment: record.Assignment,
		client:           machine.Client{ID: record.ClientID, Host: record.ClientHost},
		sessionTimeout:   milliseconds(record.SessionTimeoutMillis),
		rebalanceTimeout: milliseconds(record.RebalanceTimeoutMillis),
	}
	if record.RebalanceTimeoutMillis <= 0 {
		m.rebalanceTimeout = m.sessionTimeout
	}
	if chosen != nil { // what it said to other protocols is not recorded
		m.protocols = []protocol{{name: *chosen, metadata: record.Subscription}}
	}
	return m
}

// write makes the step append the group's record, with its members' assignments or those that are given. durable is
// told the outcome; it may be nil.
func (g *Group) write(step *machine.Step, assignments map[string][]byte,
	durable func(now time.Time, err error) machine.Step,
) {
	invariant.Check(len(step.Records) == 0, "group %s writes two records in one step", g.id)
	value := g.record(assignments)
	step.Records = []coordinator.Record{{Key: g.key(), Value: value.AppendTo(nil)}}
	step.Durable = durable
}

func (g *Group) key() []byte {
	return records.Key{Kind: records.GroupMetadata, Group: g.id}.Encode()
}

func (g *Group) record(assignments map[string][]byte) kmsg.GroupMetadataValue {
	record := kmsg.NewGroupMetadataValue()
	record.Version = valueVersion
	record.ProtocolType, record.Protocol = g.protocolType, g.protocol
	record.Generation, record.CurrentStateTimestamp = g.generation, g.stateSince
	if g.leader != "" {
		record.Leader = &g.leader
	}
	record.Members = make([]kmsg.GroupMetadataValueMember, len(g.members))
	for i, m := range g.members {
		assignment := m.assignment
		if assignments != nil {
			assignment = assignments[m.id]
		}
		record.Members[i] = kmsg.GroupMetadataValueMember{
			MemberID: m.id, InstanceID: m.instanceID, ClientID: m.client.ID, ClientHost: m.client.Host,
			RebalanceTimeoutMillis: int32(m.rebalanceTimeout.Milliseconds()),
			SessionTimeoutMillis:   int32(m.sessionTimeout.Milliseconds()),
			Subscription:           m.metadata(g.protocol), Assignment: assignment,
		}
	}
	return record
}
