package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// listGroups serves ListGroups v0–v5: the groups that this broker coordinates. v4 filters by state (KIP-518), v5 by
// type (KIP-848). It reads the journals' views, hence in the waiting phase.
func (h *Handlers) listGroups(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrListGroupsRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(context.Context) kmsg.Response { return h.options.Groups.List(request) })
}
