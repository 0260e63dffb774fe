package classic

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// TestScenarios plays the scripts in testdata/scenarios: one event a line, and under each what the group answers and is then.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, file string) {
		s := &scenario{now: time.UnixMilli(0), answered: map[machine.Waiter]bool{}, settings: Settings{
			MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
			InitialRebalanceDelay: 3 * time.Second, MaxSize: 100,
		}}
		s.group = New("g", s.settings, s.now)
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				s.out = nil
				s.play(strings.Fields(line))
				out.WriteString(strings.TrimSpace(line) + "\n")
				for _, said := range s.out {
					out.WriteString("    " + said + "\n")
				}
				out.WriteString("  " + s.state() + "\n")
			}
			return out.String()
		})
	})
}

// scenario is one group, its clock and its journal.
type scenario struct {
	t        *testing.T
	settings Settings
	group    *Group
	now      time.Time
	waiters  machine.Waiter
	answered map[machine.Waiter]bool
	record   []byte // the newest that is written
	holds    bool   // what is to be written stays unwritten until the script says so
	held     []machine.Step
	out      []string
}

// arguments are those of one event, name=value.
type arguments map[string]string

func (a arguments) get(name, otherwise string) string {
	if value, given := a[name]; given {
		return value
	}
	return otherwise
}

func (a arguments) number(name string, otherwise int) int {
	n, err := strconv.Atoi(a.get(name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

func (a arguments) pointer(name string) *string {
	if value, given := a[name]; given {
		return &value
	}
	return nil
}

func (a arguments) milliseconds(name, otherwise string) int32 {
	text := a.get(name, otherwise)
	if text == "-1" {
		return -1
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return int32(d.Milliseconds())
}

func (s *scenario) play(fields []string) {
	args := arguments{}
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, "=")
		args[name] = value
	}
	switch fields[0] {
	case "join":
		s.join(args)
	case "sync":
		s.sync(args)
	case "heartbeat":
		request := kmsg.NewPtrHeartbeatRequest()
		request.MemberID, request.InstanceID = args["member"], args.pointer("instance")
		request.Generation = int32(args.number("generation", int(s.group.Generation())))
		s.say("%s", name(s.group.Heartbeat(s.now, request)))
	case "leave":
		s.leave(args)
	case "commit":
		_, transactional := args["transactional"]
		_, err := s.group.CheckCommit(s.now, machine.Committer{
			MemberID: args["member"], InstanceID: args.pointer("instance"), Transactional: transactional,
			Generation: int32(args.number("generation", int(s.group.Generation()))),
		})
		s.say("%s", name(err))
	case "wait":
		s.wait(args)
	case "hold":
		s.holds = true
	case "written":
		s.written(args)
	case "hold-no-more":
		s.holds = false
	case "restart":
		s.restart(args)
	case "describe":
		s.describe()
	case "expiry":
		s.expiry(args)
	default:
		s.t.Fatalf("there is no event %s", fields[0])
	}
}

func name(err error) string { return kafka.CodeOf(err).Name() }

func (s *scenario) say(format string, args ...any) {
	s.out = append(s.out, fmt.Sprintf(format, args...))
}

func (s *scenario) join(args arguments) {
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version = int16(args.number("version", 9))
	request.MemberID, request.InstanceID = args["member"], args.pointer("instance")
	request.SessionTimeoutMillis = args.milliseconds("session", "10s")
	request.RebalanceTimeoutMillis = args.milliseconds("rebalance", "60s")
	request.ProtocolType = args.get("type", "consumer")
	for p := range strings.SplitSeq(args.get("protocols", "range:t"), ",") {
		name, topic, _ := strings.Cut(p, ":")
		if name == "" {
			continue
		}
		metadata := kmsg.ConsumerMemberMetadata{Version: 3, Topics: []string{topic}, Generation: -1}
		request.Protocols = append(request.Protocols, kmsg.JoinGroupRequestProtocol{
			Name: name, Metadata: metadata.AppendTo(nil),
		})
	}
	s.waiters++
	s.carryOut(s.group.Join(s.now, Join{
		Waiter: s.waiters, Request: request, NewID: args.get("id", "?"),
		Client: machine.Client{ID: args.get("client", "c"), Host: args.get("host", "/h")},
	}))
}

func (s *scenario) sync(args arguments) {
	request := kmsg.NewPtrSyncGroupRequest()
	request.Version = int16(args.number("version", 4))
	request.MemberID, request.InstanceID = args["member"], args.pointer("instance")
	request.ProtocolType, request.Protocol = args.pointer("type"), args.pointer("protocol")
	request.Generation = int32(args.number("generation", int(s.group.Generation())))
	if list := args["assign"]; list != "" {
		for a := range strings.SplitSeq(list, ",") {
			id, assignment, _ := strings.Cut(a, ":")
			request.GroupAssignment = append(request.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
				MemberID: id, MemberAssignment: []byte(assignment),
			})
		}
	}
	s.waiters++
	s.carryOut(s.group.Sync(s.waiters, request))
}

func (s *scenario) leave(args arguments) {
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Version = int16(args.number("version", 5))
	request.MemberID = args["member"]
	for id := range strings.SplitSeq(args.get("member", ""), ",") {
		request.Members = append(request.Members, kmsg.LeaveGroupRequestMember{
			MemberID: id, InstanceID: args.pointer("instance"),
		})
	}
	s.waiters++
	s.carryOut(s.group.Leave(s.now, s.waiters, request))
}

// wait lets time pass, with the ticks that fall into it. At the end of what=10s all deadlines of it are behind.
func (s *scenario) wait(args arguments) {
	end := s.now.Add(time.Duration(args.milliseconds("for", "0s")) * time.Millisecond)
	for {
		deadline, armed := s.group.NextDeadline()
		if !armed || deadline.After(end) {
			break
		}
		s.now = deadline
		before := len(s.out)
		s.carryOut(s.group.Tick(s.now))
		if next, armed := s.group.NextDeadline(); armed && !next.After(s.now) {
			s.t.Fatalf("at %v the group is due again at once", s.now)
		}
		for i := before; i < len(s.out); i++ {
			s.out[i] = fmt.Sprintf("at %s: %s", s.clock(), s.out[i])
		}
	}
	s.now = end
}

func (s *scenario) clock() string { return s.now.Sub(time.UnixMilli(0)).String() }

func (s *scenario) carryOut(step machine.Step) {
	if len(step.Records) > 0 && s.holds {
		s.say("writes")
		s.held = append(s.held, step)
		return
	}
	for _, r := range step.Records {
		s.record = r.Value
	}
	if step.Durable != nil {
		s.carryOut(step.Durable(s.now, nil))
	}
	s.answer(step.Replies)
}

// written ends the oldest write that is held.
func (s *scenario) written(args arguments) {
	step := s.held[0]
	s.held = s.held[1:]
	if args["error"] != "" {
		err := kafka.Errno(args.number("error", 0))
		if step.Durable != nil {
			s.carryOut(step.Durable(s.now, err))
		}
		for _, r := range step.Replies {
			s.once(r.Waiter)
			s.say("#%d %s", r.Waiter, name(err))
		}
		return
	}
	holds := s.holds
	s.holds = false
	s.carryOut(step)
	s.holds = holds
}

func (s *scenario) once(waiter machine.Waiter) {
	if waiter == 0 || waiter > s.waiters || s.answered[waiter] {
		s.t.Fatalf("waiter %d is answered again, or is none", waiter)
	}
	s.answered[waiter] = true
}

func (s *scenario) answer(replies []machine.Reply) {
	for _, r := range replies {
		s.once(r.Waiter)
		switch a := r.Response.(type) {
		case *kmsg.JoinGroupResponse:
			s.sayJoined(r.Waiter, a)
		case *kmsg.SyncGroupResponse:
			if a.ErrorCode != 0 {
				s.say("#%d %s", r.Waiter, kafka.Errno(a.ErrorCode).Name())
				continue
			}
			s.say("#%d assigned %q by %s", r.Waiter, a.MemberAssignment, *a.Protocol)
		case *kmsg.LeaveGroupResponse:
			text := fmt.Sprintf("#%d left: %s", r.Waiter, kafka.Errno(a.ErrorCode).Name())
			for _, m := range a.Members {
				text += fmt.Sprintf(", %s=%s", m.MemberID, kafka.Errno(m.ErrorCode).Name())
			}
			s.say("%s", text)
		}
	}
}

func (s *scenario) sayJoined(waiter machine.Waiter, a *kmsg.JoinGroupResponse) {
	if a.ErrorCode != 0 {
		s.say("#%d %s member=%q", waiter, kafka.Errno(a.ErrorCode).Name(), a.MemberID)
		return
	}
	text := fmt.Sprintf("#%d joined as %s, generation %d, %s, leader %s", waiter, a.MemberID, a.Generation, *a.Protocol, a.LeaderID)
	if a.SkipAssignment {
		text += ", need not assign"
	}
	for _, m := range a.Members {
		text += " [" + m.MemberID
		if m.InstanceID != nil {
			text += " " + *m.InstanceID
		}
		topics, _ := subscribedTopics(m.ProtocolMetadata)
		text += " " + strings.Join(topics, ",") + "]"
	}
	s.say("%s", text)
}

// restart makes the group of its newest record.
func (s *scenario) restart(args arguments) {
	s.settings.MaxSize = args.number("size", s.settings.MaxSize)
	s.settings.InitialRebalanceDelay = time.Duration(args.milliseconds("delay", "3s")) * time.Millisecond
	if s.record == nil {
		s.group = New("g", s.settings, s.now)
		return
	}
	var value kmsg.GroupMetadataValue
	if err := value.ReadFrom(s.record); err != nil {
		s.t.Fatal(err)
	}
	s.group = Load("g", s.settings, &value, s.now)
}

func (s *scenario) describe() {
	d := s.group.Describe()
	s.say("%s %s %q", d.State, d.ProtocolType, d.Protocol)
	for _, m := range d.Members {
		topics, _ := subscribedTopics(m.ProtocolMetadata)
		s.say("%s client %s at %s reads %q assigned %q", m.MemberID, m.ClientID, m.ClientHost, topics, m.MemberAssignment)
	}
}

func (s *scenario) expiry(args arguments) {
	e := s.group.Expiry()
	switch topic := args.get("topic", "t"); {
	case e.Never:
		s.say("never")
	case e.Keep != nil && e.Keep(topic):
		s.say("not of %s", topic)
	case e.Since.IsZero():
		s.say("since each commit")
	default:
		s.say("since %s", e.Since.Sub(time.UnixMilli(0)))
	}
}

// state is the group in a line: its members with what they wait for, and the ids that were handed out.
func (s *scenario) state() string {
	g := s.group
	text := fmt.Sprintf("%s %s/%d", s.clock(), g.State(), g.Generation())
	for _, m := range g.members {
		text += " " + m.id
		if m.id == g.leader {
			text += "*"
		}
		if m.join != 0 {
			text += fmt.Sprintf(" (joins #%d)", m.join)
		}
		if m.sync != 0 {
			text += fmt.Sprintf(" (syncs #%d)", m.sync)
		}
	}
	if len(g.pending) > 0 {
		text += " pending " + strings.Join(slices.Sorted(maps.Keys(g.pending)), " ")
	}
	return text
}

func TestWhatTheCoordinatorAsksOfEveryGroup(t *testing.T) {
	s := &scenario{t: t, now: time.UnixMilli(0), answered: map[machine.Waiter]bool{}, settings: Settings{
		MinSessionTimeout: time.Second, MaxSessionTimeout: time.Minute, MaxSize: 100,
	}}
	s.group = New("g", s.settings, s.now)
	check := func(want machine.Summary, reads map[string]bool) {
		t.Helper()
		got := s.group.Summary()
		for topic, want := range reads {
			if got.Subscribed(topic) != want {
				t.Errorf("%s: that it reads %s is %v", got.State, topic, !want)
			}
		}
		got.Subscribed = nil
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the group is %+v, want %+v", got, want)
		}
	}
	check(machine.Summary{Type: "classic", State: "Empty", Empty: true}, map[string]bool{"t": false})
	s.join(arguments{"version": "3", "id": "a"})
	want := machine.Summary{Type: "classic", State: "CompletingRebalance", ProtocolType: "consumer", Members: 1}
	check(want, map[string]bool{"t": true, "u": false})
	s.sync(arguments{"member": "c-a"})
	want.State = "Stable"
	check(want, map[string]bool{"t": true, "u": false})
	s.join(arguments{"version": "3", "id": "b", "protocols": "range:u"})
	want.State, want.Members = "PreparingRebalance", 2
	check(want, map[string]bool{"t": true, "u": false}) // those of the generation
	if err := s.group.CheckFetch(nil, -1); err != nil {
		t.Errorf("offsets may not be read: %v", err)
	}
	tombstones := s.group.Tombstones()
	var key kmsg.GroupMetadataKey
	if err := key.ReadFrom(tombstones[0].Key); len(tombstones) != 1 || tombstones[0].Value != nil || err != nil || key.Group != "g" {
		t.Errorf("it is removed by %+v", tombstones)
	}
}

// What members say to their protocol may be anything: then they may read anything.
func TestASubscriptionThatCannotBeReadIsToAll(t *testing.T) {
	for name, metadata := range map[string][]byte{
		"nothing": nil, "a version": {0, 0}, "a negative version": {0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "too many topics": {0, 0, 0x7f, 0, 0, 0},
	} {
		g := New("g", Settings{MaxSessionTimeout: time.Minute, MaxSize: 1}, time.UnixMilli(0))
		request := kmsg.NewPtrJoinGroupRequest()
		request.SessionTimeoutMillis, request.ProtocolType = 1000, "consumer"
		request.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p", Metadata: metadata}}
		g.Join(time.UnixMilli(0), Join{Waiter: 1, Request: request})
		if g.State() != CompletingRebalance || !g.Summary().Subscribed("any") {
			t.Errorf("with %s a group that is %s does not read all topics", name, g.State())
		}
	}
}
