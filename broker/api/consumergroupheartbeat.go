package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// consumerGroupHeartbeat serves ConsumerGroupHeartbeat v0–v1 (KIP-848): membership and assignment of the consumer
// protocol. v1 subscribes by regular expression, and its members choose their own ids.
func (h *Handlers) consumerGroupHeartbeat(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrConsumerGroupHeartbeatRequest())
	if err != nil {
		return malformed(err)
	}
	return await(req, h.options.Groups.ConsumerHeartbeat(request, clientOf(req)))
}
