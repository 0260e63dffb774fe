package group

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

func (b *bench) delete(group string) kafka.Errno {
	b.t.Helper()
	return deletedCode(b, b.coordinator.Delete(group))
}

func deletedCode(b *bench, deleting *Answer) kafka.Errno {
	b.t.Helper()
	return kafka.Errno(answered[*kmsg.DeleteGroupsResponse](b, deleting).Groups[0].ErrorCode)
}

func TestOnlyEmptyGroupsAreDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		m := b.join("g", "a", 10*time.Second)
		m.sync()
		if code := b.delete("g"); code != kafka.NonEmptyGroup {
			t.Errorf("with a member: %v", code)
		}
		time.Sleep(time.Minute)
		b.mustCommit("g", a(0, 5), a(1, 6))
		b.commitInTransaction("g", a(2, 7))
		if code := b.delete("g"); code != kafka.None {
			t.Errorf("without members: %v", code)
		}
		if code := b.delete("g"); code != kafka.GroupIDNotFound {
			t.Errorf("once more: %v", code)
		}
		b.endTransaction(record.Commit)
		for range 2 {
			if offsets, groups := b.fetchAll("g"), b.groups(); len(offsets)+len(groups) != 0 {
				t.Errorf("what is left: %v, %v", offsets, groups)
			}
			b.restart()
		}
	})
}

// What is on its way to the view when a group is deleted is deleted, too, and what comes afterwards is not.
func TestADeletionCoversWhatTheViewDoesNotHaveYet(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 5))
		b.journal.hold()
		b.coordinator.Commit(commitRequest("g", a(1, 6)))
		deleting := b.coordinator.Delete("g")
		again := b.coordinator.Delete("g")
		after := b.coordinator.Commit(commitRequest("g", a(2, 7)))
		b.journal.release()
		if code := deletedCode(b, deleting); code != kafka.None {
			t.Error(code)
		}
		if code := deletedCode(b, again); code != kafka.GroupIDNotFound {
			t.Error(code)
		}
		answered[*kmsg.OffsetCommitResponse](b, after)
		want := map[kafka.TopicPartition]fetched{{Topic: "a", Partition: 2}: at(7)}
		if got := b.fetchAll("g"); !maps.Equal(got, want) {
			t.Errorf("offsets: %+v", got)
		}
		if got := b.groups(); !maps.Equal(got, map[string]string{"g": "Empty"}) {
			t.Errorf("groups: %v", got)
		}
	})
}

func TestAGroupOfManyOffsetsIsDeletedInSeveralBatches(t *testing.T) {
	inBubble(t, func(b *bench) {
		id := strings.Repeat("long", 100)
		var offsets []offset
		for i := range 2000 {
			offsets = append(offsets, a(int32(i), 1))
		}
		b.mustCommit(id, offsets...)
		before := len(b.journal.ends)
		if code := b.delete(id); code != kafka.None {
			t.Fatal(code)
		}
		if batches := len(b.journal.ends) - before; batches < 3 {
			t.Errorf("it took %d batches", batches)
		}
		if got := b.fetchAll(id); len(got) != 0 {
			t.Errorf("%d offsets are left", len(got))
		}
	})
}

func TestOffsetsThatMembersReadAreNotDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		ofB := offset{topic: "b", id: topicB, offset: 6}
		b.mustCommit("g", a(0, 5), ofB)
		request := kmsg.NewPtrOffsetDeleteRequest()
		request.Group = "g"
		for _, topic := range []string{"a", "b"} {
			request.Topics = append(request.Topics, kmsg.OffsetDeleteRequestTopic{
				Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}, {Partition: 1}},
			})
		}
		b.join("g", "a", 10*time.Second).sync()
		response := answered[*kmsg.OffsetDeleteResponse](b, b.coordinator.DeleteOffsets(request))
		var codes []kafka.Errno
		for _, topic := range response.Topics {
			codes = append(codes, kafka.Errno(topic.Partitions[0].ErrorCode))
		}
		if codes[0] != kafka.GroupSubscribedToTopic || codes[1] != kafka.None {
			t.Errorf("codes: %v", codes)
		}
		b.expect("g", a(0, 0), at(5))
		b.expect("g", ofB, none)
		time.Sleep(time.Minute) // the member's session ends
		answered[*kmsg.OffsetDeleteResponse](b, b.coordinator.DeleteOffsets(request))
		b.expect("g", a(0, 0), none)

		request.Group = "nobody"
		response = answered[*kmsg.OffsetDeleteResponse](b, b.coordinator.DeleteOffsets(request))
		if kafka.Errno(response.ErrorCode) != kafka.GroupIDNotFound {
			t.Errorf("of no group: %v", kafka.Errno(response.ErrorCode))
		}
	})
}

func TestGroupsAreListedByStateAndType(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("simple", a(0, 5))
		b.join("members", "a", 10*time.Minute).sync()
		for _, c := range []struct {
			states, types []string
			want          string
		}{
			{nil, nil, "members simple"},
			{[]string{" sTable"}, nil, "members"},
			{[]string{"Empty", "Dead"}, nil, "simple"},
			{nil, []string{"Classic"}, "members simple"},
			{nil, []string{"consumer"}, ""},
			{[]string{"Empty"}, []string{"classic", "consumer"}, "simple"},
		} {
			request := kmsg.NewPtrListGroupsRequest()
			request.StatesFilter, request.TypesFilter = c.states, c.types
			var names []string
			for _, group := range b.coordinator.List(request).Groups {
				names = append(names, group.Group)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("states %q, types %q: %q, want %q", c.states, c.types, got, c.want)
			}
		}
	})
}

func TestGroupsWithoutMembersAreDescribed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("simple", a(0, 5))
		b.join("members", "a", 10*time.Minute).sync()
		for _, c := range []struct {
			group   string
			version int16
			want    string
		}{
			{"simple", 6, "Empty, 0 members, NONE"},
			{"members", 0, "Stable, 1 members, NONE"},
			{"nobody", 5, "Dead, 0 members, NONE"},
			{"nobody", 6, "Dead, 0 members, GROUP_ID_NOT_FOUND"},
		} {
			described := answered[*kmsg.DescribeGroupsResponse](b, b.coordinator.Describe(c.group, c.version)).Groups[0]
			got := fmt.Sprintf("%s, %d members, %s",
				described.State, len(described.Members), kafka.Errno(described.ErrorCode).Name())
			if got != c.want {
				t.Errorf("%s in version %d: %s, want %s", c.group, c.version, got, c.want)
			}
		}
	})
}

// Who waits in a rebalance when the partition goes to another broker asks there.
func TestWhoWaitsIsAnsweredWhenTheLeadershipEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		request := kmsg.NewPtrJoinGroupRequest()
		request.SessionTimeoutMillis, request.RebalanceTimeoutMillis, request.ProtocolType = 10_000, 10_000, "connect"
		request.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p"}}
		joining := b.joinGroup("g", request)
		synctest.Wait()
		b.coordinator.Runtime().Resign(0)
		if got := answered[*kmsg.HeartbeatResponse](b, joining).ErrorCode; kafka.Errno(got) != kafka.NotCoordinator {
			t.Errorf("the answer is %v", kafka.Errno(got))
		}
		time.Sleep(time.Minute) // its timer has ended with it
	})
}

// A node that is about to stop sends its members elsewhere at once, also those of a group that is just being written.
func TestWhoWaitsForAWriteIsAnsweredOnceWhenTheNodeStops(t *testing.T) {
	inBubble(t, func(b *bench) {
		m := b.join("g", "a", 10*time.Minute)
		b.journal.hold()
		request := kmsg.NewPtrSyncGroupRequest()
		request.MemberID, request.Generation = m.id, m.generation
		syncing := b.event("g", func(t turn, group *classic.Group) machine.Step {
			return group.Sync(t.waiter, request)
		})
		b.coordinator.Runtime().Drain()
		if got := answered[*kmsg.HeartbeatResponse](b, syncing).ErrorCode; kafka.Errno(got) != kafka.NotCoordinator {
			t.Errorf("the answer is %v", kafka.Errno(got))
		}
		b.journal.release() // what was written is durable now, and nobody waits for it any more
		synctest.Wait()
	})
}

// Members that were there before a restart have to be heard of again, or are gone.
func TestAMemberSurvivesARestart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.join("g", "a", 30*time.Second).sync()
		b.restart()
		if got := b.groups(); got["g"] != "Stable" {
			t.Fatalf("groups after the restart: %v", got)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := b.groups(); got["g"] != "Empty" {
			t.Errorf("groups after the session: %v", got)
		}
	})
}

// Groups without members take no memory once nothing is on its way.
func TestGroupsWithoutMembersLeaveMemory(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range 10 {
			b.mustCommit(fmt.Sprint("simple", i), a(0, 5))
		}
		b.join("members", "a", 10*time.Second).sync()
		shards, _ := b.coordinator.Runtime().Shards()
		inMemory := func() int {
			shards[0].Lock()
			defer shards[0].Unlock()
			return len(shards[0].State.(*registry).slots)
		}
		if got := inMemory(); got != 1 {
			t.Errorf("%d groups are in memory, want the one with members", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := inMemory(); got != 0 {
			t.Errorf("%d groups are in memory after the last member is gone", got)
		}
		if got := b.groups(); len(got) != 11 {
			t.Errorf("groups: %v", got)
		}
	})
}
