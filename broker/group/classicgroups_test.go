package group

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// joining is a JoinGroup of the newest version.
func joining(group, memberID string) *kmsg.JoinGroupRequest {
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version, request.Group, request.MemberID, request.ProtocolType = 9, group, memberID, "consumer"
	request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = 10_000, 60_000
	metadata := kmsg.ConsumerMemberMetadata{Topics: []string{"a"}}
	request.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata.AppendTo(nil)}}
	return request
}

// joiningStatic is a JoinGroup of a static member that does not know its id.
func joiningStatic(group, instanceID string) *kmsg.JoinGroupRequest {
	request := joining(group, "")
	request.InstanceID = &instanceID
	return request
}

func (b *bench) sendJoin(request *kmsg.JoinGroupRequest) *Answer {
	return b.coordinator.Join(request, machine.Client{ID: "c", Host: "/h"})
}

// member joins a group that has nobody else who would have to join again, and is assigned something.
func (b *bench) member(group string) *kmsg.JoinGroupResponse {
	b.t.Helper()
	told := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining(group, "")))
	if code := kafka.Errno(told.ErrorCode); code != kafka.MemberIDRequired {
		b.t.Fatalf("a new member is answered %v", code)
	}
	return b.settle(group, b.sendJoin(joining(group, told.MemberID)))
}

// settle waits for the end of a first rebalance, and assigns as its leader.
func (b *bench) settle(group string, answer *Answer) *kmsg.JoinGroupResponse {
	b.t.Helper()
	time.Sleep(3 * time.Second)
	joined := answered[*kmsg.JoinGroupResponse](b, answer)
	if joined.ErrorCode != 0 || joined.LeaderID != joined.MemberID {
		b.t.Fatalf("it joined as %+v", joined)
	}
	if code := b.sync(group, joined); code != kafka.None {
		b.t.Fatalf("the leader syncs: %v", code)
	}
	return joined
}

func syncing(group string, joined *kmsg.JoinGroupResponse) *kmsg.SyncGroupRequest {
	request := kmsg.NewPtrSyncGroupRequest()
	request.Version, request.Group, request.MemberID, request.Generation = 5, group, joined.MemberID, joined.Generation
	request.ProtocolType, request.Protocol = joined.ProtocolType, joined.Protocol
	request.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{
		MemberID: joined.MemberID, MemberAssignment: []byte("all"),
	}}
	return request
}

func (b *bench) sync(group string, joined *kmsg.JoinGroupResponse) kafka.Errno {
	b.t.Helper()
	response := answered[*kmsg.SyncGroupResponse](b, b.coordinator.Sync(syncing(group, joined)))
	if response.ErrorCode == 0 && string(response.MemberAssignment) != "all" {
		b.t.Errorf("it is assigned %q", response.MemberAssignment)
	}
	return kafka.Errno(response.ErrorCode)
}

func (b *bench) heartbeat(group string, joined *kmsg.JoinGroupResponse) kafka.Errno {
	b.t.Helper()
	request := kmsg.NewPtrHeartbeatRequest()
	request.Group, request.MemberID, request.Generation = group, joined.MemberID, joined.Generation
	return kafka.Errno(answered[*kmsg.HeartbeatResponse](b, b.coordinator.Heartbeat(request)).ErrorCode)
}

func leaving(group, memberID string) *kmsg.LeaveGroupRequest {
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Version, request.Group = 5, group
	request.Members = []kmsg.LeaveGroupRequestMember{{MemberID: memberID}}
	return request
}

// leave returns the code of the whole request or, if that is none, the member's.
func (b *bench) leave(group, memberID string) kafka.Errno {
	b.t.Helper()
	response := answered[*kmsg.LeaveGroupResponse](b, b.coordinator.Leave(leaving(group, memberID)))
	if response.ErrorCode != 0 {
		return kafka.Errno(response.ErrorCode)
	}
	return kafka.Errno(response.Members[0].ErrorCode)
}

// inMemory is how many groups and waiting requests there are in memory.
func (b *bench) inMemory() (groups, waiting int) {
	shards, _ := b.coordinator.runtime.Shards()
	shards[0].Lock()
	defer shards[0].Unlock()
	r := shards[0].State.(*registry)
	return len(r.slots), len(r.waiting)
}

func TestGR01FirstJoinsThatNobodyFollowsUpAreForgotten(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range 5000 {
			request := joining(fmt.Sprintf("g%d", i%50), "")
			told := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(request))
			if kafka.Errno(told.ErrorCode) != kafka.MemberIDRequired || told.MemberID == "" {
				t.Fatalf("a new member is answered %+v", told)
			}
		}
		for i := range 500 {
			request := joining(fmt.Sprintf("old%d", i%50), "")
			request.Version = 3
			b.sendJoin(request)
		}
		if groups, waiting := b.inMemory(); groups != 100 || waiting != 500 {
			t.Errorf("of %d groups %d requests wait", groups, waiting)
		}
		time.Sleep(2 * time.Minute)
		if groups, waiting := b.inMemory(); groups != 0 || waiting != 0 {
			t.Errorf("%d groups are kept, and %d requests wait", groups, waiting)
		}
	})
}

func TestGR04AGroupThatAllHaveLeftUnseenIsEmpty(t *testing.T) {
	inBubble(t, func(b *bench) {
		joined := b.member("g")
		if states := b.groups(); states["g"] != "Stable" {
			t.Fatalf("the group is %v", states)
		}
		time.Sleep(9 * time.Second)
		if code := b.heartbeat("g", joined); code != kafka.None {
			t.Fatal(code)
		}
		time.Sleep(11 * time.Second)
		if states := b.groups(); states["g"] != "Empty" {
			t.Errorf("the group is %v", states)
		}
		if code := b.heartbeat("g", joined); code != kafka.UnknownMemberID {
			t.Errorf("the member is answered %v", code)
		}
		if groups, _ := b.inMemory(); groups != 0 {
			t.Errorf("%d empty groups are kept in memory", groups)
		}
		if again := b.member("g"); again.Generation != joined.Generation+2 {
			t.Errorf("after generation %d comes %d", joined.Generation, again.Generation)
		}
	})
}

func TestGR08GR13StaticMembersReturnAfterARestart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.sendJoin(joiningStatic("g", "x")) // its answer is lost, as is what the coordinator knew
		b.restart()
		first := b.settle("g", b.sendJoin(joiningStatic("g", "x")))
		for range 3 {
			b.restart()
			again := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joiningStatic("g", "x")))
			if again.ErrorCode != 0 || again.Generation != first.Generation || !again.SkipAssignment {
				t.Fatalf("it is answered %+v", again)
			}
			if code := b.sync("g", again); code != kafka.None {
				t.Errorf("it is assigned what it had: %v", code)
			}
			if code := b.heartbeat("g", again); code != kafka.None {
				t.Errorf("its heartbeat: %v", code)
			}
		}
		fenced := joining("g", first.MemberID)
		x := "x"
		fenced.InstanceID = &x
		answer := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(fenced))
		if code := kafka.Errno(answer.ErrorCode); code != kafka.FencedInstanceID {
			t.Errorf("the first one is answered %v", code)
		}
	})
}

// What is answered survives: an assignment waits until it is written, as does the answer to the last one that leaves.
func TestMembersAreToldWhatIsDurable(t *testing.T) {
	inBubble(t, func(b *bench) {
		joined := b.member("g")
		again := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining("g", joined.MemberID)))
		b.journal.hold()
		waits := b.coordinator.Sync(syncing("g", again))
		synctest.Wait()
		select {
		case <-waits.Done():
			t.Error("an assignment is told that is not written")
		default:
		}
		if code := b.heartbeat("g", again); code != kafka.None {
			t.Errorf("meanwhile it is alive: %v", code)
		}
		b.journal.release()
		if code := kafka.Errno(answered[*kmsg.SyncGroupResponse](b, waits).ErrorCode); code != kafka.None {
			t.Errorf("it is assigned: %v", code)
		}
		b.journal.hold()
		left := b.coordinator.Leave(leaving("g", joined.MemberID))
		synctest.Wait()
		select {
		case <-left.Done():
			t.Error("a group is empty that may have a member after a crash")
		default:
		}
		b.journal.release()
		if response := answered[*kmsg.LeaveGroupResponse](b, left); response.Members[0].ErrorCode != 0 {
			t.Errorf("it left: %+v", response)
		}
		b.restart()
		if states := b.groups(); states["g"] != "Empty" {
			t.Errorf("the group is %v", states)
		}
	})
}

func TestAnAssignmentThatCannotBeWrittenIsNone(t *testing.T) {
	inBubble(t, func(b *bench) {
		joined := b.member("g")
		for refused, want := range map[kafka.Errno]kafka.Errno{
			kafka.NotEnoughReplicas: kafka.CoordinatorNotAvailable, kafka.RecordListTooLarge: kafka.UnknownServerError,
		} {
			joined = answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining("g", joined.MemberID)))
			b.refuse(refused)
			if code := b.sync("g", joined); code != want {
				t.Errorf("it is answered %v, want %v", code, want)
			}
			b.refuse(kafka.None)
			if code := b.heartbeat("g", joined); code != kafka.RebalanceInProgress {
				t.Errorf("it is to join again, and is told %v", code)
			}
		}
		joined = answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining("g", joined.MemberID)))
		if code := b.sync("g", joined); code != kafka.None {
			t.Errorf("when it can be written again: %v", code)
		}
	})
}

// refuse lets appends to the journal fail.
func (b *bench) refuse(code kafka.Errno) {
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	b.journal.refused = nil
	if code != kafka.None {
		b.journal.refused = code
	}
}

// Members that were sent away, or are of an older generation, commit nothing, also if nobody else is left.
func TestGR05GR11CommitsAreThoseOfMembers(t *testing.T) {
	inBubble(t, func(b *bench) {
		joined := b.member("g")
		by := func(joined *kmsg.JoinGroupResponse) *kmsg.OffsetCommitRequest {
			request := commitRequest("g", a(0, 5))
			request.MemberID, request.Generation = joined.MemberID, joined.Generation
			return request
		}
		expect := func(request *kmsg.OffsetCommitRequest, want kafka.Errno) {
			t.Helper()
			if code := b.commit(request)[0]; code != want {
				t.Errorf("the commit is answered %v, want %v", code, want)
			}
		}
		expect(by(joined), kafka.None)
		expect(commitRequest("g", a(0, 6)), kafka.UnknownMemberID)
		old := joined
		joined = answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining("g", joined.MemberID)))
		expect(by(old), kafka.IllegalGeneration)
		expect(by(joined), kafka.RebalanceInProgress)
		if code := b.commitInTransaction("g", a(0, 7)); code != kafka.None {
			t.Errorf("in a transaction, while the group rebalances: %v", code)
		}
		if code := b.leave("g", joined.MemberID); code != kafka.None {
			t.Fatal(code)
		}
		expect(by(joined), kafka.UnknownMemberID)
		expect(by(old), kafka.UnknownMemberID)
		expect(commitRequest("g", a(0, 8)), kafka.None)
		b.expect("g", a(0, 0), at(8))
	})
}

func TestGroupsThatDoNotExistKnowNobody(t *testing.T) {
	inBubble(t, func(b *bench) {
		stranger := &kmsg.JoinGroupResponse{MemberID: "m", Generation: 1, Protocol: new(string), ProtocolType: new(string)}
		for group, want := range map[string]kafka.Errno{"g": kafka.UnknownMemberID, "": kafka.InvalidGroupID} {
			joined := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining(group, "m")))
			for what, code := range map[string]kafka.Errno{
				"join": kafka.Errno(joined.ErrorCode), "sync": b.sync(group, stranger),
				"heartbeat": b.heartbeat(group, stranger), "leave": b.leave(group, "m"),
			} {
				if code != want {
					t.Errorf("%s of group %q is answered %v, want %v", what, group, code, want)
				}
			}
		}
		stranger.Protocol = nil
		if code := b.sync("", stranger); code != kafka.InconsistentGroupProtocol {
			t.Errorf("without a protocol: %v", code)
		}
		if states := b.groups(); len(states) > 0 {
			t.Errorf("there are groups: %v", states)
		}
		b.coordinator.Runtime().Resign(0)
		synctest.Wait()
		if code := b.heartbeat("g", stranger); code != kafka.NotCoordinator {
			t.Errorf("elsewhere: %v", code)
		}
	})
}

// Who waits while the journal goes to another broker is told to look for it.
func TestWaitingMembersAreToldThatTheCoordinatorMoves(t *testing.T) {
	inBubble(t, func(b *bench) {
		joined := b.member("g")
		request := joining("g", "")
		request.Version = 3
		waits := b.sendJoin(request)
		synctest.Wait()
		b.coordinator.Runtime().Resign(0)
		if code := kafka.Errno(answered[*kmsg.JoinGroupResponse](b, waits).ErrorCode); code != kafka.NotCoordinator {
			t.Errorf("it is told %v", code)
		}
		b.restart()
		if code := b.heartbeat("g", joined); code != kafka.None {
			t.Errorf("the member of the group that was written is told %v", code)
		}
	})
}

// A group of the consumer protocol that nobody is in any more is anybody's.
func TestAnEmptyGroupChangesItsProtocol(t *testing.T) {
	inBubble(t, func(b *bench) {
		beat := func(epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
			request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			request.Version, request.Group, request.MemberID, request.MemberEpoch = 1, "g", "m", epoch
			if epoch == 0 {
				request.RebalanceTimeoutMillis, request.SubscribedTopicNames = 60_000, []string{"a"}
				request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			}
			return answered[*kmsg.ConsumerGroupHeartbeatResponse](b, b.coordinator.ConsumerHeartbeat(request, machine.Client{}))
		}
		if response := beat(0); response.ErrorCode != 0 {
			t.Fatalf("%+v", response)
		}
		if response := beat(-1); response.ErrorCode != 0 {
			t.Fatalf("%+v", response)
		}
		b.refuse(kafka.NotEnoughReplicas)
		old := joining("g", "")
		old.Version = 3
		refused := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(old))
		if code := kafka.Errno(refused.ErrorCode); code != kafka.CoordinatorNotAvailable {
			t.Errorf("a group that cannot be made is answered %v", code)
		}
		b.refuse(kafka.None)
		if response := beat(0); response.ErrorCode != 0 {
			t.Errorf("the group has become none: %+v", response)
		}
		if response := beat(-1); response.ErrorCode != 0 {
			t.Fatalf("%+v", response)
		}
		unknown := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining("g", "m")))
		if code := kafka.Errno(unknown.ErrorCode); code != kafka.UnknownMemberID {
			t.Errorf("who is not known is answered %v", code)
		}
		joined := b.member("g")
		b.restart()
		if code := b.heartbeat("g", joined); code != kafka.None {
			t.Errorf("after a restart the classic member is answered %v", code)
		}
	})
}
