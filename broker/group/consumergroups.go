package group

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/classic"
	"github.com/firnlog/firn/broker/group/consumer"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/internal/kafka"
)

// ConsumerHeartbeat is all that members of the consumer protocol (KIP-848) have to say: they join, leave, subscribe,
// tell what they have, and hear what they are to have. The first one of a group makes it; that of a classic group takes
// it over, if the settings let it.
func (c *Coordinator) ConsumerHeartbeat(request *kmsg.ConsumerGroupHeartbeatRequest, client machine.Client) *Answer {
	refuse := func(err error) kmsg.Response {
		response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		response.ErrorCode, response.ErrorMessage = int16(errorCode(err)), problem(err)
		return response
	}
	settings := c.options.Config.Consumer
	if err := consumer.CheckHeartbeat(request, settings.Assignors); err != nil {
		return coordinator.Resolved(refuse(err))
	}
	return c.serve(request.Group, refuse, func(t turn) (machine.Step, error) {
		h := consumer.Heartbeat{Waiter: t.waiter, Request: request, Client: client, NewID: newMemberID()}
		if existing, ok := t.slot.group.(*consumer.Group); ok {
			return existing.Heartbeat(t.now, h)
		}
		if request.MemberEpoch != 0 {
			return machine.Step{}, noConsumerGroup(request.Group)
		}
		group := consumer.New(request.Group, settings, c.options.Cluster)
		if from, ok := t.slot.group.(*classic.Group); ok {
			return consumer.Upgrade(t.now, from, group, h)
		}
		step, err := group.Heartbeat(t.now, h)
		step.Successor = group
		return step, err
	})
}

func noConsumerGroup(id string) error {
	return fmt.Errorf("group %q is not a group of the consumer protocol: %w", id, kafka.GroupIDNotFound)
}

// problem says in words what an error is, unless it is only a code: for that the client has words of its own.
func problem(err error) *string {
	var bare kafka.Errno
	if errors.As(err, &bare) && err == error(bare) {
		return nil
	}
	text := err.Error()
	return &text
}

// newMemberID draws a random id for a member that brings none.
func newMemberID() string {
	var id kafka.UUID
	_, _ = rand.Read(id[:]) // never fails, as crypto/rand says
	return id.String()
}

// ConsumerDescribe describes a group of the consumer protocol. The answer is a ConsumerGroupDescribeResponse with that
// group.
func (c *Coordinator) ConsumerDescribe(id string) *Answer {
	refuse := func(err error) kmsg.Response {
		described := kmsg.NewConsumerGroupDescribeResponseGroup()
		described.Group, described.ErrorCode, described.ErrorMessage = id, int16(errorCode(err)), problem(err)
		return describedConsumers(described)
	}
	if id == "" {
		return coordinator.Resolved(refuse(kafka.InvalidGroupID))
	}
	return c.serve(id, refuse, func(t turn) (machine.Step, error) {
		group, ok := t.slot.group.(*consumer.Group)
		if !ok {
			return machine.Step{}, noConsumerGroup(id)
		}
		return t.reply(describedConsumers(group.Describe())), nil
	})
}

func describedConsumers(group kmsg.ConsumerGroupDescribeResponseGroup) *kmsg.ConsumerGroupDescribeResponse {
	response := kmsg.NewPtrConsumerGroupDescribeResponse()
	response.Groups = []kmsg.ConsumerGroupDescribeResponseGroup{group}
	return response
}
