package group

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

func TestOF10MetadataOfACommitIsBounded(t *testing.T) {
	inBubble(t, func(b *bench) {
		for _, c := range []struct {
			metadata string
			want     kafka.Errno
		}{
			{strings.Repeat("m", 4096), kafka.None},
			{strings.Repeat("m", 4097), kafka.OffsetMetadataTooLarge},
			{strings.Repeat("ü", 4096), kafka.None}, // twice as many bytes
			{strings.Repeat("ü", 4097), kafka.OffsetMetadataTooLarge},
			{strings.Repeat("🜁", 2048), kafka.None}, // two UTF-16 units each, as Java counts
			{strings.Repeat("🜁", 2049), kafka.OffsetMetadataTooLarge},
		} {
			o := a(0, 5)
			o.metadata = c.metadata
			if got := b.commit(commitRequest("g", o)); got[0] != c.want {
				t.Errorf("%d bytes of metadata: %v, want %v", len(c.metadata), got[0], c.want)
			}
			if c.want == kafka.None && b.fetch("g", o, false).metadata != c.metadata {
				t.Errorf("%d bytes of metadata are not stored", len(c.metadata))
			}
		}
	})
}

func TestOF11AnEntryThatIsTooLargeDoesNotTouchTheOthers(t *testing.T) {
	inBubble(t, func(b *bench) {
		large := a(0, 5)
		large.metadata = strings.Repeat("m", 5000)
		codes := b.commit(commitRequest("g", large, a(1, 6)))
		if codes[0] != kafka.OffsetMetadataTooLarge || codes[1] != kafka.None {
			t.Fatalf("the commit was answered %v", codes)
		}
		if got := b.fetch("g", a(0, 0), true); got != none {
			t.Errorf("the entry that is too large: %+v", got)
		}
		if got := b.fetch("g", a(1, 0), true); got != at(6) {
			t.Errorf("the other one: %+v", got)
		}
	})
}

func TestOF16TheLeaderEpochOfACommitIsKept(t *testing.T) {
	inBubble(t, func(b *bench) {
		with, without := a(0, 5), a(1, 6)
		with.epoch = 7
		b.mustCommit("g", with, without)
		for range 2 {
			b.expect("g", with, fetched{offset: 5, epoch: 7})
			b.expect("g", without, at(6))
			all := b.fetchAll("g")
			if all[kafka.TopicPartition{Topic: "a"}].epoch != 7 || all[kafka.TopicPartition{Topic: "a", Partition: 1}].epoch != -1 {
				t.Errorf("all offsets: %+v", all)
			}
			b.restart()
		}
	})
}

func TestOF17AllOffsetsAreThoseThatWereCommitted(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 5))
		b.mustCommit("g2", a(2, 9)) // another group with the same beginning
		want := map[kafka.TopicPartition]fetched{{Topic: "a"}: at(5)}
		if got := b.fetchAll("g"); !maps.Equal(got, want) {
			t.Errorf("all offsets: %+v", got)
		}
		b.expect("g", a(1, 0), none)
		b.expect("nobody", a(0, 0), none)
		if got := b.fetchAll("nobody"); len(got) != 0 {
			t.Errorf("all offsets of no group: %+v", got)
		}
		if got := b.groups(); len(got) != 2 {
			t.Errorf("groups after the look at one that does not exist: %v", got)
		}
	})
}

func TestNothingIsAnsweredAboveTheHighWatermark(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 5))
		b.journal.hold()
		committing := b.coordinator.Commit(commitRequest("g", a(0, 6)))
		synctest.Wait()
		select {
		case <-committing.Done():
			t.Fatal("the commit was answered")
		default:
		}
		b.expect("g", a(0, 0), at(5))
		asked := kmsg.NewOffsetFetchRequestGroup()
		asked.Group = "g"
		stable := b.coordinator.Fetch(&asked, true) // waits for the commit that came before
		synctest.Wait()
		select {
		case <-stable.Done():
			t.Fatal("the stable offset was answered")
		default:
		}
		b.journal.release()
		if codes := commitCodes(answered[*kmsg.OffsetCommitResponse](b, committing)); codes[0] != kafka.None {
			t.Errorf("the commit: %v", codes)
		}
		if got := answered[*kmsg.OffsetFetchResponse](b, stable).Groups[0].Topics[0].Partitions[0]; got.Offset != 6 {
			t.Errorf("the stable offset is %d", got.Offset)
		}
	})
}

func TestACommitThatCannotBeWrittenIsRefused(t *testing.T) {
	inBubble(t, func(b *bench) {
		for problem, want := range map[kafka.Errno]kafka.Errno{
			kafka.NotLeaderOrFollower: kafka.NotCoordinator,
			kafka.NotEnoughReplicas:   kafka.CoordinatorNotAvailable,
			kafka.MessageTooLarge:     kafka.UnknownServerError,
		} {
			b.journal.refused = problem
			if got := b.commit(commitRequest("g", a(0, 5))); got[0] != want {
				t.Errorf("after %v the client is told %v, want %v", problem.Name(), got[0].Name(), want.Name())
			}
			b.journal.refused = nil
		}
		b.expect("g", a(0, 0), none)
	})
}

// When the leadership is lost while a commit is on its way nobody knows whether it will survive.
func TestACommitOnItsWayIsRefusedWhenTheLeadershipEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.journal.hold()
		committing := b.coordinator.Commit(commitRequest("g", a(0, 6)))
		b.coordinator.Runtime().Resign(0)
		if codes := commitCodes(answered[*kmsg.OffsetCommitResponse](b, committing)); codes[0] != kafka.NotCoordinator {
			t.Errorf("the commit: %v", codes)
		}
		if got := b.fetch("g", a(0, 0), false); got.code != kafka.NotCoordinator {
			t.Errorf("a fetch afterwards: %+v", got)
		}
	})
}

func TestCommitsOfMembersOfNoGroup(t *testing.T) {
	inBubble(t, func(b *bench) {
		for version, want := range map[int16]kafka.Errno{8: kafka.IllegalGeneration, 9: kafka.GroupIDNotFound} {
			request := commitRequest("nobody", a(0, 5))
			request.Version, request.Generation, request.MemberID = version, 3, "m"
			if got := b.commit(request); got[0] != want {
				t.Errorf("version %d: %v, want %v", version, got[0].Name(), want.Name())
			}
		}
		if got := b.groups(); len(got) != 0 {
			t.Errorf("groups: %v", got)
		}
	})
}

func TestOF20TheOrderOfTheJournalDecides(t *testing.T) {
	inBubble(t, func(b *bench) {
		// The plain commit is newer than the one in the transaction, which is committed after it.
		if code := b.commitInTransaction("g", a(0, 5)); code != kafka.None {
			t.Fatal(code)
		}
		b.mustCommit("g", a(0, 6))
		if got := b.fetch("g", a(0, 0), true); got.code != kafka.UnstableOffsetCommit {
			t.Errorf("a stable offset during the transaction: %+v", got)
		}
		b.expect("g", a(0, 0), at(6))
		b.endTransaction(record.Commit)
		b.expect("g", a(0, 0), at(6))
		// The one in the transaction is the newer one.
		b.mustCommit("g", a(1, 6))
		b.commitInTransaction("g", a(1, 7))
		b.expect("g", a(1, 0), at(6))
		b.endTransaction(record.Commit)
		if got := b.fetch("g", a(1, 0), true); got != at(7) {
			t.Errorf("a stable offset after the transaction: %+v", got)
		}
		// An aborted one never was.
		b.commitInTransaction("g", a(1, 9))
		b.endTransaction(record.Abort)
		before := b.fetchAll("g")
		b.restart()
		if after := b.fetchAll("g"); !maps.Equal(before, after) || after[kafka.TopicPartition{Topic: "a", Partition: 1}] != at(7) {
			t.Errorf("before the restart: %+v, after it: %+v", before, after)
		}
	})
}

func TestOF20TX14AnOpenTransactionKeepsItsGroup(t *testing.T) {
	inBubble(t, func(b *bench) {
		if code := b.commitInTransaction("g", a(0, 5)); code != kafka.None {
			t.Fatal(code)
		}
		b.mustCommit("h", a(0, 1))
		b.commitInTransaction("h", a(0, 2))
		b.restart()
		before := b.journal.Bounds().End
		time.Sleep(retention + 2*checkInterval)
		synctest.Wait()
		if after := b.journal.Bounds().End; after != before {
			t.Errorf("%d records were written", after-before)
		}
		if got := b.groups(); len(got) != 2 {
			t.Errorf("groups: %v", got)
		}
		b.expect("h", a(0, 0), at(1))
		b.endTransaction(record.Commit)
		b.expect("g", a(0, 0), at(5))
		b.expect("h", a(0, 0), at(2))
		time.Sleep(2 * checkInterval) // their time has been over since
		synctest.Wait()
		if got := b.groups(); len(got) != 0 {
			t.Errorf("groups at the end: %v", got)
		}
	})
}
