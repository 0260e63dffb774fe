package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// unregisterBroker serves UnregisterBroker v0. The only broker there is must not be forgotten: nobody could serve then.
func (h *Handlers) unregisterBroker(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrUnregisterBrokerRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	if _, known := h.options.Metadata.Image().Broker(kafka.BrokerID(request.BrokerID)); known {
		err = fmt.Errorf("broker %d is alive: stop it first: %w", request.BrokerID, kafka.InvalidRequest)
	} else {
		err = fmt.Errorf("there is no broker %d: %w", request.BrokerID, kafka.BrokerIDNotRegistered)
	}
	resp.ErrorCode, resp.ErrorMessage = fail(err)
	return now(req, resp)
}
