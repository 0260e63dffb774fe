package consumer

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
)

// classic plays an event of the classic protocol.
func (s *scenario) classic(event string, args arguments) {
	waiter := s.waiter()
	switch event {
	case "classic-join":
		s.classicJoin(waiter, args)
	case "classic-sync":
		s.classicSync(waiter, args)
	case "classic-heartbeat":
		request := kmsg.NewPtrHeartbeatRequest()
		request.MemberID, request.InstanceID = args["member"], args.pointer("instance")
		request.Generation = args.number("generation", int(s.epochOf(request.MemberID)))
		if g, ok := s.group.(*classic.Group); ok {
			request.Generation = args.number("generation", int(g.Generation()))
			s.say("%s", name(g.Heartbeat(s.now, request)))
			return
		}
		step, err := s.group.(*Group).HeartbeatClassic(s.now, waiter, request)
		s.end(waiter, step, err)
	case "classic-leave":
		request := kmsg.NewPtrLeaveGroupRequest()
		request.Version = 3
		request.Members = []kmsg.LeaveGroupRequestMember{{MemberID: args["member"], InstanceID: args.pointer("instance")}}
		if g, ok := s.group.(*classic.Group); ok {
			s.carryOut(g.Leave(s.now, waiter, request))
			return
		}
		s.carryOut(s.group.(*Group).LeaveClassic(s.now, waiter, request))
	default:
		s.t.Fatalf("unknown event %q", event)
	}
}

func (s *scenario) classicJoin(waiter machine.Waiter, args arguments) {
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version, request.MemberID = int16(args.number("version", 5)), args["member"]
	request.InstanceID, request.ProtocolType = args.pointer("instance"), args.get("type", "consumer")
	request.SessionTimeoutMillis = int32(args.duration("session", "30s").Milliseconds())
	request.RebalanceTimeoutMillis = int32(args.duration("rebalance", "1m").Milliseconds())
	for _, protocol := range args.names("protocols") {
		subscription := kmsg.NewConsumerMemberMetadata()
		subscription.Version, subscription.Topics = 1, args.names("topics")
		for _, owned := range parseOwned(args.pointer("owns")) {
			subscription.OwnedPartitions = append(subscription.OwnedPartitions,
				kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topicName(owned.TopicID), Partitions: owned.Partitions})
		}
		request.Protocols = append(request.Protocols, kmsg.JoinGroupRequestProtocol{
			Name: protocol, Metadata: subscription.AppendTo(nil),
		})
	}
	j := classic.Join{
		Waiter: waiter, Request: request, Client: machine.Client{ID: "old", Host: "/h"}, NewID: args.get("id", "new"),
	}
	if args["group"] == "new" {
		s.group = classic.New("g", s.settings.Classic, s.now)
	}
	if g, ok := s.group.(*classic.Group); ok {
		s.carryOut(g.Join(s.now, j))
		return
	}
	step, err := s.group.(*Group).Join(s.now, j)
	s.end(waiter, step, err)
}

func (s *scenario) classicSync(waiter machine.Waiter, args arguments) {
	request := kmsg.NewPtrSyncGroupRequest()
	request.MemberID, request.InstanceID = args["member"], args.pointer("instance")
	if g, ok := s.group.(*classic.Group); ok {
		request.Generation = args.number("generation", int(g.Generation()))
		if assignment := args.pointer("assign"); assignment != nil {
			value := kmsg.NewConsumerMemberAssignment()
			for _, one := range parseOwned(assignment) {
				value.Topics = append(value.Topics, kmsg.ConsumerMemberAssignmentTopic{
					Topic: topicName(one.TopicID), Partitions: one.Partitions,
				})
			}
			request.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{
				MemberID: request.MemberID, MemberAssignment: value.AppendTo(nil),
			}}
		}
		s.carryOut(g.Sync(waiter, request))
		return
	}
	request.Generation = args.number("generation", int(s.epochOf(request.MemberID)))
	step, err := s.group.(*Group).Sync(s.now, waiter, request)
	s.end(waiter, step, err)
}
