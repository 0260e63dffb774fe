package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// authorizedOperationsUnknown is what Kafka answers when the client did not ask for them, or nobody can tell.
const authorizedOperationsUnknown = -2147483648

// The endpoint types of DescribeCluster v1 and later (KIP-919).
const endpointBrokers int8 = 1

// describeCluster serves DescribeCluster v0–v2. Controllers are not reachable by clients here, so only brokers can be
// asked for.
func (h *Handlers) describeCluster(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeClusterRequest())
	if err != nil {
		return h.malformed(req, err)
	}
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterAuthorizedOperations = authorizedOperationsUnknown
	if req.Version >= 1 && request.EndpointType != endpointBrokers {
		text := "this listener belongs to a broker: ask for endpoint type 1 (brokers)"
		resp.ErrorCode, resp.ErrorMessage = int16(kafka.MismatchedEndpointType), &text
		return now(req, resp)
	}
	img := h.options.Metadata.Image()
	resp.EndpointType = endpointBrokers
	resp.ClusterID = img.ClusterID.String()
	resp.ControllerID = int32(img.Controller)
	for _, broker := range h.brokers(req.Conn) {
		resp.Brokers = append(resp.Brokers, kmsg.DescribeClusterResponseBroker{
			NodeID: broker.NodeID, Host: broker.Host, Port: broker.Port, Rack: broker.Rack,
		})
	}
	return now(req, resp)
}
