package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// authorizedOperationsUnknown is what Kafka answers when the client did not ask for them, or nobody can tell.
const authorizedOperationsUnknown = -2147483648

// What a client may do, as bits of Kafka's operations: everything that there is to do with the cluster, or a topic, as
// nobody is refused anything here.
const (
	allClusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	allTopicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
)

// The endpoint types of DescribeCluster v1 and later (KIP-919).
const (
	endpointBrokers     int8 = 1
	endpointControllers int8 = 2
)

// describeCluster serves DescribeCluster v0–v2. Controllers are not reachable by clients here, so only brokers can be
// asked for.
func (h *Handlers) describeCluster(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeClusterRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterAuthorizedOperations = authorizedOperationsUnknown
	if req.Version >= 1 && request.EndpointType != endpointBrokers {
		code := kafka.UnsupportedEndpointType
		if request.EndpointType == endpointControllers {
			code = kafka.MismatchedEndpointType
		}
		text := "this listener belongs to a broker: ask for endpoint type 1 (brokers)"
		resp.ErrorCode, resp.ErrorMessage = int16(code), &text
		return now(req, resp)
	}
	if request.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
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
