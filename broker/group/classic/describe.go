package classic

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe is what DescribeGroups answers. What the members say to the protocol is told of a stable group only: before,
// the protocol may still change.
func (g *Group) Describe() kmsg.DescribeGroupsResponseGroup {
	description := kmsg.NewDescribeGroupsResponseGroup()
	description.Group, description.State, description.ProtocolType = g.id, string(g.state), g.protocolType
	stable := g.state == Stable
	if stable {
		description.Protocol = *g.protocol
	}
	description.Members = make([]kmsg.DescribeGroupsResponseGroupMember, len(g.members))
	for i, m := range g.members {
		description.Members[i] = kmsg.DescribeGroupsResponseGroupMember{
			MemberID: m.id, InstanceID: m.instanceID, ClientID: m.client.ID, ClientHost: m.client.Host,
			MemberAssignment: m.assignment,
		}
		if stable {
			description.Members[i].ProtocolMetadata = m.metadata(g.protocol)
		}
	}
	return description
}
