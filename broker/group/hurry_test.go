package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// TestNobodyWaitsForTheDiskForLongerThanTheCommitTimeout: as in Kafka, a request whose records are not safe in
// offsets.commit.timeout.ms is answered that it should be tried again; what was written counts once it is safe.
func TestNobodyWaitsForTheDiskForLongerThanTheCommitTimeout(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 1))
		b.journal.hold()
		first := b.coordinator.Commit(commitRequest("g", a(0, 2)))
		time.Sleep(3 * time.Second)
		second := b.coordinator.Commit(commitRequest("g", a(1, 3)))
		joins := b.sendBeat("h", "m", 0)
		deletes := b.coordinator.Delete("g")
		unanswered := func(promises ...*Answer) {
			t.Helper()
			synctest.Wait()
			for i, promise := range promises {
				select {
				case <-promise.Done():
					t.Errorf("request %d is answered", i)
				default:
				}
			}
		}
		unanswered(first, second, joins, deletes)
		time.Sleep(commitTimeout - 3*time.Second)
		late := kafka.CoordinatorNotAvailable
		b.expectCode("the first", int16(commitCodes(answered[*kmsg.OffsetCommitResponse](b, first))[0]), late)
		unanswered(second, joins, deletes)
		time.Sleep(3 * time.Second)
		b.expectCode("the second", int16(commitCodes(answered[*kmsg.OffsetCommitResponse](b, second))[0]), late)
		b.expectCode("a member", answered[*kmsg.ConsumerGroupHeartbeatResponse](b, joins).ErrorCode, late)
		b.expectCode("a deletion", answered[*kmsg.DeleteGroupsResponse](b, deletes).Groups[0].ErrorCode, late)

		b.journal.release()
		synctest.Wait()
		b.expect("g", a(0, 2), none) // the deletion came last
		b.expectCode("the member is there", b.beat("h", "m", 2).ErrorCode, kafka.None)
		b.mustCommit("g", a(0, 5))
		if waits := len(b.registry().hurried.queue); waits > 1 {
			t.Errorf("%d answered requests are kept", waits)
		}
		b.journal.hold() // a second round, after the timer has run out once
		again := b.coordinator.Commit(commitRequest("g", a(0, 6)))
		time.Sleep(commitTimeout)
		b.expectCode("again", int16(commitCodes(answered[*kmsg.OffsetCommitResponse](b, again))[0]), late)
		b.journal.release()
		synctest.Wait()
		b.expect("g", a(0, 6), at(6))
	})
}

// registry is what the coordinator keeps of its one journal. Nothing else may happen while it is looked at.
func (b *bench) registry() *registry {
	b.t.Helper()
	synctest.Wait()
	shard, err := b.coordinator.runtime.Find("g")
	if err != nil {
		b.t.Fatal(err)
	}
	shard.Lock()
	defer shard.Unlock()
	return shard.State.(*registry)
}
