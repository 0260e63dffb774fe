//go:build integration

package clients

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/firnlog/firn/integration/launch"
	"github.com/firnlog/firn/integration/process"
)

// groupSettings make groups begin at once, and members and transactions be missed soon.
func groupSettings() []string {
	return []string{
		"group.initial.rebalance.delay.ms=0", "group.consumer.session.timeout.ms=6000",
		"group.consumer.min.session.timeout.ms=6000", "group.consumer.heartbeat.interval.ms=500",
		"group.consumer.min.heartbeat.interval.ms=500", "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
	}
}

// serveGroups starts a node whose groups do not wait long. With FIRN_ORACLE=1 it is one of Apache Kafka 4.4, to see
// that a test asks for what Kafka does.
func serveGroups(t *testing.T) *process.Node {
	t.Helper()
	if os.Getenv("FIRN_ORACLE") != "1" {
		return process.Serve(t, process.Options{Set: groupSettings()})
	}
	kafka := launch.Kafka{
		Lib: process.Program(t, "FIRN_KAFKA_LIB", filepath.Join("..", "..", ".cache", "kafka")),
		Dir: t.TempDir(), CPU: launch.AnyCPU, Java: []string{"-Xmx768m"},
		Settings: append([]string{
			"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
			"transaction.state.log.min.isr=1", "share.coordinator.state.topic.replication.factor=1",
			"share.coordinator.state.topic.min.isr=1",
		}, groupSettings()...),
	}
	broker, err := kafka.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Kill)
	return process.Other(t, broker.Address)
}

// TestGroupsOfEachClient has members of one client, and then members of several, share a topic: each record is read
// once by the group, another group reads all of it again, a member without a partition takes over from one that leaves,
// and the committed offsets are where reading has ended. What was seen to work is a table of the protocol page.
func TestGroupsOfEachClient(t *testing.T) {
	t.Parallel()
	node := serveGroups(t)
	all := clients()
	seen := observed{cells: map[cell]bool{}}
	missing := make([]bool, len(all))
	for _, p := range []protocol{classic, next} {
		t.Run(string(p), func(t *testing.T) {
			runEach(t, all, func(t *testing.T, i int) {
				c := &all[i]
				if !c.can(joins, feature(p)) {
					return
				}
				missing[i] = true
				expectSharing(t, node, p, []*client{c, c, c})
				missing[i] = false
				if !t.Failed() {
					seen.add(c, joins, feature(p))
				}
			})
		})
	}
	for _, p := range []protocol{ranges, next} {
		t.Run("mixed "+string(p), func(t *testing.T) {
			var members []*client
			for i := range all {
				if all[i].can(joins, feature(p), mixed) && !missing[i] {
					members = append(members, &all[i])
				}
			}
			expectSharing(t, node, p, members)
			for _, c := range members {
				if !t.Failed() {
					seen.add(c, joins, mixed)
				}
			}
		})
	}
	t.Run("transactions", func(t *testing.T) { expectTransactions(t, node, all, missing, &seen) })
	if i := slices.Index(missing, true); i >= 0 {
		t.Logf("without %s what was seen is not compared with the page", all[i].name)
	} else if !t.Failed() {
		expectOnPage(t, "groups", seen.table(t, grouped))
	}
}

// sharing is a group of members of one client or several.
type sharing struct {
	t          *testing.T
	node       *process.Node
	admin      *kadm.Client
	p          protocol
	topic      string
	partitions int
	records    chan heard
	crews      map[string]crew // of each client
	members    map[string]crew
	written    int
}

// mostHeard is more than members say before somebody listens.
const mostHeard = 10_000

// expectSharing has a group of as many members as are named share a topic that has one partition less.
func expectSharing(t *testing.T, node *process.Node, p protocol, of []*client) {
	t.Helper()
	name := strings.ReplaceAll(of[0].name, " ", "-") + "-" + string(p)
	if of[0] != of[1] {
		name = "mixed-" + string(p)
	}
	s := &sharing{
		t: t, node: node, admin: kadm.NewClient(node.Client()), p: p, topic: name, partitions: len(of) - 1,
		records: make(chan heard, mostHeard),
		crews:   map[string]crew{}, members: map[string]crew{},
	}
	node.CreateTopic(s.topic, int32(s.partitions))
	for i, c := range of {
		s.join(c, fmt.Sprintf("%s-%d", name, i), name)
	}
	assigned := s.expectStable(name, len(of))
	s.write(100)
	s.expectHeard(0, 100, assigned)
	first := ""
	for _, member := range sorted(assigned) {
		if len(assigned[member]) > 0 {
			first = member
			break
		}
	}
	s.leave(first)
	assigned = s.expectStable(name, len(of)-1)
	s.write(100)
	s.expectHeard(100, 200, assigned)
	s.join(of[0], name+"-other", name+"-other")
	s.expectHeard(0, 200, s.expectStable(name+"-other", 1))
	if of[0] != of[1] {
		s.expectTakeOver(name)
	}
	for _, member := range sorted(s.members) {
		s.leave(member)
	}
	s.expectCommitted(name)
	s.expectCommitted(name + "-other")
}

func sorted[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func (s *sharing) join(c *client, member, group string) {
	s.t.Helper()
	if s.crews[c.name] == nil {
		s.crews[c.name] = c.open(s.t, s.node).(grouping).crew(s.t, s.records)
	}
	s.members[member] = s.crews[c.name]
	s.members[member].join(member, group, s.topic, s.p)
}

func (s *sharing) leave(member string) {
	s.t.Helper()
	s.members[member].leave(member)
	delete(s.members, member)
}

// write appends numbered records, to each partition in turn.
func (s *sharing) write(count int) {
	s.t.Helper()
	client := s.node.Client(kgo.DefaultProduceTopic(s.topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer client.Close()
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = kgo.StringRecord(strconv.Itoa(s.written + i))
	}
	s.written += count
	if err := client.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// expectStable waits until a group has so many members that agree, and every partition belongs to one of them, of whom
// none has more than its share. It returns what each has. A group may agree on less for a while: some members first
// join with nothing to ask for.
func (s *sharing) expectStable(group string, members int) map[string][]int32 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		state, assigned := s.describe(ctx, group)
		if state == "Stable" && len(assigned) == members && shared(assigned, s.partitions) {
			return assigned
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			s.t.Fatalf("%s is not shared by %d members: %s %v", group, members, state, assigned)
		}
	}
}

// shared tells whether every partition belongs to one member, and no member has more than its share.
func shared(assigned map[string][]int32, partitions int) bool {
	owned := map[int32]bool{}
	for _, own := range assigned {
		if share := (partitions + len(assigned) - 1) / len(assigned); len(own) > share {
			return false
		}
		for _, partition := range own {
			if owned[partition] {
				return false
			}
			owned[partition] = true
		}
	}
	return len(owned) == partitions
}

// describe asks for a group's state, and what its members have by their client ids. Where it cannot be told yet, the
// state is why.
func (s *sharing) describe(ctx context.Context, group string) (string, map[string][]int32) {
	assigned := map[string][]int32{}
	if s.p == next {
		described, err := s.admin.DescribeConsumerGroups(ctx, group)
		d := described[group]
		if err := cmp.Or(err, d.Err); err != nil {
			return err.Error(), nil
		}
		for _, m := range d.Members {
			assigned[m.ClientID] = slices.Collect(maps.Keys(m.Assignment[s.topic]))
		}
		return d.State, assigned
	}
	described, err := s.admin.DescribeGroups(ctx, group)
	d := described[group]
	if err := cmp.Or(err, d.Err); err != nil {
		return err.Error(), nil
	}
	for _, m := range d.Members {
		assigned[m.ClientID] = nil
		if c, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range c.Topics {
				assigned[m.ClientID] = append(assigned[m.ClientID], topic.Partitions...)
			}
		}
	}
	return d.State, assigned
}

// expectHeard waits for the records of a range. Each is read once, by the member that has its partition.
func (s *sharing) expectHeard(from, to int, assigned map[string][]int32) {
	s.t.Helper()
	got := make([]bool, to-from)
	for range to - from {
		h := s.hear()
		number, err := strconv.Atoi(h.Value)
		if err != nil || number < from || number >= to || got[number-from] {
			s.t.Fatalf("%+v is heard, want each of %d to %d once", h, from, to-1)
		}
		if !slices.Contains(assigned[h.Member], h.Partition) {
			s.t.Fatalf("%+v is heard, while partitions are assigned as %v", h, assigned)
		}
		got[number-from] = true
	}
}

func (s *sharing) hear() heard {
	s.t.Helper()
	select {
	case h := <-s.records:
		return h
	case <-time.After(patience):
		s.t.Fatal("nothing is heard")
		return heard{}
	}
}

// expectTakeOver kills a member that says nothing to the broker, whose partition another one takes over, from the
// offset that was committed: what was read since is read again.
func (s *sharing) expectTakeOver(group string) {
	s.t.Helper()
	for _, member := range sorted(s.members) {
		if c, ok := s.members[member].(*programCrew); ok && !strings.HasSuffix(member, "-other") {
			c.kill()
			delete(s.members, member)
			break
		}
	}
	s.expectStable(group, len(s.members)-1) // the other group has one
	from := s.written
	s.write(100)
	for missing := 2 * 100; missing > 0; { // both groups
		h := s.hear()
		number, err := strconv.Atoi(h.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		if number >= from {
			missing--
		}
	}
}

// expectCommitted checks that a group has committed all that was written.
func (s *sharing) expectCommitted(group string) {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.t.Context(), s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	committed, err := s.admin.FetchOffsets(s.t.Context(), group)
	if err != nil {
		s.t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if at, ok := committed.Lookup(s.topic, end.Partition); !ok || at.At != end.Offset || at.Err != nil {
			s.t.Errorf("%s has committed %+v in partition %d, whose end is %d", group, at.At, end.Partition, end.Offset)
		}
	})
}
