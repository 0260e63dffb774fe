package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// beat sends a heartbeat of the consumer protocol; one of epoch 0 joins and reads topic a.
func (b *bench) beat(group, member string, epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
	b.t.Helper()
	return answered[*kmsg.ConsumerGroupHeartbeatResponse](b, b.sendBeat(group, member, epoch))
}

func (b *bench) sendBeat(group, member string, epoch int32) *Answer {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Version, request.Group, request.MemberID, request.MemberEpoch = 1, group, member, epoch
	if epoch == 0 {
		request.SubscribedTopicNames, request.RebalanceTimeoutMillis = []string{"a"}, 60_000
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return b.coordinator.ConsumerHeartbeat(request, machine.Client{ID: "client", Host: "/host"})
}

func (b *bench) describeConsumers(group string) kmsg.ConsumerGroupDescribeResponseGroup {
	b.t.Helper()
	return answered[*kmsg.ConsumerGroupDescribeResponse](b, b.coordinator.ConsumerDescribe(group)).Groups[0]
}

func (b *bench) expectCode(what string, code int16, want kafka.Errno) {
	b.t.Helper()
	if got := kafka.Errno(code); got != want {
		b.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestAConsumerGroupComesWithItsFirstMemberAndOutlivesTheBroker(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.expectCode("no group", b.beat("g", "m", 2).ErrorCode, kafka.GroupIDNotFound)
		b.expectCode("leaving none", b.beat("g", "m", -1).ErrorCode, kafka.GroupIDNotFound)
		b.expectCode("describing none", b.describeConsumers("g").ErrorCode, kafka.GroupIDNotFound)
		if groups := b.groups(); len(groups) > 0 {
			t.Errorf("groups that nobody has made: %v", groups)
		}
		joined := b.beat("g", "m", 0)
		if joined.ErrorCode != 0 || joined.MemberEpoch != 2 || len(joined.Assignment.Topics[0].Partitions) != 3 {
			t.Fatalf("joined: %+v", joined)
		}
		b.restart()
		b.expectCode("afterwards", b.beat("g", "m", 2).ErrorCode, kafka.None)
		described := b.describeConsumers("g")
		if described.State != "Stable" || len(described.Members) != 1 || described.Members[0].ClientHost != "/host" {
			t.Errorf("described: %+v", described)
		}
		b.expectCode("with a member", int16(b.delete("g")), kafka.NonEmptyGroup)
		time.Sleep(time.Minute) // it is silent for longer than its session
		b.expectCode("too late", b.beat("g", "m", 2).ErrorCode, kafka.UnknownMemberID)
		b.restart()
		if state := b.describeConsumers("g").State; state != "Empty" {
			t.Errorf("the group is %s", state)
		}
		b.expectCode("without members", int16(b.delete("g")), kafka.None)
		b.restart()
		b.expectCode("deleted", b.describeConsumers("g").ErrorCode, kafka.GroupIDNotFound)
	})
}

// What is answered is committed, and what cannot be written has not happened.
func TestAConsumerGroupIsWhatItsJournalSays(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.journal.refused = kafka.NotEnoughReplicas
		b.expectCode("refused", b.beat("g", "m", 0).ErrorCode, kafka.CoordinatorNotAvailable)
		b.journal.refused = nil
		b.expectCode("there is no group", b.beat("g", "m", 2).ErrorCode, kafka.GroupIDNotFound)

		b.journal.hold()
		waiting := b.sendBeat("g", "m", 0)
		select {
		case <-waiting.Done():
			t.Error("it is answered before it is committed")
		case <-time.After(time.Second):
		}
		b.journal.release()
		b.expectCode("committed", answered[*kmsg.ConsumerGroupHeartbeatResponse](b, waiting).ErrorCode, kafka.None)

		b.journal.refused = kafka.NotEnoughReplicas
		b.expectCode("another is refused", b.beat("g", "other", 0).ErrorCode, kafka.CoordinatorNotAvailable)
		b.expectCode("leaving is refused", b.beat("g", "m", -1).ErrorCode, kafka.CoordinatorNotAvailable)
		b.journal.refused = nil
		b.expectCode("it is still there", b.beat("g", "m", 2).ErrorCode, kafka.None)
		if described := b.describeConsumers("g"); len(described.Members) != 1 || described.Epoch != 2 {
			t.Errorf("described: %+v", described)
		}
	})
}

// Members commit in their epoch; who is none may when there are none.
func TestCommitsOfConsumerMembers(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.beat("g", "m", 0)
		request := commitRequest("g", a(0, 5))
		request.MemberID, request.Generation = "m", 2
		b.expectCode("in its epoch", int16(b.commit(request)[0]), kafka.None)
		request = commitRequest("g", a(0, 6))
		request.MemberID, request.Generation = "m", 7
		b.expectCode("in another", int16(b.commit(request)[0]), kafka.StaleMemberEpoch)
		b.expectCode("from outside", int16(b.commit(commitRequest("g", a(0, 7)))[0]), kafka.UnknownMemberID)
		b.beat("g", "m", -1)
		b.expectCode("from outside of an empty group", int16(b.commit(commitRequest("g", a(0, 8)))[0]), kafka.None)
		b.expect("g", a(0, 0), at(8))
	})
}
