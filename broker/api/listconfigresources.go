package api

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// The resource types of Kafka that have no instances here: they are known, and their lists are empty.
const (
	resourceBrokerLogger  int8 = 8
	resourceClientMetrics int8 = 16
)

// listConfigResources serves ListConfigResources v0–v1 (KIP-1142): what DescribeConfigs can be asked about. v0 asked
// for client metrics alone, of which there are none. Of groups those are listed that have settings of their own.
func (h *Handlers) listConfigResources(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrListConfigResourcesRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if req.Version == 0 {
		return now(req, resp)
	}
	topics, brokers, groups := int8(command.ResourceTopic), int8(command.ResourceBroker), int8(command.ResourceGroup)
	known := []int8{topics, brokers, resourceBrokerLogger, resourceClientMetrics, groups}
	for _, kind := range request.ResourceTypes {
		if !slices.Contains(known, kind) {
			resp.ErrorCode = int16(kafka.UnsupportedVersion)
			return now(req, resp)
		}
	}
	wants := func(kind int8) bool {
		return len(request.ResourceTypes) == 0 || slices.Contains(request.ResourceTypes, kind)
	}
	add := func(kind int8, name string) {
		resource := kmsg.NewListConfigResourcesResponseConfigResource()
		resource.Name, resource.Type = name, kind
		resp.ConfigResources = append(resp.ConfigResources, resource)
	}
	img := h.options.Metadata.Image()
	if wants(topics) {
		for topic := range img.Topics() {
			add(topics, topic.Name)
		}
	}
	if wants(brokers) {
		for _, broker := range img.Brokers {
			add(brokers, strconv.Itoa(int(broker.ID)))
		}
	}
	if wants(groups) {
		for _, group := range img.GroupConfigNames() {
			add(groups, group)
		}
	}
	return now(req, resp)
}
