package consumer

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leave lets a member go: for good, or, if it is static and says so, for as long as its session lasts.
func (c *change) leave(h Heartbeat) error {
	request := h.Request
	m, err := c.leaving(request)
	if err != nil {
		return err
	}
	response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	response.MemberID, response.MemberEpoch = &m.id, request.MemberEpoch
	if request.MemberEpoch == staticLeaveEpoch {
		// Its partitions stay its own, those that it was about to give up excepted.
		c.setCurrent(m.with(func(next *member) { next.epoch, next.revoking = staticLeaveEpoch, nil }))
		c.then(func() { c.expectRevocation(c.members[m.id]) })
	} else {
		c.fence(m)
	}
	c.reply(h.Waiter, response)
	return nil
}

func (c *change) leaving(request *kmsg.ConsumerGroupHeartbeatRequest) (*member, error) {
	if request.InstanceID == nil {
		return c.member(request.MemberID)
	}
	return c.staticOwner(request.MemberID, *request.InstanceID)
}

// fence removes members and begins a new epoch without them. If all that remain are of the classic protocol the group
// becomes a classic one.
func (c *change) fence(members ...*member) {
	for _, m := range members {
		c.removeMember(m)
	}
	if c.downgrade() {
		return
	}
	c.forgetExpressions()
	c.setEpoch(c.epoch+1, c.hash(c.topics()))
	if len(c.members) == 0 { // there is nothing to compute; the record tells since when the group is empty
		c.setTargetEpoch(c.now.UnixMilli())
	}
}
