package api

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/coordinator"
	"github.com/firnlog/firn/broker/group/machine"
	"github.com/firnlog/firn/broker/wire"
)

// promise is the answer of a coordinator.
type promise = coordinator.Promise[kmsg.Response]

// await answers with what a coordinator's promise brings.
func await(req *wire.Request, promised *promise) wire.Reply {
	return awaitAll(req, []*promise{promised}, func(bodies []kmsg.Response) kmsg.Response { return bodies[0] })
}

// awaitAll answers with what becomes of several promises, at least one. They are kept at about the same time, so the
// connection's writer may wait for the others once the first is kept. A client that goes away gets no answer.
func awaitAll(req *wire.Request, promised []*promise, merge func(bodies []kmsg.Response) kmsg.Response) wire.Reply {
	key := req.Key
	reply := later(req, func(ctx context.Context) kmsg.Response {
		bodies := make([]kmsg.Response, len(promised))
		for i, one := range promised {
			select {
			case <-one.Done():
				bodies[i] = one.Value()
			case <-ctx.Done():
				return kmsg.ResponseForKey(key) // nobody reads it
			}
		}
		return merge(bodies)
	})
	reply.Wait = promised[0].Done()
	return reply
}

// clientOf says from where a request came, as groups tell of their members: the host in Kafka's way, after a slash.
func clientOf(req *wire.Request) machine.Client {
	host := req.Conn.Remote.String()
	if alone, _, err := net.SplitHostPort(host); err == nil {
		host = alone
	}
	return machine.Client{ID: req.ClientID, Host: "/" + host}
}
