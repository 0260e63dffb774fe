package group

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// reads is how often the view has been read.
func (b *bench) reads() int {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return b.store.reads
}

// twice commits into a group until it rests in memory: the first commit makes it, the second reads it.
func (b *bench) twice(group string, o offset) {
	b.t.Helper()
	b.mustCommit(group, o)
	b.mustCommit(group, o)
}

func (b *bench) deleteOffsets(group string, partition int32) *kmsg.OffsetDeleteResponse {
	b.t.Helper()
	request := kmsg.NewPtrOffsetDeleteRequest()
	request.Group = group
	request.Topics = []kmsg.OffsetDeleteRequestTopic{{
		Topic: "a", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}},
	}}
	return answered[*kmsg.OffsetDeleteResponse](b, b.coordinator.DeleteOffsets(request))
}

func TestAGroupThatCommitsAgainIsNotReadAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.twice("g", a(0, 5))
		before := b.reads()
		for committed := range int64(20) {
			b.mustCommit("g", a(0, committed))
		}
		if got := b.reads() - before; got != 0 {
			t.Errorf("20 commits read the view %d times", got)
		}
		b.restart()
		b.expect("g", a(0, 0), at(19))
		b.mustCommit("g", a(0, 20))
		b.expect("g", a(0, 0), at(20))
	})
}

func TestGroupsThatRestAreBounded(t *testing.T) {
	inBubble(t, func(b *bench) {
		const groups = 5 * maxResting
		for i := range groups {
			b.twice(fmt.Sprint("g", i), a(0, int64(i)))
		}
		shards, _ := b.coordinator.Runtime().Shards()
		shards[0].Lock()
		r := shards[0].State.(*registry)
		young, old, places := len(r.resting), len(r.restingOld), len(r.slots)
		shards[0].Unlock()
		if young > maxResting || old > maxResting || young+old < maxResting || places != 0 {
			t.Errorf("%d and %d groups rest, %d have a place; want at most %d in a generation", young, old, places, maxResting)
		}
		for i := range groups {
			b.expect(fmt.Sprint("g", i), a(0, 0), at(int64(i)))
		}
	})
}

// A group that has nothing but offsets is there as long as they are, whether it rests in memory or not.
func TestAGroupThatRestsEndsWithItsLastOffset(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"deleted": func(b *bench) { b.deleteOffsets("g", 0) },
		"expired": func(*bench) { time.Sleep(retention + 2*checkInterval) },
		"of a topic that is gone": func(b *bench) {
			delete(b.topics, "a")
			b.coordinator.TopicsDeleted()
			synctest.Wait()
		},
		"in a transaction that is aborted": func(b *bench) {
			b.deleteOffsets("g", 0)
			b.commitInTransaction("g", a(0, 6))
			b.commitInTransaction("g", a(0, 7))
			b.endTransaction(record.Abort)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.twice("g", a(0, 5))
				end(b)
				deleted := answered[*kmsg.DeleteGroupsResponse](b, b.coordinator.Delete("g"))
				if got := kafka.Errno(deleted.Groups[0].ErrorCode); got != kafka.GroupIDNotFound {
					t.Errorf("the group without offsets is deleted with %v, want %v", got, kafka.GroupIDNotFound)
				}
				if got := b.groups(); len(got) != 0 {
					t.Errorf("groups: %v", got)
				}
				b.mustCommit("g", a(0, 8))
				b.expect("g", a(0, 0), at(8))
			})
		})
	}
}

// What comes to a group that rests is as for one that is read.
func TestAGroupThatRestsIsJoinedAndDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.twice("g", a(0, 5))
		b.join("g", "a", 10*time.Second).sync()
		if got := b.commit(commitRequest("g", a(0, 6))); got[0] != kafka.UnknownMemberID {
			t.Errorf("a commit from outside of a group with a member: %v", got[0])
		}
		time.Sleep(time.Minute)
		b.twice("g", a(0, 7))
		deleted := answered[*kmsg.DeleteGroupsResponse](b, b.coordinator.Delete("g"))
		if got := kafka.Errno(deleted.Groups[0].ErrorCode); got != kafka.None {
			t.Fatalf("the deletion: %v", got)
		}
		b.expect("g", a(0, 0), none)
		if got := b.groups(); len(got) != 0 {
			t.Errorf("groups: %v", got)
		}
	})
}
