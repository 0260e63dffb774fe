package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// heartbeat serves Heartbeat v0–v4. v3 has static members.
func (h *Handlers) heartbeat(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrHeartbeatRequest())
	if err != nil {
		return malformed(err)
	}
	return await(req, h.options.Groups.Heartbeat(request))
}
