package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// deleteGroups serves DeleteGroups v0–v2: groups without members go, with their offsets.
func (h *Handlers) deleteGroups(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDeleteGroupsRequest())
	if err != nil {
		return malformed(err)
	}
	if len(request.Groups) == 0 {
		return now(req, kmsg.NewPtrDeleteGroupsResponse())
	}
	promised := make([]*promise, len(request.Groups))
	for i, name := range request.Groups {
		promised[i] = h.options.Groups.Delete(name)
	}
	return awaitAll(req, promised, func(bodies []kmsg.Response) kmsg.Response {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		for _, body := range bodies {
			resp.Groups = append(resp.Groups, body.(*kmsg.DeleteGroupsResponse).Groups...)
		}
		return resp
	})
}
