package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
)

// syncGroup serves SyncGroup v0–v5. v3 has static members; from v5 on it names the protocol (KIP-559).
func (h *Handlers) syncGroup(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrSyncGroupRequest())
	if err != nil {
		return malformed(err)
	}
	return await(req, h.options.Groups.Sync(request))
}
