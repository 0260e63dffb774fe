package classic

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// chaos is a group at the mercy of clients that send anything at any time, and of a journal that fails at times.
type chaos struct {
	*rapid.T
	group      *Group
	settings   Settings
	now        time.Time
	next       int // numbers ids and waiters
	waiting    map[machine.Waiter]bool
	unwritten  []machine.Step
	memberIDs  []string
	generation int32
}

func TestAnyHistoryKeepsTheGroupsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &chaos{
			T: t, now: time.UnixMilli(0), waiting: map[machine.Waiter]bool{}, memberIDs: []string{"", "never"},
			settings: Settings{
				MinSessionTimeout: time.Second, MaxSessionTimeout: time.Minute,
				InitialRebalanceDelay: rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "delay"),
				MaxSize:               rapid.IntRange(1, 6).Draw(t, "size"),
			},
		}
		c.group = New("g", c.settings, c.now)
		for range rapid.IntRange(1, 100).Draw(t, "events") {
			c.step(rapid.SampledFrom([]string{
				"join", "join", "join", "join", "sync", "sync", "heartbeat", "leave", "wait", "wait", "written", "written",
			}).Draw(t, "event"))
			c.checkGroup()
		}
		c.giveUp()
	})
}

func (c *chaos) step(event string) {
	switch event {
	case "join":
		c.join()
	case "sync":
		request := kmsg.NewPtrSyncGroupRequest()
		request.MemberID, request.InstanceID = c.who()
		request.Generation = c.anyGeneration()
		for _, m := range c.group.members {
			request.GroupAssignment = append(request.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
				MemberID: m.id, MemberAssignment: []byte(m.id),
			})
		}
		c.carryOut(c.group.Sync(c.waiter(), request))
	case "heartbeat":
		request := kmsg.NewPtrHeartbeatRequest()
		request.MemberID, request.InstanceID = c.who()
		request.Generation = c.anyGeneration()
		_ = c.group.Heartbeat(c.now, request) // whatever it says, the group must be sound
	case "leave":
		request := kmsg.NewPtrLeaveGroupRequest()
		request.Version = int16(rapid.IntRange(0, 5).Draw(c.T, "version"))
		memberID, instanceID := c.who()
		request.MemberID = memberID
		request.Members = []kmsg.LeaveGroupRequestMember{{MemberID: memberID, InstanceID: instanceID}}
		c.carryOut(c.group.Leave(c.now, c.waiter(), request))
	case "wait":
		c.wait(time.Duration(rapid.IntRange(0, 10).Draw(c.T, "seconds")) * time.Second)
	case "written":
		c.written(rapid.SampledFrom([]error{nil, nil, kafka.NotCoordinator}).Draw(c.T, "error"))
	}
}

func (c *chaos) join() {
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version = int16(rapid.IntRange(0, 9).Draw(c.T, "version"))
	if rapid.Bool().Draw(c.T, "new") {
		request.InstanceID = c.instanceID()
	} else {
		request.MemberID, request.InstanceID = c.who()
	}
	request.SessionTimeoutMillis = int32(rapid.IntRange(1, 8).Draw(c.T, "session") * 1000)
	request.RebalanceTimeoutMillis = int32(rapid.IntRange(-1, 15).Draw(c.T, "rebalance") * 1000)
	request.ProtocolType = rapid.SampledFrom([]string{"consumer", "consumer", "consumer", "connect"}).Draw(c.T, "type")
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "b", "c"}), 1, 3).Draw(c.T, "protocols") {
		metadata := rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(c.T, "metadata")
		request.Protocols = append(request.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata})
	}
	waiter := c.waiter()
	id := strconv.Itoa(c.next)
	c.memberIDs = append(c.memberIDs, "x-"+id, "-"+id)
	c.carryOut(c.group.Join(c.now, Join{Waiter: waiter, Request: request, NewID: id}))
}

// who is mostly a member or one to whom an id was given, sometimes somebody of old, under a name that fits or not.
func (c *chaos) who() (memberID string, instanceID *string) {
	ids := slices.Sorted(maps.Keys(c.group.pending))
	for _, m := range c.group.members {
		ids = append(ids, m.id)
	}
	if len(ids) == 0 || rapid.IntRange(0, 5).Draw(c.T, "stranger") == 0 {
		ids = c.memberIDs
	}
	memberID = rapid.SampledFrom(ids).Draw(c.T, "member")
	if m, known := c.group.byID[memberID]; known {
		instanceID = m.instanceID
	}
	if rapid.IntRange(0, 7).Draw(c.T, "misnamed") == 0 {
		return memberID, c.instanceID()
	}
	return memberID, instanceID
}

func (c *chaos) instanceID() *string {
	name := rapid.SampledFrom([]string{"", "x", "y"}).Draw(c.T, "instance")
	if name == "" {
		return nil
	}
	return &name
}

func (c *chaos) anyGeneration() int32 {
	return c.group.generation - int32(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(c.T, "behind"))
}

func (c *chaos) waiter() machine.Waiter {
	c.next++
	c.waiting[machine.Waiter(c.next)] = true
	return machine.Waiter(c.next)
}

func (c *chaos) carryOut(step machine.Step) {
	if len(step.Records) > 0 {
		c.unwritten = append(c.unwritten, step)
		return
	}
	c.end(step, nil)
}

func (c *chaos) end(step machine.Step, err error) {
	if step.Durable != nil {
		c.carryOut(step.Durable(c.now, err))
	}
	for _, r := range step.Replies {
		if !c.waiting[r.Waiter] {
			c.Fatalf("waiter %d is answered, and did not wait", r.Waiter)
		}
		delete(c.waiting, r.Waiter)
	}
}

// written ends the oldest write. A group whose record was written can be loaded from it.
func (c *chaos) written(err error) {
	if len(c.unwritten) == 0 {
		return
	}
	step := c.unwritten[0]
	c.unwritten = c.unwritten[1:]
	var record kmsg.GroupMetadataValue
	if failed := record.ReadFrom(step.Records[0].Value); failed != nil {
		c.Fatal(failed)
	}
	loaded := Load("g", c.settings, &record, c.now)
	if loaded.generation != record.Generation || len(loaded.members) != len(record.Members) {
		c.Fatalf("of %+v comes %+v", record, loaded)
	}
	checkSound(c.T, loaded)
	c.end(step, err)
}

func (c *chaos) wait(long time.Duration) {
	c.now = c.now.Add(long)
	if next, armed := c.group.NextDeadline(); armed && !next.After(c.now) {
		c.carryOut(c.group.Tick(c.now))
	}
	if next, armed := c.group.NextDeadline(); armed && !next.After(c.now) {
		c.Fatalf("at %v the group is due at %v again", c.now, next)
	}
}

// giveUp lets all clients fall silent: in the end everybody has been answered and nobody is left.
func (c *chaos) giveUp() {
	for range 100 {
		c.wait(10 * time.Second)
		c.written(nil)
	}
	if len(c.waiting) > 0 {
		c.Fatalf("%d waiters are never answered", len(c.waiting))
	}
	if c.group.state != Empty || len(c.group.pending) > 0 {
		c.Fatalf("nobody is there any more, and the group is %v with %d members", c.group.state, len(c.group.members))
	}
	if _, armed := c.group.NextDeadline(); armed {
		c.Fatal("an idle group waits for something")
	}
}

func (c *chaos) checkGroup() {
	checkSound(c.T, c.group)
	if c.group.generation < c.generation {
		c.Fatalf("generation %d follows %d", c.group.generation, c.generation)
	}
	c.generation = c.group.generation
	waiting := 0
	for _, m := range c.group.members {
		for _, w := range []machine.Waiter{m.join, m.sync} {
			if w != 0 {
				waiting++
				if !c.waiting[w] {
					c.Fatalf("waiter %d is kept, and has been answered", w)
				}
			}
		}
	}
	for _, step := range c.unwritten {
		waiting += len(step.Replies)
	}
	if waiting != len(c.waiting) {
		c.Fatalf("%d wait, and the group knows of %d", len(c.waiting), waiting)
	}
}

// checkSound holds a group against what is true of every group.
func checkSound(t *rapid.T, g *Group) {
	support, static := votes{}, 0
	for _, m := range g.members {
		for _, p := range m.protocols {
			support[p.name]++
		}
		if g.byID[m.id] != m || m.instanceID != nil && g.static[*m.instanceID] != m {
			t.Fatalf("%s is not found", m.id)
		}
		if m.instanceID != nil {
			static++
		}
		if m.session.IsZero() && m.join == 0 && m.sync == 0 {
			t.Fatalf("%s may be silent for ever", m.id)
		}
		checkArmed(t, g, m.session)
	}
	checkArmed(t, g, g.joinDeadline)
	checkArmed(t, g, g.syncDeadline)
	_, leads := g.byID[g.leader]
	common := slices.ContainsFunc(g.members, func(m *member) bool {
		return slices.ContainsFunc(m.protocols, func(p protocol) bool { return support[p.name] == len(g.members) })
	})
	for what, broken := range map[string]bool{
		"ids are ambiguous":                       len(g.byID) != len(g.members) || len(g.static) != static,
		"support is counted wrong":                !equalVotes(support, g.support),
		"nobody leads":                            len(g.members) > 0 && !leads,
		"it has members and is empty":             g.state == Empty && len(g.members) > 0,
		"it has none and is not":                  len(g.members) == 0 && (g.state == Stable || g.state == CompletingRebalance),
		"its members cannot agree":                len(g.members) > 0 && !common,
		"a rebalance never ends":                  (g.state == PreparingRebalance) == g.joinDeadline.IsZero(),
		"nobody misses those that do not sync":    g.awaitsSync() == g.syncDeadline.IsZero(),
		"a protocol is chosen by nobody":          g.state == Empty && g.protocol != nil,
		"a generation has no protocol":            (g.state == Stable || g.state == CompletingRebalance) && g.protocol == nil,
		"it waits for members that wait for none": g.state == PreparingRebalance && !g.initial && g.allJoined(),
	} {
		if broken {
			t.Fatalf("%s: %+v", what, g)
		}
	}
}

func checkArmed(t *rapid.T, g *Group, deadline time.Time) {
	if next, armed := g.NextDeadline(); !deadline.IsZero() && (!armed || deadline.Before(next)) {
		t.Fatalf("nothing happens at %v", deadline)
	}
}

func equalVotes(a, b votes) bool {
	for name, n := range a {
		if b[name] != n {
			return false
		}
	}
	return len(a) == len(b)
}
