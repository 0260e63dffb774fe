package consumer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// client is a member as a client sees it.
type client struct {
	id       string
	instance *string
	epoch    int32
	topics   []string
	regex    string
	held     owned // what it reads
}

// world is a group, its clients and what goes wrong between them.
type world struct {
	*scenario
	t        *rapid.T
	clients  []*client
	came     int
	settling bool
}

// TestNoPartitionIsReadByTwoMembers lets members come, go, subscribe, lose answers and be slow, while topics change,
// writes fail and the group is loaded from its journal. At no time do two members hold one partition; the journal
// always says what the group is; and in the end, when nothing goes wrong any more, every member holds its target and
// nothing is left over.
func TestNoPartitionIsReadByTwoMembers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{scenario: newScenario(t), t: rt}
		w.intervals.Assignment = time.Duration(rapid.IntRange(0, 2).Draw(rt, "interval")) * time.Second
		w.group = w.newGroup()
		w.drawTopics()
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			w.event()
			w.check()
		}
		w.settle()
	})
}

func (w *world) drawTopics() {
	topics := testTopics{}
	for _, name := range []string{"t1", "t2", "u1"} {
		if n := rapid.Int32Range(0, 4).Draw(w.t, name); n > 0 {
			topics[name] = n
		}
	}
	w.topics = &topics
}

func (w *world) event() {
	if len(w.clients) == 0 || rapid.IntRange(0, 9).Draw(w.t, "comes") == 0 {
		w.come()
		return
	}
	c := rapid.SampledFrom(w.clients).Draw(w.t, "client")
	switch rapid.IntRange(0, 12).Draw(w.t, "event") {
	case 0:
		w.leave(c)
	case 1:
		w.drawTopics()
	case 2:
		w.drawSubscription(c)
	case 3:
		w.wait(time.Duration(rapid.IntRange(1, 20).Draw(w.t, "seconds")) * time.Second)
	case 4:
		w.reload()
	case 5:
		w.fails = true
		w.heartbeatOf(c, true)
		w.fails = false
	case 6:
		w.heartbeatOf(c, true)
	default:
		w.heartbeatOf(c, false)
	}
}

func (w *world) come() {
	w.came++
	c := &client{id: fmt.Sprintf("m%d", w.came), held: owned{}}
	if rapid.Bool().Draw(w.t, "static") {
		instance := fmt.Sprintf("i%d", rapid.IntRange(0, 2).Draw(w.t, "instance"))
		c.instance = &instance
	}
	w.clients = append(w.clients, c)
	w.drawSubscription(c)
}

func (w *world) drawSubscription(c *client) {
	c.topics = rapid.SampledFrom([][]string{{}, {"t1"}, {"t1", "u1"}, {"t2", "gone"}}).Draw(w.t, "topics")
	c.regex = rapid.SampledFrom([]string{"", "t.*", "u.*"}).Draw(w.t, "regex")
}

func (w *world) leave(c *client) {
	epoch := leaveEpoch
	if c.instance != nil && rapid.Bool().Draw(w.t, "returns") {
		epoch = staticLeaveEpoch
	}
	w.send(c, &kmsg.ConsumerGroupHeartbeatRequest{MemberEpoch: epoch, RebalanceTimeoutMillis: -1}, true)
	w.clients = slices.DeleteFunc(w.clients, func(other *client) bool { return other == c })
}

// heartbeatOf sends what a client has to say. If the answer gets lost it says the same again later.
func (w *world) heartbeatOf(c *client, lost bool) {
	regex := c.regex // which may change, the request may not
	request := &kmsg.ConsumerGroupHeartbeatRequest{
		MemberEpoch: c.epoch, SubscribedTopicNames: c.topics, SubscribedTopicRegex: &regex,
		RebalanceTimeoutMillis: 10_000, Topics: c.held.list(),
	}
	response, err := w.send(c, request, lost)
	switch {
	case lost:
	case err == kafka.FencedMemberEpoch || err == kafka.UnknownMemberID || err == kafka.FencedInstanceID:
		c.held, c.epoch = owned{}, 0
	case err == nil && response != nil:
		w.follow(c, response)
	}
}

// follow does what an answer says: first what is not the client's any more is given up; what is new is only taken if
// nothing was to be given up, else after the next heartbeat has said so.
func (w *world) follow(c *client, response *kmsg.ConsumerGroupHeartbeatResponse) {
	c.epoch = response.MemberEpoch
	if response.Assignment == nil {
		return
	}
	slow := !w.settling && rapid.IntRange(0, 3).Draw(w.t, "slow") == 0
	has := owned{}
	for _, topic := range response.Assignment.Topics {
		for _, partition := range topic.Partitions {
			has[kafka.TopicIDPartition{ID: topic.TopicID, Partition: partition}] = struct{}{}
		}
	}
	if slow { // it has not finished with what it is to give up
		for tp := range c.held {
			has[tp] = struct{}{}
		}
	}
	c.held = has
}

func (o owned) list() []kmsg.ConsumerGroupHeartbeatRequestTopic {
	list := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for tp := range o {
		list = append(list, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: tp.ID, Partitions: []int32{tp.Partition}})
	}
	return list
}

// send sends a request. The answer is nil if it is lost.
func (w *world) send(c *client, request *kmsg.ConsumerGroupHeartbeatRequest, lost bool) (
	*kmsg.ConsumerGroupHeartbeatResponse, error,
) {
	request.Version, request.Group, request.MemberID, request.InstanceID = 1, "g", c.id, c.instance
	if request.MemberEpoch == joinEpoch {
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	h := Heartbeat{Waiter: w.waiter(), Request: request, Client: machine.Client{ID: "c", Host: "/h"}}
	step, err := w.group.(*Group).Heartbeat(w.now, h)
	if err != nil {
		return nil, kafka.CodeOf(err)
	}
	failed := w.fails && len(step.Records) > 0
	w.carryOut(step)
	if failed || lost {
		return nil, nil
	}
	return step.Replies[0].Response.(*kmsg.ConsumerGroupHeartbeatResponse), nil
}

// check makes sure of what is always so. Who is not a member any more does not know it yet, and is left out.
func (w *world) check() {
	g := w.group.(*Group)
	holders := map[kafka.TopicIDPartition]string{}
	for _, c := range w.clients {
		m, ok := g.members[c.id]
		if !ok || m.epoch == staticLeaveEpoch {
			continue
		}
		for tp := range c.held {
			if other, taken := holders[tp]; taken {
				w.t.Fatalf("%v is held by %s and by %s", tp, other, c.id)
			}
			holders[tp] = c.id
		}
	}
	owners := 0
	for _, m := range g.members {
		owners += m.assigned.assignment().Size() + m.revoking.assignment().Size()
	}
	if owners != len(g.owners) {
		w.t.Fatalf("%d partitions with an owner, %d that members have", len(g.owners), owners)
	}
	if diff := cmp.Diff(persisted(g), persisted(w.loaded())); diff != "" {
		w.t.Fatalf("the journal says another thing than the group (- group, + journal):\n%s", diff)
	}
}

// settle lets everybody go on until all is done. Who were slow for longer than its rebalance timeout would be sent away,
// and come back with another epoch, in the last round, too.
func (w *world) settle() {
	w.settling = true
	for range 20 {
		w.wait(5 * time.Second)
		for _, c := range w.clients {
			w.heartbeatOf(c, false)
			w.check()
		}
	}
	g := w.group.(*Group)
	if len(g.members) == 0 {
		return
	}
	if state := g.state(); state != "Stable" {
		w.t.Fatalf("the group is %s:\n%s", state, w.scenario.state())
	}
	for _, c := range w.clients {
		m, ok := g.members[c.id]
		if !ok { // another one has its instance id
			continue
		}
		if !m.assigned.assignment().Equal(g.target[c.id]) || len(m.revoking) > 0 {
			w.t.Fatalf("member %s is not where it should be:\n%s", c.id, w.scenario.state())
		}
		if len(c.held) != g.target[c.id].Size() || !c.held.within(m.assigned) {
			w.t.Fatalf("client %s holds %v, not %v", c.id, c.held, m.assigned)
		}
	}
}
