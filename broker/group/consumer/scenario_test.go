package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/assignor"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// TestScenarios plays the scripts in testdata/scenarios: one event a line, and under each what the group answers and is
// then.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, file string) {
		s := newScenario(t)
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
				out.WriteString(s.state())
			}
			return out.String()
		})
	})
}

func testSettings() Settings {
	return Settings{
		MaxSize:   100,
		Assignors: []string{assignor.UniformName, assignor.RangeName}, Migration: Bidirectional,
		Classic: classic.Settings{
			MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute, MaxSize: 100,
		},
	}
}

// testTopics are the topics of a cluster; their ids are their names.
type testTopics map[string]int32

func (l *testTopics) Named(name string) (Topic, bool) {
	count, ok := (*l)[name]
	return Topic{ID: topicID(name), Name: name, Partitions: count}, ok
}

func (l *testTopics) WithID(id kafka.TopicID) (Topic, bool) { return l.Named(topicName(id)) }

func (l *testTopics) Names() iter.Seq[string] { return maps.Keys(*l) }

func topicID(name string) kafka.TopicID {
	var id kafka.TopicID
	copy(id[:], name)
	return id
}

func topicName(id kafka.TopicID) string { return string(bytes.TrimRight(id[:], "\x00")) }

// scenario is one group, its clock, its cluster and its journal.
type scenario struct {
	t         *testing.T
	settings  Settings
	intervals Intervals
	topics    *testTopics
	group     machine.Group
	start     time.Time
	now       time.Time
	view      map[string][]byte // the compacted journal
	waiters   machine.Waiter
	answered  map[machine.Waiter]bool
	fails     bool // the next records cannot be appended
	out       []string
}

func newScenario(t *testing.T) *scenario {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &scenario{
		t: t, settings: testSettings(), topics: &testTopics{}, start: start, now: start,
		intervals: Intervals{Session: 45 * time.Second, Heartbeat: 5 * time.Second},
		view:      map[string][]byte{}, answered: map[machine.Waiter]bool{},
	}
	s.group = s.newGroup()
	return s
}

func (s *scenario) newGroup() *Group {
	return New("g", s.settings, Cluster{
		Topics: func() Topics { return s.topics }, Intervals: func(string) Intervals { return s.intervals },
	})
}

func (s *scenario) say(format string, args ...any) {
	s.out = append(s.out, fmt.Sprintf(format, args...))
}

// arguments are those of one event, name=value.
type arguments map[string]string

func (a arguments) get(name, otherwise string) string {
	if value, given := a[name]; given {
		return value
	}
	return otherwise
}

func (a arguments) pointer(name string) *string {
	if value, given := a[name]; given {
		return &value
	}
	return nil
}

func (a arguments) number(name string, otherwise int) int32 {
	n, err := strconv.Atoi(a.get(name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return int32(n)
}

func (a arguments) duration(name, otherwise string) time.Duration {
	d, err := time.ParseDuration(a.get(name, otherwise))
	if err != nil {
		panic(err)
	}
	return d
}

func (a arguments) names(name string) []string {
	text, given := a[name]
	if !given {
		return nil
	}
	return slices.DeleteFunc(strings.Split(text, ","), func(one string) bool { return one == "" })
}

func (s *scenario) play(fields []string) {
	args := arguments{}
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, "=")
		args[name] = value
	}
	switch fields[0] {
	case "topics":
		s.setTopics(args)
	case "settings":
		s.set(args)
	case "heartbeat", "join", "leave":
		s.heartbeat(fields[0], args)
	case "wait":
		s.wait(args.duration("for", "0s"))
	case "commit":
		s.commit(args)
	case "fetch":
		s.say("%s", name(s.group.CheckFetch(args.pointer("member"), args.number("epoch", -1))))
	case "reload":
		s.reload()
	case "fail":
		s.fails = true
	case "describe":
		s.describe()
	case "remove":
		s.carryOut(machine.Step{Records: s.group.Tombstones()})
		s.say("the journal has %d records", len(s.view))
	default:
		s.classic(fields[0], args)
	}
}

func (s *scenario) setTopics(args arguments) {
	topics := testTopics{}
	for topic, count := range args {
		n, err := strconv.Atoi(count)
		if err != nil {
			s.t.Fatal(err)
		}
		topics[topic] = int32(n)
	}
	s.topics = &topics
}

func (s *scenario) set(args arguments) {
	s.intervals.Assignment = args.duration("interval", "0s")
	s.intervals.Session = args.duration("session", "45s")
	s.intervals.Heartbeat = args.duration("heartbeat", "5s")
	s.settings.MaxSize = int(args.number("size", 100))
	s.settings.Migration = Migration(args.get("migration", string(Bidirectional)))
	if g, ok := s.group.(*Group); ok {
		g.settings = s.settings
	}
}

func (s *scenario) waiter() machine.Waiter {
	s.waiters++
	return s.waiters
}

// heartbeat sends a request: join and leave are such with the epochs that say so.
func (s *scenario) heartbeat(event string, args arguments) {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Version, request.Group, request.MemberID = 1, "g", args.get("member", "")
	request.InstanceID, request.RackID = args.pointer("instance"), args.pointer("rack")
	request.SubscribedTopicRegex, request.ServerAssignor = args.pointer("regex"), args.pointer("assignor")
	request.SubscribedTopicNames = args.names("topics")
	request.Topics = parseOwned(args.pointer("owns"))
	if timeout, given := args["rebalance"]; given || event == "join" {
		args["rebalance"] = otherwiseText(timeout, "5m")
		request.RebalanceTimeoutMillis = int32(args.duration("rebalance", "").Milliseconds())
	}
	switch event {
	case "join":
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	case "leave":
		request.MemberEpoch = args.number("epoch", -1)
	default:
		request.MemberEpoch = args.number("epoch", int(s.epochOf(request.MemberID)))
	}
	if err := CheckHeartbeat(request, s.settings.Assignors); err != nil {
		s.say("%s", name(err))
		return
	}
	h := Heartbeat{
		Waiter: s.waiter(), Request: request, Client: machine.Client{ID: args.get("client", "c"), Host: "/h"},
	}
	var step machine.Step
	var err error
	if from, ok := s.group.(*classic.Group); ok {
		step, err = Upgrade(s.now, from, s.newGroup(), h)
	} else {
		step, err = s.group.(*Group).Heartbeat(s.now, h)
	}
	s.end(h.Waiter, step, err)
}

func otherwiseText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (s *scenario) epochOf(member string) int32 {
	if g, ok := s.group.(*Group); ok && g.members[member] != nil {
		return g.members[member].epoch
	}
	return 1
}

// end carries out what became of a request, unless it was refused.
func (s *scenario) end(waiter machine.Waiter, step machine.Step, err error) {
	if err != nil {
		s.answered[waiter] = true
		s.say("%s", name(err))
		return
	}
	s.carryOut(step)
}

// carryOut does with a step what the coordinator does.
func (s *scenario) carryOut(step machine.Step) {
	var err error
	if s.fails && len(step.Records) > 0 {
		s.fails, err = false, kafka.CoordinatorNotAvailable
	}
	if err == nil {
		for _, record := range step.Records {
			if record.Value == nil {
				delete(s.view, string(record.Key))
			} else {
				s.view[string(record.Key)] = record.Value
			}
		}
		if step.Appended != nil {
			step.Appended()
		}
		if step.Successor != nil {
			s.group = step.Successor
		}
	}
	if step.Durable != nil {
		s.carryOut(step.Durable(s.now, err))
	}
	for _, reply := range step.Replies {
		if s.answered[reply.Waiter] {
			s.t.Fatalf("#%d is answered twice", reply.Waiter)
		}
		s.answered[reply.Waiter] = true
		if err != nil {
			s.say("#%d %s", reply.Waiter, name(err))
		} else {
			s.sayResponse(reply.Waiter, reply.Response)
		}
	}
}

func (s *scenario) sayResponse(waiter machine.Waiter, response kmsg.Response) {
	code := kafka.Errno(0)
	text := ""
	switch r := response.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		text = fmt.Sprintf("%s in epoch %d", *r.MemberID, r.MemberEpoch)
		if r.Assignment != nil {
			text += " has [" + showAssignment(r.Assignment) + "]"
		}
	case *kmsg.JoinGroupResponse:
		code, text = kafka.Errno(r.ErrorCode), fmt.Sprintf("%s joined generation %d", r.MemberID, r.Generation)
		if r.Protocol != nil {
			text += " by " + *r.Protocol
		}
	case *kmsg.SyncGroupResponse:
		code, text = kafka.Errno(r.ErrorCode), "synced ["+showClassic(s.t, r.MemberAssignment)+"]"
	case *kmsg.HeartbeatResponse:
		code, text = kafka.Errno(r.ErrorCode), "alive"
	case *kmsg.LeaveGroupResponse:
		code, text = kafka.Errno(r.ErrorCode), "left"
		for _, m := range r.Members {
			text += fmt.Sprintf(" %s=%s", m.MemberID, kafka.Errno(m.ErrorCode).Name())
		}
	}
	if code != 0 {
		text = code.Name() + " " + text
	}
	s.say("#%d %s", waiter, text)
}

// wait lets time pass, and everything happen that is due meanwhile.
func (s *scenario) wait(duration time.Duration) {
	until := s.now.Add(duration)
	for range 1000 {
		deadline, ok := s.group.NextDeadline()
		if !ok || deadline.After(until) {
			s.now = until
			return
		}
		if deadline.After(s.now) {
			s.now = deadline
		}
		before := len(s.out)
		s.carryOut(s.group.Tick(s.now))
		for i := before; i < len(s.out); i++ {
			s.out[i] = fmt.Sprintf("at %v: %s", s.now.Sub(s.start), s.out[i])
		}
	}
	s.t.Fatal("the group has always something to do at once")
}

func (s *scenario) commit(args arguments) {
	_, transactional := args["transactional"]
	check, err := s.group.CheckCommit(s.now, machine.Committer{
		MemberID: args["member"], Generation: args.number("epoch", -1), Transactional: transactional,
		Version: int16(args.number("version", 9)),
	})
	if err == nil && check != nil {
		topic, partition, _ := strings.Cut(args["partition"], ":")
		n, convErr := strconv.Atoi(partition)
		if convErr != nil {
			s.t.Fatal(convErr)
		}
		err = check(topic, kafka.TopicID{}, int32(n))
	}
	s.say("%s", name(err))
}

// reload makes the group of its journal, as after a crash, and compares the two.
func (s *scenario) reload() {
	before, ok := s.group.(*Group)
	if !ok {
		s.t.Fatal("only a group of the consumer protocol is reloaded")
	}
	after := s.loaded()
	if diff := cmp.Diff(persisted(before), persisted(after)); diff != "" {
		s.t.Errorf("what is loaded from the journal differs (- before, + after):\n%s", diff)
	}
	s.group = after
}

func (s *scenario) loaded() *Group {
	g := s.newGroup()
	for _, encoded := range slices.Sorted(maps.Keys(s.view)) {
		key, err := records.ParseKey([]byte(encoded))
		if err != nil {
			s.t.Fatal(err)
		}
		if err := g.Replay(key, s.view[encoded]); err != nil {
			s.t.Fatal(err)
		}
	}
	g.Loaded(s.now)
	return g
}

// persisted shows all that is to be the same after a restart.
func persisted(g *Group) string {
	var out strings.Builder
	fmt.Fprintln(&out, g.epoch, g.metadataHash, g.targetEpoch, g.targetAt)
	for _, id := range sortedKeys(g.members) {
		m := g.members[id]
		fmt.Fprintf(&out, "%s %x %d %d %d %v %v %v\n", id, m.subscription.Append(nil), m.epoch, m.previousEpoch, m.state,
			m.assigned.list(), m.revoking.list(), targetList(g.target[id]))
	}
	for _, regex := range sortedKeys(g.expressions) {
		fmt.Fprintln(&out, regex, g.expressions[regex].topics)
	}
	fmt.Fprintln(&out, g.static, g.names, g.regexs, len(g.owners), len(g.target))
	return out.String()
}

func (s *scenario) describe() {
	g := s.group.(*Group)
	d := g.Describe()
	s.say("%s, epoch %d, assignment %d by %s", d.State, d.Epoch, d.AssignmentEpoch, d.AssignorName)
	for _, m := range d.Members {
		s.say("%s type %d epoch %d of %s at %s reads %v: [%s] to be [%s]", m.MemberID, m.MemberType, m.MemberEpoch,
			m.ClientID, m.ClientHost, m.SubscribedTopics, showNamed(m.Assignment), showNamed(m.TargetAssignment))
	}
}

// state shows what the group is.
func (s *scenario) state() string {
	summary := s.group.Summary()
	g, ok := s.group.(*Group)
	if !ok {
		return fmt.Sprintf("  %v classic %s, %d members\n", s.now.Sub(s.start), summary.State, summary.Members)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "  %v %s %d/%d\n", s.now.Sub(s.start), summary.State, g.epoch, g.targetEpoch)
	for _, id := range sortedKeys(g.members) {
		m := g.members[id]
		state := []string{"stable", "unrevoked", "unreleased"}[m.state]
		fmt.Fprintf(&out, "    %s %d<%d %s", id, m.epoch, m.previousEpoch, state)
		fmt.Fprintf(&out, " [%s]", show(m.assigned.assignment()))
		if len(m.revoking) > 0 {
			fmt.Fprintf(&out, " revokes [%s]", show(m.revoking.assignment()))
		}
		if !m.assigned.assignment().Equal(g.target[id]) {
			fmt.Fprintf(&out, " target [%s]", show(g.target[id]))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// show is t:0,1 u:0.
func show(a assignor.Assignment) string {
	var topics []string
	for _, id := range sortedTopics(a) {
		topics = append(topics, topicName(id)+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(a[id]), " ", ","), "[]"))
	}
	return strings.Join(topics, " ")
}

func showAssignment(response *kmsg.ConsumerGroupHeartbeatResponseAssignment) string {
	a := assignor.Assignment{}
	for _, topic := range response.Topics {
		a[topic.TopicID] = topic.Partitions
	}
	return show(a)
}

func showNamed(described kmsg.Assignment) string {
	a := assignor.Assignment{}
	for _, topic := range described.TopicPartitions {
		a[topicID(topic.Topic)] = topic.Partitions
	}
	return show(a)
}

func showClassic(t *testing.T, encoded []byte) string {
	if len(encoded) == 0 {
		return ""
	}
	var assignment kmsg.ConsumerMemberAssignment
	if err := assignment.ReadFrom(encoded); err != nil {
		t.Fatal(err)
	}
	a := assignor.Assignment{}
	for _, topic := range assignment.Topics {
		a[topicID(topic.Topic)] = topic.Partitions
	}
	return show(a)
}

// parseOwned reads t:0,1;u:0; nil says nothing.
func parseOwned(text *string) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	if text == nil {
		return nil
	}
	list := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for one := range strings.SplitSeq(*text, ";") {
		topic, numbers, ok := strings.Cut(one, ":")
		if !ok {
			continue
		}
		entry := kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topicID(topic)}
		for number := range strings.SplitSeq(numbers, ",") {
			n, err := strconv.Atoi(number)
			if err != nil {
				panic(err)
			}
			entry.Partitions = append(entry.Partitions, int32(n))
		}
		list = append(list, entry)
	}
	return list
}

func name(err error) string {
	var code kafka.Errno
	if err != nil && !errors.As(err, &code) {
		return err.Error()
	}
	return kafka.CodeOf(err).Name()
}
