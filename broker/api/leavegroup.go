package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// leaveGroup serves LeaveGroup v0–v5. From v3 on several members leave, static ones by their instances (KIP-345).
func (h *Handlers) leaveGroup(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrLeaveGroupRequest())
	if err != nil {
		return malformed(err)
	}
	return await(req, h.options.Groups.Leave(request))
}
