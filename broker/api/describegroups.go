package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// allGroupOperations are Kafka's operations on a group, as bits: everything that there is to do with one.
const allGroupOperations int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// describeGroups serves DescribeGroups v0–v6: groups of the classic protocol with their members. From v6 on a group
// that does not exist is an error, before it is in the state Dead (KIP-1043).
func (h *Handlers) describeGroups(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeGroupsRequest())
	if err != nil {
		return malformed(err)
	}
	if len(request.Groups) == 0 {
		return now(req, kmsg.NewPtrDescribeGroupsResponse())
	}
	promised := make([]*promise, len(request.Groups))
	for i, name := range request.Groups {
		promised[i] = h.options.Groups.Describe(name, request.Version)
	}
	return awaitAll(req, promised, func(bodies []kmsg.Response) kmsg.Response {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		for _, body := range bodies {
			described := body.(*kmsg.DescribeGroupsResponse).Groups[0]
			described.AuthorizedOperations = authorizedOperationsUnknown
			if request.IncludeAuthorizedOperations && described.ErrorCode == 0 {
				described.AuthorizedOperations = allGroupOperations
			}
			resp.Groups = append(resp.Groups, described)
		}
		return resp
	})
}
