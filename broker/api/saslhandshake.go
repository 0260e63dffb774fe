package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// saslHandshake serves SaslHandshake v0–v1 as a listener without SASL does: every mechanism is out of place here.
func (h *Handlers) saslHandshake(_ context.Context, req *wire.Request) wire.Reply {
	if _, err := decode(req, kmsg.NewPtrSASLHandshakeRequest()); err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode = int16(kafka.IllegalSASLState)
	return now(req, resp)
}
