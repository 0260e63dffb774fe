package consumer

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/group/records"
	"github.com/firnlog/firn/internal/kafka"
)

// memberIDRequiredVersion is the first version of JoinGroup in which a new member is told its id first (KIP-394).
const memberIDRequiredVersion = 4

// Join lets a member of the classic protocol in, or lets it join again, as its heartbeats ask it to when it is to have
// others than it has. Its assignment comes from the group's target, so it leads nothing, and waits for nobody. The
// group has members: an empty one becomes one of the classic protocol first.
func (g *Group) Join(now time.Time, j classic.Join) (machine.Step, error) {
	c := g.begin(now)
	request, id := j.Request, j.Request.MemberID
	if id == "" {
		id = j.NewID
	}
	timeout, bounds := milliseconds(request.SessionTimeoutMillis), c.settings.Classic
	if timeout < bounds.MinSessionTimeout || timeout > bounds.MaxSessionTimeout {
		return c.refused(fmt.Errorf("a session timeout of %v: %w", timeout, kafka.InvalidSessionTimeout))
	}
	if err := c.hasRoomFor(id); err != nil {
		return c.refused(err)
	}
	if !c.supports(request) {
		return c.refused(fmt.Errorf("no assignor of member %q is one of all classic members: %w", id,
			kafka.InconsistentGroupProtocol))
	}
	if request.MemberID == "" && request.InstanceID == nil && request.Version >= memberIDRequiredVersion {
		response := kmsg.NewPtrJoinGroupResponse()
		response.Version, response.ErrorCode, response.MemberID = request.Version, int16(kafka.MemberIDRequired), id
		c.reply(j.Waiter, response)
		return c.step(), nil
	}
	subscription, err := subscriptionOf(request)
	if err != nil {
		return c.refused(err)
	}
	if step, ok := g.downgradeByReplacement(now, j); ok {
		return step, nil
	}
	before, err := c.identifyClassic(id, request)
	if err != nil {
		return c.refused(err)
	}
	after := before.with(func(next *member) { next.subscribeClassic(j, subscription) })
	epoch := g.epoch
	if err := c.update(before, after); err != nil {
		return c.refused(err)
	}
	if g.epoch != epoch {
		why := j.Why("a member has joined or subscribes to something else", id)
		c.rebalance = &why
	}
	after = c.reconcile(after, c.ownedByName(subscription.OwnedPartitions), subscriptionDiffers(before, after))
	c.then(func() {
		c.expectWithin(after.id, c.sessionTimeout(after))
		c.expectSync(after)
	})
	c.reply(j.Waiter, joined(request.Version, after))
	return c.step(), nil
}

// supports tells whether a joining member speaks of assignors as the other classic members do. It is not asked to use
// one, but may have to when the group becomes a classic one.
func (g *Group) supports(request *kmsg.JoinGroupRequest) bool {
	if request.ProtocolType != consumerProtocolType || len(request.Protocols) == 0 {
		return false
	}
	classicMembers, votes := 0, map[string]int{}
	for _, m := range g.members {
		if m.classic() {
			classicMembers++
			for _, protocol := range m.subscription.Classic.Protocols {
				votes[protocol.Name]++
			}
		}
	}
	return slices.ContainsFunc(request.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return votes[p.Name] == classicMembers
	})
}

// subscriptionOf is what a member subscribes to. It says so to each assignor; the first counts.
func subscriptionOf(request *kmsg.JoinGroupRequest) (*kmsg.ConsumerMemberMetadata, error) {
	var subscription kmsg.ConsumerMemberMetadata
	if err := subscription.ReadFrom(slices.Clone(request.Protocols[0].Metadata)); err != nil {
		return nil, fmt.Errorf("the subscription for %q cannot be read (%w): %w", request.Protocols[0].Name, err,
			kafka.InconsistentGroupProtocol)
	}
	return &subscription, nil
}

func (c *change) identifyClassic(id string, request *kmsg.JoinGroupRequest) (*member, error) {
	if request.InstanceID != nil {
		if request.MemberID == "" {
			return c.joinStatic(id, *request.InstanceID, true)
		}
		return c.staticOwner(id, *request.InstanceID)
	}
	if m, err := c.member(id); err == nil {
		return m, nil
	}
	return newMember(id), nil
}

func (m *member) subscribeClassic(j classic.Join, subscription *kmsg.ConsumerMemberMetadata) {
	request, s := j.Request, &m.subscription
	s.InstanceID = otherwise(request.InstanceID, s.InstanceID)
	s.RackID = otherwise(subscription.Rack, s.RackID)
	s.RebalanceTimeoutMs = request.RebalanceTimeoutMillis
	if s.RebalanceTimeoutMs < 0 { // version 0 has no other
		s.RebalanceTimeoutMs = request.SessionTimeoutMillis
	}
	s.Topics, s.Regex = nameSet(subscription.Topics), new(string)
	s.ClientID, s.ClientHost = j.Client.ID, j.Client.Host
	s.Classic = &records.ClassicMember{SessionTimeoutMs: request.SessionTimeoutMillis}
	for _, p := range request.Protocols {
		s.Classic.Protocols = append(s.Classic.Protocols, records.ClassicProtocol{
			Name: p.Name, Metadata: slices.Clone(p.Metadata), // the bytes are those of the frame
		})
	}
}

// ownedByName is what a classic member says that it has. Of a version that does not say it has given up everything: so
// it was in those times.
func (g *Group) ownedByName(list []kmsg.ConsumerMemberMetadataOwnedPartition) owned {
	topics, has := g.topics(), owned{}
	for _, one := range list {
		if topic, ok := topics.Named(one.Topic); ok {
			for _, partition := range one.Partitions {
				has[kafka.TopicIDPartition{ID: topic.ID, Partition: partition}] = struct{}{}
			}
		}
	}
	return has
}

func joined(version int16, m *member) kmsg.Response {
	response := kmsg.NewPtrJoinGroupResponse()
	response.Version, response.MemberID, response.Generation = version, m.id, m.epoch
	protocolType, protocol := consumerProtocolType, m.subscription.Classic.Protocols[0].Name
	response.ProtocolType, response.Protocol = &protocolType, &protocol
	return response
}

// Sync tells a classic member its assignment.
func (g *Group) Sync(now time.Time, waiter machine.Waiter, request *kmsg.SyncGroupRequest) (machine.Step, error) {
	c := g.begin(now)
	m, err := g.classicMember(request.MemberID, request.InstanceID, request.Generation)
	if err != nil {
		return c.refused(err)
	}
	protocol := m.subscription.Classic.Protocols[0].Name
	if differs(request.ProtocolType, consumerProtocolType) || differs(request.Protocol, protocol) {
		return c.refused(fmt.Errorf("member %q uses %s: %w", m.id, protocol, kafka.InconsistentGroupProtocol))
	}
	// One that is to give up partitions has joined again already; it hears of the next epoch when it has.
	if g.epoch > m.epoch && m.state != unrevoked {
		c.then(func() { c.expectJoin(m) })
		step := c.step()
		step.Replies = []machine.Reply{{Waiter: waiter, Response: syncResponse(request, nil, kafka.RebalanceInProgress)}}
		return step, nil
	}
	c.then(func() {
		c.timersOf(m.id).sync = time.Time{}
		c.expectWithin(m.id, g.sessionTimeout(m))
	})
	c.reply(waiter, syncResponse(request, g.consumerAssignment(m), kafka.None))
	return c.step(), nil
}

func differs(said *string, is string) bool { return said != nil && *said != is }

func syncResponse(request *kmsg.SyncGroupRequest, assignment []byte, code kafka.Errno) kmsg.Response {
	response := kmsg.NewPtrSyncGroupResponse()
	response.Version, response.ErrorCode = request.Version, int16(code)
	if code == kafka.None {
		response.ProtocolType, response.Protocol = request.ProtocolType, request.Protocol
		response.MemberAssignment = assignment
	}
	return response
}

// consumerAssignment is what a member may read, in the classic protocol's own format, of the version that it uses.
func (g *Group) consumerAssignment(m *member) []byte {
	return encodeAssignment(g.topics(), m, m.assigned.assignment())
}

// HeartbeatClassic keeps a classic member's session alive. REBALANCE_IN_PROGRESS tells it to join again: the epoch has
// grown, it is to give up partitions, or all that it waits for have become free.
func (g *Group) HeartbeatClassic(now time.Time, waiter machine.Waiter, request *kmsg.HeartbeatRequest) (
	machine.Step, error,
) {
	c := g.begin(now)
	m, err := g.classicMember(request.MemberID, request.InstanceID, request.Generation)
	if err != nil {
		return c.refused(err)
	}
	response := kmsg.NewPtrHeartbeatResponse()
	response.Version = request.Version
	c.then(func() { c.expectWithin(m.id, g.sessionTimeout(m)) })
	if g.epoch > m.epoch || m.state == unrevoked || m.state == unreleased && !g.waits(m) {
		response.ErrorCode = int16(kafka.RebalanceInProgress)
		c.then(func() { c.expectJoin(m) })
	}
	c.reply(waiter, response)
	return c.step(), nil
}

// waits tells whether somebody else still has what a member is to have.
func (g *Group) waits(m *member) bool {
	for topic, numbers := range g.target[m.id] {
		for _, partition := range numbers {
			if !m.assigned.has(topic, partition) && !g.isFree(m, topic, partition) {
				return true
			}
		}
	}
	return false
}

// classicMember finds the member that a request of the classic protocol is from.
func (g *Group) classicMember(id string, instanceID *string, generation int32) (*member, error) {
	find := func() (*member, error) { return g.member(id) }
	if instanceID != nil {
		find = func() (*member, error) { return g.staticOwner(id, *instanceID) }
	}
	m, err := find()
	switch {
	case err != nil:
		return nil, err
	case !m.classic():
		return nil, fmt.Errorf("member %q speaks the consumer protocol: %w", id, kafka.UnknownMemberID)
	case m.epoch != generation:
		return nil, fmt.Errorf("member %q is in generation %d: %w", id, m.epoch, kafka.IllegalGeneration)
	}
	return m, nil
}

// LeaveClassic removes members of the classic protocol; static ones may be named by their instance alone.
func (g *Group) LeaveClassic(now time.Time, waiter machine.Waiter, request *kmsg.LeaveGroupRequest) machine.Step {
	c := g.begin(now)
	leaving := request.Members
	if request.Version < manyLeaveVersion {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: request.MemberID}}
	}
	response := kmsg.NewPtrLeaveGroupResponse()
	response.Version = request.Version
	var gone []*member
	for _, one := range leaving {
		answer := kmsg.NewLeaveGroupResponseMember()
		answer.MemberID, answer.InstanceID = one.MemberID, one.InstanceID
		m, err := g.leavingClassic(one)
		if err == nil {
			answer.MemberID = m.id
			gone = append(gone, m)
			if c.rebalance == nil { // of many that leave at once the first stands for all
				why := classic.LeftBecause(one)
				c.rebalance = &why
			}
		}
		answer.ErrorCode = int16(kafka.CodeOf(err))
		response.Members = append(response.Members, answer)
	}
	if request.Version < manyLeaveVersion {
		response.ErrorCode, response.Members = response.Members[0].ErrorCode, nil
	}
	if len(gone) > 0 {
		c.fence(gone...)
	}
	c.reply(waiter, response)
	return c.step()
}

// manyLeaveVersion is the first version of LeaveGroup in which several members leave, each with its own error
// (KIP-345).
const manyLeaveVersion = 3

func (g *Group) leavingClassic(leaving kmsg.LeaveGroupRequestMember) (*member, error) {
	id := leaving.MemberID
	if leaving.InstanceID != nil && id == "" {
		id = g.static[*leaving.InstanceID]
	}
	m, err := g.member(id)
	if leaving.InstanceID != nil {
		m, err = g.staticOwner(id, *leaving.InstanceID)
	}
	if err == nil && !m.classic() {
		return nil, kafka.UnknownMemberID
	}
	return m, err
}

// expectJoin gives a classic member its rebalance timeout to join again, unless it has been told already.
func (c *change) expectJoin(m *member) {
	if t := c.timersOf(m.id); t.join.IsZero() {
		t.join = c.now.Add(m.rebalanceTimeout())
		c.arm(t.join)
	}
}

// expectSync gives a classic member that has joined its rebalance timeout to ask for its assignment.
func (c *change) expectSync(m *member) {
	t := c.timersOf(m.id)
	t.join, t.sync = time.Time{}, c.now.Add(m.rebalanceTimeout())
	c.arm(t.sync)
}

func milliseconds(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
