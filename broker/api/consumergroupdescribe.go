package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// consumerGroupDescribe serves ConsumerGroupDescribe v0–v1 (KIP-848): groups of the consumer protocol with their
// members, what they have and what they are to have. v1 tells which protocol a member speaks. A group of the classic
// protocol is none of these.
func (h *Handlers) consumerGroupDescribe(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrConsumerGroupDescribeRequest())
	if err != nil {
		return malformed(err)
	}
	if len(request.Groups) == 0 {
		return now(req, kmsg.NewPtrConsumerGroupDescribeResponse())
	}
	promised := make([]*promise, len(request.Groups))
	for i, name := range request.Groups {
		promised[i] = h.options.Groups.ConsumerDescribe(name)
	}
	return awaitAll(req, promised, func(bodies []kmsg.Response) kmsg.Response {
		resp := kmsg.NewPtrConsumerGroupDescribeResponse()
		for _, body := range bodies {
			described := body.(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
			described.AuthorizedOperations = authorizedOperationsUnknown
			if request.IncludeAuthorizedOperations && described.ErrorCode == 0 {
				described.AuthorizedOperations = allGroupOperations
			}
			resp.Groups = append(resp.Groups, described)
		}
		return resp
	})
}
