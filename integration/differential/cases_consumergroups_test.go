//go:build integration

package differential

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// consumerGroupCases are members of the consumer protocol (KIP-848). When exactly a member hears of its assignment is
// the brokers' own business, so what is compared is what a member is told that has arrived.
func consumerGroupCases() []testCase {
	return []testCase{
		{key: wire.KeyConsumerGroupHeartbeat, name: "what is wrong with it", run: askWrongHeartbeats},
		{key: wire.KeyConsumerGroupHeartbeat, name: "a member", run: askMember},
		{key: wire.KeyConsumerGroupHeartbeat, name: "static members", run: askStaticMembers},
		{key: wire.KeyConsumerGroupHeartbeat, name: "expressions", from: 1, run: askExpressions},
		{key: wire.KeyConsumerGroupDescribe, name: "groups", run: askConsumerGroups},
	}
}

// heartbeatOf is a request of a member that says nothing but its epoch.
func heartbeatOf(group, member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, member, epoch
	return req
}

// fullHeartbeat says everything, so that it is told everything.
func fullHeartbeat(group, member string, epoch int32, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	req := heartbeatOf(group, member, epoch)
	req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 60_000, topics
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return req
}

// group is a group of this script whose coordinator serves.
func (s *script) group(name string) string {
	full := s.topic(name)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{full}
	s.poll("group "+full+" has no coordinator", func() bool {
		found := quiet[*kmsg.FindCoordinatorResponse](s, find, 4)
		heartbeat := quiet[*kmsg.ConsumerGroupHeartbeatResponse](s, heartbeatOf(full, "nobody", 7), 1)
		return found.Coordinators[0].ErrorCode == 0 && kafka.Errno(heartbeat.ErrorCode) == kafka.GroupIDNotFound
	})
	return full
}

// arrive has a member heartbeat until it has an assignment, and returns its epoch.
func (s *script) arrive(join *kmsg.ConsumerGroupHeartbeatRequest) int32 {
	request := *join
	s.poll("member "+join.MemberID+" is not assigned anything", func() bool {
		answer := quiet[*kmsg.ConsumerGroupHeartbeatResponse](s, &request, 1)
		if answer.ErrorCode != 0 {
			return false
		}
		request.MemberEpoch = answer.MemberEpoch
		return answer.Assignment != nil && len(answer.Assignment.Topics) > 0
	})
	return request.MemberEpoch
}

func askWrongHeartbeats(s *script) {
	topic, group := s.filled(), s.group("g")
	text := func(text string) *string { return &text }
	ask := func(step string, change func(req *kmsg.ConsumerGroupHeartbeatRequest)) {
		req := fullHeartbeat(group, "m", 0, topic)
		change(req)
		s.ask(step, req)
	}
	type request = kmsg.ConsumerGroupHeartbeatRequest
	ask("no group", func(req *request) { req.Group = "" })
	ask("an empty instance", func(req *request) { req.InstanceID = text("") })
	ask("an empty rack", func(req *request) { req.RackID = text("") })
	ask("no member that has joined", func(req *request) { req.MemberID, req.MemberEpoch = "", 1 })
	ask("no member that leaves", func(req *request) { req.MemberID, req.MemberEpoch = "", -1 })
	ask("joining without a timeout", func(req *request) { req.RebalanceTimeoutMillis = -1 })
	ask("joining without saying what it has", func(req *request) { req.Topics = nil })
	ask("joining with partitions", func(req *request) {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: s.id(topic), Partitions: []int32{0}}}
	})
	ask("joining without a subscription", func(req *request) { req.SubscribedTopicNames = nil })
	ask("epoch -3", func(req *request) { req.MemberEpoch = -3 })
	ask("leaving for a while without an instance", func(req *request) { req.MemberEpoch = -2 })
	ask("an assignor that does not exist", func(req *request) { req.ServerAssignor = text("sticky") })
	ask("a group that does not exist", func(req *request) { req.MemberEpoch = 1 })
	ask("leaving a group that does not exist", func(req *request) { req.MemberEpoch = -1 })
}

func askMember(s *script) {
	topic, group := s.filled(), s.group("g")
	epoch := s.arrive(fullHeartbeat(group, "m", 0, topic))
	s.ask("with everything", fullHeartbeat(group, "m", epoch, topic))
	s.ask("with nothing", heartbeatOf(group, "m", epoch))
	s.ask("joining again", fullHeartbeat(group, "m", 0, topic))
	s.ask("an epoch too high", heartbeatOf(group, "m", epoch+5))
	s.ask("an unknown member", heartbeatOf(group, "n", epoch))
	s.ask("an unknown member leaves", heartbeatOf(group, "n", -1))
	s.ask("leaving", heartbeatOf(group, "m", -1))
	s.ask("leaving again", heartbeatOf(group, "m", -1))
	s.ask("after leaving", heartbeatOf(group, "m", epoch))
}

func askStaticMembers(s *script) {
	topic, group, instance := s.filled(), s.group("g"), "i"
	static := func(req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatRequest {
		req.InstanceID = &instance
		return req
	}
	epoch := s.arrive(static(fullHeartbeat(group, "m", 0, topic)))
	s.ask("another one of the instance", static(fullHeartbeat(group, "n", 0, topic)))
	s.ask("another one in its epoch", static(heartbeatOf(group, "n", epoch)))
	s.ask("another one leaves", static(heartbeatOf(group, "n", -1)))
	s.ask("leaving for a while", static(heartbeatOf(group, "m", -2)))
	s.ask("coming back as another", static(fullHeartbeat(group, "n", 0, topic)))
	s.ask("the one before", static(heartbeatOf(group, "m", epoch)))
	s.ask("leaving for good", static(heartbeatOf(group, "n", -1)))
	s.ask("an unknown instance", static(heartbeatOf(group, "n", epoch)))
}

func askExpressions(s *script) {
	topic, group := s.filled(), s.group("g")
	epoch := s.arrive(fullHeartbeat(group, "m", 0, topic))
	for _, regex := range []string{"foo(", "a)(b", "[a", "*"} {
		req := fullHeartbeat(group, "m", epoch, topic)
		req.SubscribedTopicRegex = &regex
		s.ask("no expression: "+regex, req)
	}
	s.ask("the member after that", fullHeartbeat(group, "m", epoch, topic))
	regex := topic[:len(topic)-1] + "."
	join := fullHeartbeat(s.topic("h"), "n", 0)
	join.SubscribedTopicNames, join.SubscribedTopicRegex = nil, &regex
	joined := s.arrive(join)
	full := *join
	full.MemberEpoch = joined
	answer := quiet[*kmsg.ConsumerGroupHeartbeatResponse](s, &full, 1)
	s.steps = append(s.steps, newStep("what it matches", outcome{response: &kmsg.ConsumerGroupHeartbeatResponse{
		ErrorCode: answer.ErrorCode, Assignment: answer.Assignment,
	}}))
}

func askConsumerGroups(s *script) {
	topic, group := s.filled(), s.group("g")
	describe := func(step string, operations bool, groups ...string) {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups, req.IncludeAuthorizedOperations = groups, operations
		s.ask(step, req)
	}
	describe("none", false)
	describe("one that does not exist", false, group)
	describe("an empty name", false, "")
	s.arrive(fullHeartbeat(group, "m", 0, topic))
	describe("with a member", false, group)
	describe("with its operations", true, group)
	quiet[*kmsg.ConsumerGroupHeartbeatResponse](s, heartbeatOf(group, "m", -1), 1)
	describe("without members", false, group)
}
