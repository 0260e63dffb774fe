package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// alterConfigs serves AlterConfigs v0–v2: what the request lists becomes all that is set for the resource, and
// everything else goes back to what it inherits (AD-01). Old clients still use it; it is an incremental change in
// which the settings that are not named are deleted.
func (h *Handlers) alterConfigs(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrAlterConfigsRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		incremental := h.incremental(request)
		resp := kmsg.NewPtrAlterConfigsResponse()
		for i := range request.Resources {
			err := missingValue(&request.Resources[i])
			if err == nil {
				err = h.alter(ctx, incremental, i)
			}
			answer := kmsg.NewAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = request.Resources[i].ResourceType, request.Resources[i].ResourceName
			answer.ErrorCode, answer.ErrorMessage = fail(err)
			resp.Resources = append(resp.Resources, answer)
		}
		return resp
	})
}

func missingValue(asked *kmsg.AlterConfigsRequestResource) error {
	for _, setting := range asked.Configs {
		if setting.Value == nil {
			return fmt.Errorf("setting %q has no value: give one, or leave the setting out to take it back: %w",
				setting.Name, kafka.InvalidRequest)
		}
	}
	return nil
}

// incremental is the request as an incremental one.
func (h *Handlers) incremental(request *kmsg.AlterConfigsRequest) *kmsg.IncrementalAlterConfigsRequest {
	img := h.options.Metadata.Image()
	same := kmsg.NewPtrIncrementalAlterConfigsRequest()
	same.ValidateOnly = request.ValidateOnly
	for i := range request.Resources {
		asked := &request.Resources[i]
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = asked.ResourceType, asked.ResourceName
		named := map[string]bool{}
		for _, setting := range asked.Configs {
			named[setting.Name] = true
			resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{
				Name: setting.Name, Op: kmsg.IncrementalAlterConfigOpSet, Value: setting.Value,
			})
		}
		for name := range overrides(img, asked) {
			if !named[name] {
				resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{
					Name: name, Op: kmsg.IncrementalAlterConfigOpDelete,
				})
			}
		}
		same.Resources = append(same.Resources, resource)
	}
	return same
}

// overrides is what is set for a resource now.
func overrides(img *image.Image, asked *kmsg.AlterConfigsRequestResource) map[string]string {
	switch command.ResourceType(asked.ResourceType) {
	case command.ResourceTopic:
		if topic, ok := img.Topic(asked.ResourceName); ok {
			return topic.Configs
		}
	case command.ResourceBroker:
		return img.BrokerConfig(asked.ResourceName)
	case command.ResourceGroup:
		return img.GroupConfig(asked.ResourceName)
	}
	return nil
}
