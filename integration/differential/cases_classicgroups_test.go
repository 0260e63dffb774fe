//go:build integration

package differential

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// classicGroupCases are about groups of the classic protocol.
func classicGroupCases() []testCase {
	return []testCase{
		{key: wire.KeyJoinGroup, name: "who may join", run: askJoins},
		{key: wire.KeyJoinGroup, name: "a member that joins again", run: askJoinsAgain},
		{key: wire.KeyJoinGroup, name: "static members", from: 5, run: askStaticJoins},
		{key: wire.KeySyncGroup, name: "assignments", run: askSyncs},
		{key: wire.KeyHeartbeat, name: "members", run: askHeartbeats},
		{key: wire.KeyLeaveGroup, name: "members", run: askLeaves},
		{key: wire.KeyLeaveGroup, name: "static members", from: 3, run: askStaticLeaves},
		{key: wire.KeyDescribeGroups, name: "a classic group in each state", run: askDescribesClassic},
	}
}

// joining is what most members say. A version below 4 lets a member in that has no id.
func (s *script) joining(group, memberID string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = s.topic(group), memberID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	for _, name := range []string{"range", "sticky"} {
		metadata := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}}
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata.AppendTo(nil)})
	}
	return req
}

func syncing(joined *kmsg.JoinGroupResponse, group string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, joined.MemberID, joined.Generation
	protocolType, protocol := "consumer", "range"
	req.ProtocolType, req.Protocol = &protocolType, &protocol
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{
		{MemberID: joined.MemberID, MemberAssignment: []byte("all")}, {MemberID: "nobody", MemberAssignment: []byte("x")},
	}
	return req
}

// join makes a group of a static member, which has no assignment yet.
func (s *script) join(req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	s.group("g") // its coordinator serves
	return quiet[*kmsg.JoinGroupResponse](s, req, 5)
}

// member makes a group with one member, which has its assignment.
func (s *script) member() *kmsg.JoinGroupResponse {
	s.group("g")
	joined := quiet[*kmsg.JoinGroupResponse](s, s.joining("g", ""), 2)
	s.sync(joined)
	return joined
}

// sync gives a member its assignment, as a part of the preparations.
func (s *script) sync(joined *kmsg.JoinGroupResponse) {
	quiet[*kmsg.SyncGroupResponse](s, syncing(joined, s.topic("g")), 3)
}

func askJoins(s *script) {
	s.member()
	ask := func(step string, change func(req *kmsg.JoinGroupRequest)) {
		req := s.joining("other", "")
		s.group("other")
		change(req)
		s.ask(step, req)
	}
	ask("no group id", func(req *kmsg.JoinGroupRequest) { req.Group = "" })
	ask("a short session", func(req *kmsg.JoinGroupRequest) { req.SessionTimeoutMillis = 5999 })
	ask("a long session", func(req *kmsg.JoinGroupRequest) { req.SessionTimeoutMillis = 1_800_001 })
	ask("no protocols", func(req *kmsg.JoinGroupRequest) { req.Protocols = nil })
	ask("no protocol type", func(req *kmsg.JoinGroupRequest) { req.ProtocolType = "" })
	ask("an unknown member", func(req *kmsg.JoinGroupRequest) { req.MemberID = "m" })
	ask("a new member", func(*kmsg.JoinGroupRequest) {})
	s.ask("an unknown member of a group", s.joining("g", "m"))
	other := s.joining("g", "")
	other.ProtocolType = "connect"
	s.ask("another protocol type", other)
	other = s.joining("g", "")
	other.Protocols = other.Protocols[:1]
	other.Protocols[0].Name = "none"
	s.ask("no protocol of the others", other)
}

func askJoinsAgain(s *script) {
	s.group("g")
	told := s.ask("without an id", s.joining("g", "")).(*kmsg.JoinGroupResponse)
	joined := s.ask("with what it was told", s.joining("g", told.MemberID)).(*kmsg.JoinGroupResponse)
	s.ask("before it has synced", s.joining("g", joined.MemberID))
	s.sync(joined)
	s.ask("the leader", s.joining("g", joined.MemberID))
	changed := s.joining("g", joined.MemberID)
	changed.Protocols = changed.Protocols[1:]
	s.ask("with another protocol", changed)
}

func (s *script) joiningStatic(group, instanceID, memberID string) *kmsg.JoinGroupRequest {
	req := s.joining(group, memberID)
	req.InstanceID = &instanceID
	return req
}

func askStaticJoins(s *script) {
	s.group("g")
	joined := s.ask("the first", s.joiningStatic("g", "x", "")).(*kmsg.JoinGroupResponse)
	s.sync(joined)
	again := s.ask("it comes back", s.joiningStatic("g", "x", "")).(*kmsg.JoinGroupResponse)
	s.ask("it as it was", s.joiningStatic("g", "x", joined.MemberID))
	s.ask("it under another name", s.joiningStatic("g", "y", again.MemberID))
	s.ask("it without a name", s.joining("g", joined.MemberID))
	changed := s.joiningStatic("g", "x", "")
	changed.Protocols[0], changed.Protocols[1] = changed.Protocols[1], changed.Protocols[0]
	s.ask("it prefers another protocol", changed)
	s.ask("before it has synced", s.joiningStatic("g", "x", ""))
}

func askSyncs(s *script) {
	s.group("g")
	joined := quiet[*kmsg.JoinGroupResponse](s, s.joining("g", ""), 2)
	ask := func(step string, change func(req *kmsg.SyncGroupRequest)) {
		req := syncing(joined, s.topic("g"))
		change(req)
		s.ask(step, req)
	}
	ask("no group id", func(req *kmsg.SyncGroupRequest) { req.Group = "" })
	ask("an unknown group", func(req *kmsg.SyncGroupRequest) { req.Group = s.topic("none") })
	ask("an unknown member", func(req *kmsg.SyncGroupRequest) { req.MemberID = "m" })
	ask("another generation", func(req *kmsg.SyncGroupRequest) { req.Generation++ })
	ask("no protocol", func(req *kmsg.SyncGroupRequest) { req.Protocol = nil })
	ask("another protocol", func(req *kmsg.SyncGroupRequest) { req.Protocol = new("sticky") })
	ask("another protocol type", func(req *kmsg.SyncGroupRequest) { req.ProtocolType = new("connect") })
	ask("an unknown instance", func(req *kmsg.SyncGroupRequest) { req.InstanceID = new("x") })
	ask("the leader", func(*kmsg.SyncGroupRequest) {})
	ask("the leader again", func(req *kmsg.SyncGroupRequest) { req.GroupAssignment = nil })
}

func askHeartbeats(s *script) {
	joined := s.member()
	ask := func(step string, change func(req *kmsg.HeartbeatRequest)) {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = s.topic("g"), joined.MemberID, joined.Generation
		change(req)
		s.ask(step, req)
	}
	ask("no group id", func(req *kmsg.HeartbeatRequest) { req.Group = "" })
	ask("an unknown group", func(req *kmsg.HeartbeatRequest) { req.Group = s.topic("none") })
	ask("an unknown member", func(req *kmsg.HeartbeatRequest) { req.MemberID = "m" })
	ask("another generation", func(req *kmsg.HeartbeatRequest) { req.Generation++ })
	ask("an unknown instance", func(req *kmsg.HeartbeatRequest) { req.InstanceID = new("x") })
	ask("a member", func(*kmsg.HeartbeatRequest) {})
}

func askLeaves(s *script) {
	joined := s.member()
	ask := func(step string, group string, ids ...string) {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = group, ids[0]
		for _, id := range ids {
			req.Members = append(req.Members, kmsg.LeaveGroupRequestMember{MemberID: id})
		}
		s.ask(step, req)
	}
	ask("no group id", "", joined.MemberID)
	ask("an unknown group", s.topic("none"), joined.MemberID)
	ask("an unknown member", s.topic("g"), "m")
	ask("nobody", s.topic("g"), "")
	ask("a member and another", s.topic("g"), joined.MemberID, "m")
	ask("it again", s.topic("g"), joined.MemberID)
}

func askStaticLeaves(s *script) {
	joined := s.join(s.joiningStatic("g", "x", ""))
	ask := func(step, id, instanceID string) {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = s.topic("g")
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: id, InstanceID: &instanceID}}
		s.ask(step, req)
	}
	ask("an unknown instance", "", "y")
	ask("a member by another name", joined.MemberID, "y")
	ask("another member by its name", "m", "x")
	ask("a member by its name", "", "x")
	ask("it again", "", "x")
}

func askDescribesClassic(s *script) {
	describe := func(step string, groups ...string) {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.IncludeAuthorizedOperations = true
		for _, group := range groups {
			req.Groups = append(req.Groups, s.topic(group))
		}
		s.ask(step, req)
	}
	s.group("g")
	joined := quiet[*kmsg.JoinGroupResponse](s, s.joining("g", ""), 2)
	describe("completing a rebalance", "g")
	s.sync(joined)
	describe("stable, and one that is not there", "g", "none")
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = s.topic("g"), joined.MemberID
	quiet[*kmsg.LeaveGroupResponse](s, leave, 2)
	describe("empty", "g")
}
