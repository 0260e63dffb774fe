package integration

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterGroup sets settings of a group, given as names and values; an empty value takes one back.
func (s *scenario) alterGroup(client *kgo.Client, group string, settings ...string) int16 {
	s.t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceType(32), group
	for i := 0; i < len(settings); i += 2 {
		change := kmsg.IncrementalAlterConfigsRequestResourceConfig{
			Name: settings[i], Op: kmsg.IncrementalAlterConfigOpSet, Value: &settings[i+1],
		}
		if settings[i+1] == "" {
			change.Op, change.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		resource.Configs = append(resource.Configs, change)
	}
	request.Resources = append(request.Resources, resource)
	return try(request.RequestWith(s.context(), client)).orFail(s.t).Resources[0].ErrorCode
}

// heartbeatOf is a heartbeat of the consumer protocol; that of epoch 0 joins.
func heartbeatOf(group, member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Group, request.MemberID, request.MemberEpoch = group, member, epoch
	if epoch == 0 {
		request.SubscribedTopicNames, request.RebalanceTimeoutMillis = []string{"t"}, 60_000
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return request
}

// TestSettingsOfAGroupActWhileItLives: what a group has of its own goes before the broker's settings, for it alone, from
// the next heartbeat on and after a restart; what the broker's bounds do not allow any more is cut down to them.
func TestSettingsOfAGroupActWhileItLives(t *testing.T) {
	bounds := []string{"group.consumer.min.session.timeout.ms=1000", "group.consumer.min.heartbeat.interval.ms=100"}
	run(t, 71, bounds, func(s *scenario) {
		s.createTopic("t", 4, nil)
		client := s.client()
		beat := func(group, member string, epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
			return s.toCoordinator(client, heartbeatOf(group, member, epoch)).(*kmsg.ConsumerGroupHeartbeatResponse)
		}
		expectInterval := func(what string, answer *kmsg.ConsumerGroupHeartbeatResponse, want int32) {
			t.Helper()
			if answer.ErrorCode != 0 || answer.HeartbeatIntervalMillis != want {
				t.Errorf("%s: heartbeats each %d ms, want %d: %+v", what, answer.HeartbeatIntervalMillis, want, answer)
			}
		}
		expectInterval("joined", beat("g", "a", 0), 5000)
		s.wantCode("another's", s.alterGroup(client, "h", "consumer.heartbeat.interval.ms", "300"), nil)
		expectInterval("another's", beat("g", "a", 2), 5000)
		s.wantCode("beyond the bounds", s.alterGroup(client, "g", "consumer.session.timeout.ms", "999"), kerr.InvalidConfig)
		s.wantCode("interval", s.alterGroup(client, "g", "consumer.heartbeat.interval.ms", "300"), nil)
		s.wantCode("session", s.alterGroup(client, "g", "consumer.session.timeout.ms", "2000"), nil)
		expectInterval("altered", beat("g", "a", 2), 300)
		s.sleep(2*time.Second + 100*time.Millisecond)
		s.wantCode("silent for its session", beat("g", "a", 2).ErrorCode, kerr.UnknownMemberID)

		s.restart()
		expectInterval("after a restart", beat("g", "b", 0), 300)
		s.settings[1] = "group.consumer.min.heartbeat.interval.ms=400"
		s.restart()
		expectInterval("below the new bound", beat("g", "c", 0), 400)
		s.wantCode("a session of 2 s with the broker's heartbeats",
			s.alterGroup(client, "g", "consumer.heartbeat.interval.ms", ""), kerr.InvalidConfig)
		s.wantCode("taken back", s.alterGroup(client, "g",
			"consumer.session.timeout.ms", "", "consumer.heartbeat.interval.ms", ""), nil)
		expectInterval("taken back", beat("g", "d", 0), 5000)
	})
}

// TestTheAssignmentIntervalFollowsTheBroker: who joins a group that has been assigned a moment ago waits, for as long as
// group.consumer.assignment.interval.ms says now.
func TestTheAssignmentIntervalFollowsTheBroker(t *testing.T) {
	run(t, 72, nil, func(s *scenario) {
		s.createTopic("t", 4, nil)
		client := s.client()
		assigning := func() bool { return s.describeConsumers("g").State == "Assigning" }
		joins := func(member string) {
			t.Helper()
			answer := s.toCoordinator(client, heartbeatOf("g", member, 0)).(*kmsg.ConsumerGroupHeartbeatResponse)
			s.wantCode(member+" joins", answer.ErrorCode, nil)
		}
		joins("a")
		joins("b")
		if !assigning() {
			t.Error("a second later there would be an assignment, not at once")
		}
		s.sleep(time.Second)
		if assigning() {
			t.Error("there is no assignment after the default of a second")
		}
		broker := func(value *string) {
			t.Helper()
			altered := try(s.admin().AlterBrokerConfigs(s.context(), []kadm.AlterConfig{
				{Name: "group.consumer.assignment.interval.ms", Value: value},
			})).orFail(t)
			must(t, altered[0].Err)
		}
		ten, none := "10000", "0"
		broker(&ten)
		joins("c")
		s.sleep(8 * time.Second)
		if !assigning() {
			t.Error("an assignment comes before the interval that was set is over")
		}
		s.sleep(2 * time.Second)
		if assigning() {
			t.Error("there is no assignment after the interval that was set")
		}
		broker(&none)
		joins("d")
		if assigning() {
			t.Error("without an interval there is an assignment at once")
		}
	})
}
