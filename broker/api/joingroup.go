package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// joinGroup serves JoinGroup v0–v9. v0 has no rebalance timeout; from v4 on a new member is told its id first
// (KIP-394); v5 has static members (KIP-345), v9 leaders that need not assign (KIP-814). The answer may take as long as
// a rebalance.
func (h *Handlers) joinGroup(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrJoinGroupRequest())
	if err != nil {
		return malformed(err)
	}
	return await(req, h.options.Groups.Join(request, clientOf(req)))
}
