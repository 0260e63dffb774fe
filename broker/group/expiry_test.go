package group

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// member is a member of a group of the classic protocol that nobody but the test keeps alive.
type member struct {
	b          *bench
	group      string
	id         string
	generation int32
}

// join takes a member into a group, which has this one then, and lets it read a topic.
func (b *bench) join(group, topic string, sessionTimeout time.Duration) *member {
	b.t.Helper()
	m := &member{b: b, group: group}
	m.join(topic, sessionTimeout)
	return m
}

// join lets the member join, again if it has an id.
func (m *member) join(topic string, sessionTimeout time.Duration) {
	b, group := m.b, m.group
	b.t.Helper()
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{topic}
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version, request.Group, request.ProtocolType = 3, group, "consumer"
	request.MemberID = m.id
	request.SessionTimeoutMillis = int32(sessionTimeout.Milliseconds())
	request.RebalanceTimeoutMillis = request.SessionTimeoutMillis
	request.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
	joining := b.joinGroup(group, request)
	time.Sleep(4 * time.Second) // the initial delay
	joined := answered[*kmsg.JoinGroupResponse](b, joining)
	if joined.ErrorCode != 0 {
		b.t.Fatal(kafka.Errno(joined.ErrorCode))
	}
	m.id, m.generation = joined.MemberID, joined.Generation
}

func (b *bench) joinGroup(group string, request *kmsg.JoinGroupRequest) *Answer {
	return b.event(group, func(t turn, group *classic.Group) machine.Step {
		return group.Join(t.now, classic.Join{Waiter: t.waiter, Request: request, NewID: "m"})
	})
}

// sync ends the rebalance.
func (m *member) sync() {
	m.b.t.Helper()
	request := kmsg.NewPtrSyncGroupRequest()
	request.Version, request.Group, request.MemberID, request.Generation = 3, m.group, m.id, m.generation
	request.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m.id, MemberAssignment: []byte("all")}}
	synced := answered[*kmsg.SyncGroupResponse](m.b, m.b.event(m.group, func(t turn, group *classic.Group) machine.Step {
		return group.Sync(t.waiter, request)
	}))
	if synced.ErrorCode != 0 {
		m.b.t.Fatal(kafka.Errno(synced.ErrorCode))
	}
}

// event lets something happen to a group of the classic protocol, which is made if it does not exist.
func (b *bench) event(group string, event func(turn, *classic.Group) machine.Step) *Answer {
	refuse := func(err error) kmsg.Response {
		response := kmsg.NewPtrHeartbeatResponse()
		response.ErrorCode = int16(errorCode(err))
		return response
	}
	return b.coordinator.serve(group, refuse, func(t turn) (machine.Step, error) {
		if t.slot.group == nil {
			t.put(t.slot, classic.New(group, b.coordinator.options.Config.Classic, t.now))
		}
		return event(t, t.slot.group.(*classic.Group)), nil
	})
}

func TestOffsetsExpireFromTheMomentTheirGroupIsEmpty(t *testing.T) {
	inBubble(t, func(b *bench) {
		m := b.join("g", "a", 30*time.Minute)
		m.sync()
		commit := commitRequest("g", a(0, 5))
		commit.MemberID, commit.Generation = m.id, m.generation
		if codes := b.commit(commit); codes[0] != kafka.None {
			t.Fatal(codes)
		}
		b.mustCommit("simple", a(0, 6))
		time.Sleep(retention - time.Hour) // in which the member's session has ended
		synctest.Wait()
		if got := b.groups(); got["g"] != "Empty" {
			t.Fatalf("groups: %v", got)
		}
		time.Sleep(time.Hour + checkInterval + time.Second)
		b.expect("simple", a(0, 0), none)
		b.expect("g", a(0, 0), at(5)) // it has not been empty for that long
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		b.expect("g", a(0, 0), none)
		if got := b.groups(); len(got) != 0 {
			t.Errorf("groups at the end: %v", got)
		}
	})
}

// The clock starts when the last member goes, whether it says so or falls silent, and a restart does not touch it.
func TestOF14OffsetsOfAConsumerGroupExpireFromTheMomentItIsEmpty(t *testing.T) {
	for name, ending := range map[string]func(b *bench){
		"it leaves":       func(b *bench) { b.expectCode("leaving", b.beat("g", "m", -1).ErrorCode, kafka.None) },
		"it falls silent": func(*bench) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				epoch := b.beat("g", "m", 0).MemberEpoch
				commit := commitRequest("g", a(0, 5))
				commit.MemberID, commit.Generation = "m", epoch
				if codes := b.commit(commit); codes[0] != kafka.None {
					t.Fatal(codes)
				}
				for elapsed := time.Duration(0); elapsed < retention-time.Hour; elapsed += 30 * time.Second {
					time.Sleep(30 * time.Second)
					b.expectCode("beat", b.beat("g", "m", epoch).ErrorCode, kafka.None)
				}
				ending(b)
				for range 3 {
					time.Sleep(retention/4 + time.Minute)
					b.restart()
					b.expect("g", a(0, 0), at(5))
				}
				b.mustCommit("g", a(1, 6)) // from outside, later: its own time counts
				time.Sleep(retention/4 - 5*time.Minute)
				synctest.Wait()
				b.expect("g", a(0, 0), at(5))
				time.Sleep(checkInterval + 5*time.Minute)
				synctest.Wait()
				b.expect("g", a(0, 0), none)
				b.expect("g", a(1, 0), at(6))
				time.Sleep(retention)
				synctest.Wait()
				if got := b.groups(); len(got) != 0 {
					t.Errorf("groups at the end: %v", got)
				}
			})
		})
	}
}

func TestOF13NothingExpiresWhileMembersRebalance(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 5))
		m := b.join("g", "a", 30*time.Minute)
		topics := [2]string{"b", "a"}
		for round := range int(2 * retention / (20 * time.Minute)) {
			m.join(topics[round%2], 30*time.Minute) // reads another topic now, and never syncs
			time.Sleep(20*time.Minute - 4*time.Second)
		}
		synctest.Wait()
		b.expect("g", a(0, 0), at(5))
	})
}

func TestAStableGroupKeepsWhatItReads(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 5), offset{topic: "b", id: topicB, offset: 6})
		m := b.join("g", "a", 30*time.Minute)
		m.sync()
		for elapsed := time.Duration(0); elapsed < retention+time.Hour; elapsed += 20 * time.Minute {
			time.Sleep(20 * time.Minute)
			b.event("g", func(t turn, group *classic.Group) machine.Step {
				request := kmsg.NewPtrHeartbeatRequest()
				request.MemberID, request.Generation = m.id, m.generation
				if err := group.Heartbeat(t.now, request); err != nil {
					b.t.Error(err)
				}
				return t.reply(kmsg.NewPtrHeartbeatResponse())
			})
		}
		synctest.Wait()
		b.expect("g", a(0, 0), at(5))
		b.expect("g", offset{topic: "b", id: topicB}, none)
	})
}

func TestOF14ARestartDoesNotTouchTheClocks(t *testing.T) {
	inBubble(t, func(b *bench) {
		m := b.join("g", "a", 10*time.Second)
		m.sync()
		b.mustNotBeEmpty("g")
		time.Sleep(time.Minute) // the session ends
		b.mustCommit("g", a(0, 5))
		b.mustCommit("simple", a(0, 6))
		for range 3 {
			time.Sleep(retention/4 + time.Minute)
			b.restart()
			b.expect("g", a(0, 0), at(5))
			b.expect("simple", a(0, 0), at(6))
		}
		time.Sleep(retention/4 - 5*time.Minute)
		synctest.Wait()
		b.expect("g", a(0, 0), at(5))
		time.Sleep(checkInterval + 5*time.Minute)
		synctest.Wait()
		b.expect("g", a(0, 0), none)
		b.expect("simple", a(0, 0), none)
	})
}

func (b *bench) mustNotBeEmpty(group string) {
	b.t.Helper()
	if got := b.groups(); got[group] == "Empty" || got[group] == "" {
		b.t.Fatalf("groups: %v", got)
	}
}

// Clients of OffsetCommit v2–v4 may say for how long an offset is to be kept.
func TestAClientMaySayHowLongAnOffsetIsKept(t *testing.T) {
	inBubble(t, func(b *bench) {
		short, long := commitRequest("short", a(0, 5)), commitRequest("long", a(0, 6))
		short.Version, short.RetentionTimeMillis = 4, time.Hour.Milliseconds()
		long.Version, long.RetentionTimeMillis = 4, 3*retention.Milliseconds()
		b.commit(short)
		b.commit(long)
		b.restart()
		time.Sleep(time.Hour - time.Minute)
		synctest.Wait()
		b.expect("short", a(0, 0), at(5))
		time.Sleep(2 * checkInterval)
		synctest.Wait()
		b.expect("short", a(0, 0), none)
		time.Sleep(2 * retention)
		synctest.Wait()
		b.expect("long", a(0, 0), at(6))
	})
}

func TestOF19OffsetsGoWithTheirTopic(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 5), a(1, 6), offset{topic: "b", id: topicB, offset: 7})
		b.mustCommit("only", a(0, 8))
		if code := b.commitInTransaction("open", a(0, 9)); code != kafka.None {
			t.Fatal(code)
		}
		b.topics = memoryTopics{"b": topicB}
		b.coordinator.TopicsDeleted()
		synctest.Wait()
		want := map[kafka.TopicPartition]fetched{{Topic: "b"}: at(7)}
		if got := b.fetchAll("g"); !maps.Equal(got, want) {
			t.Errorf("offsets of the group: %+v", got)
		}
		if got := b.fetchAll("only"); len(got) != 0 {
			t.Errorf("offsets of the group that had no others: %+v", got)
		}
		b.endTransaction(record.Commit)
		if got := b.fetchAll("open"); len(got) != 0 {
			t.Errorf("offsets of a transaction that was open: %+v", got)
		}
	})
}

// Of a topic that was made anew the old offsets are none, whether they have been removed already or not.
func TestOF19OffsetsOfAnEarlierTopicOfTheNameAreNone(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.mustCommit("g", a(0, 5))
		anew := offset{topic: "a", id: topicA2, partition: 1, offset: 3}
		b.topics = memoryTopics{"a": topicA2}
		b.expect("g", offset{topic: "a", id: topicA2}, none)
		b.mustCommit("g", anew)
		b.restart() // the broker may have been away when the topic went
		want := map[kafka.TopicPartition]fetched{{Topic: "a", Partition: 1}: at(3)}
		if got := b.fetchAll("g"); !maps.Equal(got, want) {
			t.Errorf("offsets of the group: %+v", got)
		}
	})
}
