package consumer

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// consumerProtocolType is the protocol type of all groups of this protocol.
const consumerProtocolType = "consumer"

// Heartbeat is a ConsumerGroupHeartbeat request.
type Heartbeat struct {
	Waiter  machine.Waiter
	Request *kmsg.ConsumerGroupHeartbeatRequest
	Client  machine.Client
	// NewID is the id of a member that brings none, as in version 0: a random UUID.
	NewID string
}

// CheckHeartbeat tells what is wrong with a request, whatever its group. assignors are those of the settings.
func CheckHeartbeat(request *kmsg.ConsumerGroupHeartbeatRequest, assignors []string) error {
	invalid := func(what string) error { return fmt.Errorf("%s: %w", what, kafka.InvalidRequest) }
	isEmpty := func(text *string) bool { return text != nil && strings.TrimSpace(*text) == "" }
	switch {
	case strings.TrimSpace(request.Group) == "":
		return invalid("GroupId can't be empty")
	case isEmpty(request.InstanceID):
		return invalid("InstanceId can't be empty")
	case isEmpty(request.RackID):
		return invalid("RackId can't be empty")
	case request.MemberEpoch < staticLeaveEpoch:
		return invalid(fmt.Sprintf("MemberEpoch is %d", request.MemberEpoch))
	case strings.TrimSpace(request.MemberID) == "" && (request.MemberEpoch != joinEpoch || request.Version >= 1):
		return invalid("MemberId can't be empty")
	case request.MemberEpoch == staticLeaveEpoch && request.InstanceID == nil:
		return invalid("InstanceId can't be null")
	case request.ServerAssignor != nil && !slices.Contains(assignors, *request.ServerAssignor):
		return fmt.Errorf("ServerAssignor %q is not supported, only %s are: %w",
			*request.ServerAssignor, strings.Join(assignors, ", "), kafka.UnsupportedAssignor)
	}
	if request.MemberEpoch == joinEpoch {
		return checkJoin(request, invalid)
	}
	return nil
}

// checkJoin tells what is wrong with a request that joins: it has to say everything of the member.
func checkJoin(request *kmsg.ConsumerGroupHeartbeatRequest, invalid func(what string) error) error {
	switch {
	case request.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request")
	case request.Topics == nil || len(request.Topics) > 0:
		return invalid("TopicPartitions must be empty when (re-)joining")
	case request.SubscribedTopicNames == nil && request.SubscribedTopicRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining")
	}
	return nil
}

// Heartbeat lets a member join, leave, subscribe to something else, or tell that it is alive and what it has; the
// answer says what it is to have. The request has passed CheckHeartbeat. After an error the group is as before.
func (g *Group) Heartbeat(now time.Time, h Heartbeat) (machine.Step, error) {
	c := g.begin(now)
	if h.Request.MemberEpoch == leaveEpoch || h.Request.MemberEpoch == staticLeaveEpoch {
		if err := c.leave(h); err != nil {
			return c.refused(err)
		}
		return c.step(), nil
	}
	if err := c.hasRoomFor(h.Request.MemberID); err != nil {
		return c.refused(err)
	}
	before, err := c.identify(h)
	if err != nil {
		return c.refused(err)
	}
	after := before.with(func(next *member) { next.subscribe(h) })
	if err := c.update(before, after); err != nil {
		return c.refused(err)
	}
	after = c.reconcile(after, ownedOf(h.Request.Topics), subscriptionDiffers(before, after))
	c.then(func() { c.expectWithin(after.id, c.intervals().Session) })
	c.reply(h.Waiter, g.answer(h.Request, before, after))
	return c.step(), nil
}

func (c *change) reply(waiter machine.Waiter, response kmsg.Response) {
	c.replies = append(c.replies, machine.Reply{Waiter: waiter, Response: response})
}

func (g *Group) hasRoomFor(memberID string) error {
	if _, known := g.members[memberID]; known || len(g.members) < g.settings.MaxSize {
		return nil
	}
	return fmt.Errorf("group %q has its maximum of %d members: %w", g.id, g.settings.MaxSize,
		kafka.GroupMaxSizeReached)
}

// identify finds the member that a heartbeat is from, as it was before. One that joins may be new.
func (c *change) identify(h Heartbeat) (*member, error) {
	request, joins := h.Request, h.Request.MemberEpoch == joinEpoch
	id := request.MemberID
	if id == "" {
		id = h.NewID
	}
	if request.InstanceID != nil {
		if joins {
			return c.joinStatic(id, *request.InstanceID, false)
		}
		m, err := c.staticOwner(id, *request.InstanceID)
		if err != nil {
			return nil, err
		}
		return m, checkEpoch(m, request)
	}
	m, err := c.member(id)
	switch {
	case err == nil:
		return m, checkEpoch(m, request)
	case joins:
		return newMember(id), nil
	}
	return nil, err
}

// joinStatic finds who joins under an instance id. If that is the id of a member that has left for a while, the new one
// takes over what it had; so it does from a member of the classic protocol or one that is replaced by such.
func (c *change) joinStatic(id, instanceID string, classic bool) (*member, error) {
	before := c.staticMember(instanceID)
	switch {
	case before == nil:
		return newMember(id), nil
	case before.id == id: // it has lost what it had, as after a pause
		return before, nil
	}
	if !classic && !before.classic() && before.epoch != staticLeaveEpoch {
		return nil, fmt.Errorf("instance id %q is that of member %q, which has not left: %w", instanceID, before.id,
			kafka.UnreleasedInstanceID)
	}
	after := before.with(func(next *member) { next.id, next.epoch, next.previousEpoch = id, 0, 0 })
	target := c.target[before.id]
	c.removeMember(before)
	c.setSubscription(after)
	c.setTarget(id, target)
	c.setCurrent(after)
	return after, nil
}

// staticOwner finds the member of an instance id, which must be the one that says so.
func (g *Group) staticOwner(id, instanceID string) (*member, error) {
	m := g.staticMember(instanceID)
	switch {
	case m == nil:
		return nil, fmt.Errorf("instance id %q is not in group %q: %w", instanceID, g.id, kafka.UnknownMemberID)
	case m.id != id:
		return nil, fmt.Errorf("instance id %q is that of member %q now: %w", instanceID, m.id, kafka.FencedInstanceID)
	}
	return m, nil
}

// checkEpoch tells whether a member knows its epoch. It may know the one before if the answer with the new one was
// lost, which is believed if it has nothing that it should not have. Epoch 0 is that of a member that has lost
// everything.
func checkEpoch(m *member, request *kmsg.ConsumerGroupHeartbeatRequest) error {
	switch epoch := request.MemberEpoch; {
	case epoch == joinEpoch, epoch == m.epoch:
		return nil
	case epoch == m.previousEpoch && epoch < m.epoch && request.Topics != nil &&
		ownedOf(request.Topics).within(m.assigned):
		return nil
	default:
		return fmt.Errorf("member %q is in epoch %d, not %d; it must give up all partitions and join again: %w",
			m.id, m.epoch, epoch, kafka.FencedMemberEpoch)
	}
}

// subscribe takes over what a heartbeat says; what it does not mention stays.
func (m *member) subscribe(h Heartbeat) {
	request, s := h.Request, &m.subscription
	s.InstanceID = otherwise(request.InstanceID, s.InstanceID)
	s.RackID = otherwise(request.RackID, s.RackID)
	s.ServerAssignor = otherwise(request.ServerAssignor, s.ServerAssignor)
	s.Regex = otherwise(request.SubscribedTopicRegex, s.Regex)
	if request.RebalanceTimeoutMillis != -1 {
		s.RebalanceTimeoutMs = request.RebalanceTimeoutMillis
	}
	if request.SubscribedTopicNames != nil {
		s.Topics = nameSet(request.SubscribedTopicNames)
	}
	s.ClientID, s.ClientHost, s.Classic = h.Client.ID, h.Client.Host, nil
}

func otherwise(text, unchanged *string) *string {
	if text == nil {
		return unchanged
	}
	return text
}

func nameSet(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func subscriptionDiffers(before, after *member) bool {
	return before.regex() != after.regex() || !slices.Equal(before.subscription.Topics, after.subscription.Topics)
}

// firstEpoch is that of a group's first member. In epoch 1, as Kafka 4.4 counts, nobody has been assigned anything.
const firstEpoch = 2

// update records a member that has changed, and what follows for the group: its expressions, its epoch, its target.
func (c *change) update(before, after *member) error {
	topics := c.topics()
	if _, known := c.members[after.id]; !known || !after.subscribesAs(before) {
		c.setSubscription(after)
	}
	if err := c.resolve(after.regex(), topics); err != nil {
		return err
	}
	c.forgetExpressions()
	bump := c.refresh(topics)
	if bump || c.epoch == 0 || subscriptionDiffers(before, after) {
		c.setEpoch(max(c.epoch+1, firstEpoch), c.hash(topics))
	} else if topics != c.hashed {
		if hash := c.hash(topics); hash != c.metadataHash {
			c.setEpoch(c.epoch+1, hash)
		}
	}
	c.then(func() { c.Group.hashed = topics })
	c.assign()
	return nil
}

// hash is equal for equal topics: those that the group reads, with their partitions. Topics that do not exist count as
// well as none.
func (g *Group) hash(topics Topics) int64 {
	h := fnv.New64a()
	for _, name := range g.topicNames() {
		if topic, ok := topics.Named(name); ok {
			fmt.Fprintf(h, "%s %s %d\n", topic.Name, topic.ID, topic.Partitions)
		}
	}
	return int64(h.Sum64())
}

// answer says how a member is to go on. The assignment is in it if the member asks for it, by saying everything of
// itself, or if it has changed.
func (g *Group) answer(request *kmsg.ConsumerGroupHeartbeatRequest, before, after *member) kmsg.Response {
	response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	response.MemberID, response.MemberEpoch = &after.id, after.epoch
	response.HeartbeatIntervalMillis = int32(g.intervals().Heartbeat.Milliseconds())
	full := request.RebalanceTimeoutMillis != -1 && request.Topics != nil &&
		(request.SubscribedTopicNames != nil || request.SubscribedTopicRegex != nil)
	if !full && request.MemberEpoch != joinEpoch && after.assigned.equal(before.assigned) {
		return response
	}
	response.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
	for _, one := range after.assigned.list() {
		response.Assignment.Topics = append(response.Assignment.Topics,
			kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: one.TopicID, Partitions: one.Partitions})
	}
	return response
}
