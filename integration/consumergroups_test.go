package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupLedger is what the members of one group say: which partitions they have, and what they have read.
type groupLedger struct {
	s *scenario

	mu     sync.Mutex // guards the fields below
	owners map[string]*groupMember
	read   map[string]int // how often each record was read
}

// groupMember is one member: a client that reads until it is closed.
type groupMember struct {
	name   string
	client *kgo.Client
	ledger *groupLedger
	done   chan struct{}
}

func (s *scenario) groupLedger() *groupLedger {
	return &groupLedger{s: s, owners: map[string]*groupMember{}, read: map[string]int{}}
}

// join starts a member of the consumer protocol.
func (l *groupLedger) join(name, group string, options ...kgo.Opt) *groupMember {
	l.s.t.Helper()
	return l.joinWith(name, group, append([]kgo.Opt{
		kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
	}, options...)...)
}

// joinWith starts a member of either protocol.
func (l *groupLedger) joinWith(name, group string, options ...kgo.Opt) *groupMember {
	l.s.t.Helper()
	m := &groupMember{name: name, ledger: l, done: make(chan struct{})}
	m.client = l.s.client(append([]kgo.Opt{
		kgo.ClientID(name), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			l.own(m, assigned)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				l.s.t.Errorf("member %s commits what it has to give up: %v", name, err)
			}
			l.disown(m, revoked)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { l.disown(m, lost) }),
	}, options...)...)
	go func() {
		defer close(m.done)
		for {
			fetches := m.client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(l.note)
		}
	}()
	return m
}

func (l *groupLedger) own(m *groupMember, assigned map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, partitions := range assigned {
		for _, partition := range partitions {
			tp := fmt.Sprintf("%s-%d", topic, partition)
			if owner, taken := l.owners[tp]; taken && owner != m {
				l.s.t.Errorf("member %s gets %s, which member %s has", m.name, tp, owner.name)
			}
			l.owners[tp] = m
		}
	}
}

func (l *groupLedger) disown(m *groupMember, gone map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, partitions := range gone {
		for _, partition := range partitions {
			if tp := fmt.Sprintf("%s-%d", topic, partition); l.owners[tp] == m {
				delete(l.owners, tp)
			}
		}
	}
}

func (l *groupLedger) note(record *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read[fmt.Sprintf("%s-%d@%d", record.Topic, record.Partition, record.Offset)]++
}

// shares lists how many partitions the members have, fewest first.
func (l *groupLedger) shares(members ...*groupMember) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var shares []int
	for _, m := range members {
		count := 0
		for _, owner := range l.owners {
			if owner == m {
				count++
			}
		}
		shares = append(shares, count)
	}
	slices.Sort(shares)
	return shares
}

// expectShares waits until the members have so many partitions.
func (l *groupLedger) expectShares(want []int, members ...*groupMember) {
	l.s.t.Helper()
	l.s.eventually(fmt.Sprintf("shares of %v", want), func() bool { return slices.Equal(l.shares(members...), want) })
}

// expectRead waits until count records have been read, each just once.
func (l *groupLedger) expectRead(count int) {
	l.s.t.Helper()
	l.s.eventually(fmt.Sprintf("%d records are read", count), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.read) == count
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for record, times := range l.read {
		if times > 1 {
			l.s.t.Errorf("%s was read %d times", record, times)
		}
	}
}

// leave closes a member: it leaves the group.
func (m *groupMember) leave() {
	m.client.Close()
	<-m.done
}

// leaveForAWhile closes a static member as librdkafka and the Java client do it. kgo forgets to say which instance
// leaves, and is not heard.
func (m *groupMember) leaveForAWhile(group, instance string) {
	s := m.ledger.s
	memberID, _ := m.client.GroupMetadata()
	m.leave()
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Group, request.MemberID, request.InstanceID, request.MemberEpoch = group, memberID, &instance, -2
	response := try(request.RequestWith(s.context(), s.client())).orFail(s.t)
	must(s.t, kerr.ErrorForCode(response.ErrorCode))
}

func (s *scenario) produceToAll(topic string, partitions int32, each int) {
	s.t.Helper()
	producer := s.client()
	var list []*kgo.Record
	for n := range each {
		for partition := range partitions {
			list = append(list, &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "%d", n)})
		}
	}
	s.produce(producer, list...)
}

// describeConsumers asks for a group of the consumer protocol.
func (s *scenario) describeConsumers(group string) kmsg.ConsumerGroupDescribeResponseGroup {
	s.t.Helper()
	request := kmsg.NewPtrConsumerGroupDescribeRequest()
	request.Groups = []string{group}
	response := try(request.RequestWith(s.context(), s.client())).orFail(s.t)
	return response.Groups[0]
}

// Members of one group share a topic, another group gets all of it; who comes too late idles, and takes over.
func TestConsumersShareATopic(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("events", 4, nil)
		s.produceToAll("events", 4, 10)
		group, other := s.groupLedger(), s.groupLedger()
		topic := kgo.ConsumeTopics("events")

		a := group.join("a", "g", topic)
		group.expectShares([]int{4}, a)
		b := group.join("b", "g", topic)
		group.expectShares([]int{2, 2}, a, b)
		group.expectRead(40)
		single := other.join("single", "h", topic)
		other.expectShares([]int{4}, single)
		other.expectRead(40)

		members := []*groupMember{a, b}
		for _, name := range []string{"c", "d", "surplus"} {
			members = append(members, group.join(name, "g", topic))
		}
		group.expectShares([]int{0, 1, 1, 1, 1}, members...)
		a.leave()
		group.expectShares([]int{1, 1, 1, 1}, members[1:]...)
		s.produceToAll("events", 4, 10)
		group.expectRead(80)
		other.expectRead(80)
		for _, m := range append(members[1:], single) {
			m.leave()
		}
		if state := s.describeConsumers("g").State; state != "Empty" {
			t.Errorf("the group that all have left is %s", state)
		}
	})
}

// A group outlives its broker: its members go on in their epochs, with what they had.
func TestConsumersOutliveTheBroker(t *testing.T) {
	for _, what := range []loss{loseNothing, loseSome, loseAllUnsynced} {
		t.Run(what.String(), func(t *testing.T) {
			run(t, 1, nil, func(s *scenario) {
				s.createTopic("events", 4, nil)
				s.produceToAll("events", 4, 5)
				group := s.groupLedger()
				a, b := group.join("a", "g", kgo.ConsumeTopics("events")), group.join("b", "g", kgo.ConsumeTopics("events"))
				group.expectShares([]int{2, 2}, a, b)
				group.expectRead(20)
				s.sleep(10 * time.Second) // both commit, and neither has anything to say
				before := s.describeConsumers("g")
				s.crash(what)
				s.produceToAll("events", 4, 5)
				group.expectRead(40)
				s.sleep(20 * time.Second)
				after := s.describeConsumers("g")
				if before.State != "Stable" || after.State != "Stable" || before.Epoch != after.Epoch {
					t.Errorf("the group was %s in epoch %d and is %s in %d", before.State, before.Epoch, after.State, after.Epoch)
				}
				for i := range before.Members {
					if before.Members[i].MemberID != after.Members[i].MemberID {
						t.Errorf("member %s has become %s", before.Members[i].MemberID, after.Members[i].MemberID)
					}
				}
				a.leave()
				b.leave()
			})
		})
	}
}

// TestGR10ExpressionsOfMembers: a member that subscribes to an expression gets new topics without doing anything.
func TestGR10ExpressionsOfMembers(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		for _, topic := range []string{"topic-1", "topic-2", "other"} {
			s.createTopic(topic, 1, nil)
		}
		group := s.groupLedger()
		a := group.join("a", "g", kgo.ConsumeRegex(), kgo.ConsumeTopics("^topic.*"))
		group.expectShares([]int{2}, a)
		described := s.describeConsumers("g").Members[0]
		if regex := described.SubscribedTopicRegex; regex == nil || *regex == "" {
			t.Fatalf("the client resolves its expression itself: %+v", described)
		}
		s.createTopic("topic-3", 2, nil)
		group.expectShares([]int{4}, a)
		a.leave()
	})
}

// A static member that restarts in its session finds its partitions where it left them, and nobody else notices.
func TestStaticConsumersReturn(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("events", 4, nil)
		group, topic := s.groupLedger(), kgo.ConsumeTopics("events")
		a := group.join("a", "g", topic, kgo.InstanceID("i"))
		b := group.join("b", "g", topic)
		group.expectShares([]int{2, 2}, a, b)
		had := func(m *groupMember) []string {
			group.mu.Lock()
			defer group.mu.Unlock()
			owned := maps.Clone(group.owners)
			maps.DeleteFunc(owned, func(_ string, owner *groupMember) bool { return owner != m })
			return slices.Sorted(maps.Keys(owned))
		}
		s.sleep(10 * time.Second)
		before, epoch := had(a), s.describeConsumers("g").Epoch
		a.leaveForAWhile("g", "i")
		s.sleep(20 * time.Second)
		group.expectShares([]int{2}, b)
		again := group.join("again", "g", topic, kgo.InstanceID("i"))
		group.expectShares([]int{2, 2}, again, b)
		if after := had(again); !slices.Equal(before, after) {
			t.Errorf("it had %v and has %v", before, after)
		}
		if after := s.describeConsumers("g").Epoch; after != epoch {
			t.Errorf("the group has gone from epoch %d to %d", epoch, after)
		}
		again.leaveForAWhile("g", "i")
		s.sleep(time.Minute) // it does not come back
		group.expectShares([]int{4}, b)
		b.leave()
	})
}

// A live group goes over to the consumer protocol with its first member of that, and back with the last: nothing is
// read twice, and no partition has two readers.
func TestConsumersGoOverToTheOtherProtocolAndBack(t *testing.T) {
	run(t, 1, nil, func(s *scenario) {
		s.createTopic("events", 4, nil)
		s.produceToAll("events", 4, 5)
		group, topic := s.groupLedger(), kgo.ConsumeTopics("events")
		old := group.joinWith("old", "g", topic)
		group.expectShares([]int{4}, old)
		group.expectRead(20)
		s.sleep(10 * time.Second)

		next := group.join("next", "g", topic)
		group.expectShares([]int{2, 2}, old, next)
		described := s.describeConsumers("g")
		if described.State != "Stable" || len(described.Members) != 2 {
			t.Errorf("the group of both protocols is %s and has %d members", described.State, len(described.Members))
		}
		s.produceToAll("events", 4, 5)
		group.expectRead(40)
		s.sleep(10 * time.Second)
		old.leave()
		group.expectShares([]int{4}, next)

		again := group.joinWith("again", "g", topic)
		group.expectShares([]int{2, 2}, again, next)
		s.produceToAll("events", 4, 5)
		group.expectRead(60)
		s.sleep(10 * time.Second)
		next.leave()
		group.expectShares([]int{4}, again)
		groups := try(s.admin().DescribeGroups(s.context(), "g")).orFail(s.t)
		if g := groups["g"]; g.Err != nil || g.State != "Stable" || len(g.Members) != 1 {
			t.Errorf("the group of one classic member is %+v", g)
		}
		s.produceToAll("events", 4, 5)
		group.expectRead(80)
		again.leave()
	})
}
