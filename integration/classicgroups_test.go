package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeClassic asks for a group of the classic protocol.
func (s *scenario) describeClassic(group string) kmsg.DescribeGroupsResponseGroup {
	s.t.Helper()
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = []string{group}
	response := try(request.RequestWith(s.context(), s.client())).orFail(s.t)
	return response.Groups[0]
}

// joinClassic starts a member of the classic protocol. It commits what it gives up, and nothing in between: where kgo
// commits by itself it waits for a mutex while the group rebalances, which would keep time from passing.
func (l *groupLedger) joinClassic(name, group string, options ...kgo.Opt) *groupMember {
	l.s.t.Helper()
	return l.joinWith(name, group, append([]kgo.Opt{kgo.DisableAutoCommit()}, options...)...)
}

// had lists the partitions of a member.
func (l *groupLedger) had(m *groupMember) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	owned := maps.Clone(l.owners)
	maps.DeleteFunc(owned, func(_ string, owner *groupMember) bool { return owner != m })
	return slices.Sorted(maps.Keys(owned))
}

// Members of one group share a topic, another group gets all of it; who comes too late idles, and takes over.
func TestClassicMembersShareATopic(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{
		"eager": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 30, nil, func(s *scenario) {
				s.createTopic("events", 4, nil)
				s.produceToAll("events", 4, 10)
				group, other := s.groupLedger(), s.groupLedger()
				options := []kgo.Opt{kgo.ConsumeTopics("events"), kgo.Balancers(balancer)}

				a := group.joinClassic("a", "g", options...)
				group.expectShares([]int{4}, a)
				b := group.joinClassic("b", "g", options...)
				group.expectShares([]int{2, 2}, a, b)
				group.expectRead(40)
				single := other.joinClassic("single", "h", options...)
				other.expectShares([]int{4}, single)
				other.expectRead(40)

				members := []*groupMember{a, b}
				for _, name := range []string{"c", "d", "surplus"} {
					members = append(members, group.joinClassic(name, "g", options...))
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
				if described := s.describeClassic("g"); described.State != "Empty" || len(described.Members) > 0 {
					t.Errorf("the group that all have left is %+v", described)
				}
			})
		})
	}
}

// A group outlives its broker: its members go on in their generation, with what they had, and nothing that was committed
// is read again.
func TestClassicMembersOutliveTheBroker(t *testing.T) {
	for _, what := range []loss{loseNothing, loseSome, loseAllUnsynced} {
		t.Run(what.String(), func(t *testing.T) {
			run(t, 31, nil, func(s *scenario) {
				s.createTopic("events", 4, nil)
				s.produceToAll("events", 4, 5)
				group, topic := s.groupLedger(), kgo.ConsumeTopics("events")
				a := group.joinClassic("a", "g", topic)
				b := group.joinClassic("b", "g", topic)
				group.expectShares([]int{2, 2}, a, b)
				group.expectRead(20)
				s.sleep(10 * time.Second)
				before := s.describeClassic("g")
				s.crash(what)
				s.produceToAll("events", 4, 5)
				group.expectRead(40)
				s.sleep(20 * time.Second)
				if after := s.describeClassic("g"); before.State != "Stable" || fmt.Sprint(before) != fmt.Sprint(after) {
					t.Errorf("the group was\n%+v\nand is\n%+v", before, after)
				}
				a.leave()
				b.leave()
				s.crash(what)
				c := group.joinClassic("c", "g", topic)
				group.expectShares([]int{4}, c)
				s.produceToAll("events", 4, 5)
				group.expectRead(60)
				c.leave()
			})
		})
	}
}

// A static member that restarts within its session finds its partitions where it left them, and nobody else notices.
func TestGR08StaticMembersReturn(t *testing.T) {
	run(t, 32, nil, func(s *scenario) {
		s.createTopic("events", 4, nil)
		group, topic := s.groupLedger(), kgo.ConsumeTopics("events")
		a := group.joinClassic("a", "g", topic, kgo.InstanceID("i"))
		b := group.joinClassic("b", "g", topic, kgo.InstanceID("j"))
		group.expectShares([]int{2, 2}, a, b)
		for range 2 {
			s.sleep(10 * time.Second)
			before, assignments := group.had(a), memberAssignments(s.describeClassic("g"))
			a.leave()
			s.sleep(20 * time.Second)
			group.expectShares([]int{2}, b)
			a = group.joinClassic("again", "g", topic, kgo.InstanceID("i"))
			group.expectShares([]int{2, 2}, a, b)
			if after := group.had(a); !slices.Equal(before, after) {
				t.Errorf("it had %v and has %v", before, after)
			}
			if after := memberAssignments(s.describeClassic("g")); !maps.Equal(assignments, after) {
				t.Errorf("the group was assigned\n%q\nand is\n%q", assignments, after)
			}
		}
		a.leave()
		s.sleep(time.Minute) // it does not come back
		group.expectShares([]int{4}, b)
		b.leave()
	})
}

// memberAssignments are those of a group by instance.
func memberAssignments(group kmsg.DescribeGroupsResponseGroup) map[string]string {
	assignments := map[string]string{}
	for _, m := range group.Members {
		assignments[*m.InstanceID] = string(m.MemberAssignment)
	}
	return assignments
}

// The only static member is away, and the broker with it: it gets in when both are back.
func TestGR13AStaticMemberReturnsAfterTheBroker(t *testing.T) {
	run(t, 33, nil, func(s *scenario) {
		s.createTopic("events", 2, nil)
		group, topic := s.groupLedger(), kgo.ConsumeTopics("events")
		for range 3 {
			m := group.joinClassic("m", "g", topic, kgo.InstanceID("i"))
			s.sleep(time.Second) // it may still be waiting to join
			s.crash(loseSome)
			group.expectShares([]int{2}, m)
			m.leave()
		}
	})
}

// Members that vanish are found out, and the partitions go to the one that is left.
func TestGR04MembersThatVanishAreMissed(t *testing.T) {
	run(t, 34, nil, func(s *scenario) {
		s.createTopic("events", 4, nil)
		group, topic := s.groupLedger(), kgo.ConsumeTopics("events")
		session := kgo.SessionTimeout(10 * time.Second)
		a := group.joinClassic("a", "g", topic, session)
		// Whoever leaves as a static member does not say so.
		b := group.joinClassic("b", "g", topic, session, kgo.InstanceID("b"))
		c := group.joinClassic("c", "g", topic, session, kgo.InstanceID("c"))
		group.expectShares([]int{1, 1, 2}, a, b, c)
		b.leave()
		c.leave()
		s.sleep(30 * time.Second)
		group.expectShares([]int{4}, a)
		a.leave()
	})
}
