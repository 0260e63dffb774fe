package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// describeConfigs serves DescribeConfigs v1–v4 for topics, brokers and groups: only the settings asked for, all when
// none are named, each with where its value comes from and what it would be otherwise.
func (h *Handlers) describeConfigs(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeConfigsRequest())
	if err != nil {
		return malformed(err)
	}
	img := h.options.Metadata.Image()
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for i := range request.Resources {
		asked := &request.Resources[i]
		answer := kmsg.NewDescribeConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = asked.ResourceType, asked.ResourceName
		entries, err := h.entries(img, command.ResourceType(asked.ResourceType), asked.ResourceName)
		answer.ErrorCode, answer.ErrorMessage = fail(err)
		if err == nil {
			answer.ErrorMessage = new(string) // as Kafka says that nothing is wrong
		}
		for j := range entries {
			if len(asked.ConfigNames) > 0 && !slices.Contains(asked.ConfigNames, entries[j].Name) {
				continue
			}
			answer.Configs = append(answer.Configs, describedConfig(&entries[j], request))
		}
		resp.Resources = append(resp.Resources, answer)
	}
	return now(req, resp)
}

// entries lists the settings of a resource.
func (h *Handlers) entries(img *image.Image, kind command.ResourceType, name string) ([]config.Entry, error) {
	switch kind {
	case command.ResourceTopic:
		topic, ok := img.Topic(name)
		if ok {
			return config.DescribeTopic(topic.Configs, h.options.Layers(img)), nil
		}
		return nil, unknownTopicError(name)
	case command.ResourceBroker:
		if name == "" {
			return config.DescribeBrokerDefaults(img.BrokerConfig("")), nil
		}
		if err := h.checkBroker(name); err != nil {
			return nil, err
		}
		return config.DescribeBroker(h.options.Layers(img)), nil
	case command.ResourceGroup:
		if name == "" {
			return nil, errGroupWithoutName
		}
		return config.DescribeGroup(img.GroupConfig(name), h.options.Layers(img)), nil
	}
	return nil, unsupportedResource(kind)
}

func (h *Handlers) checkBroker(name string) error {
	own := strconv.Itoa(int(h.options.BrokerID))
	if name != own {
		return fmt.Errorf("this is broker %s, which knows nothing of broker %q: ask that one, or name none: %w",
			own, name, kafka.InvalidRequest)
	}
	return nil
}

func unsupportedResource(kind command.ResourceType) error {
	return fmt.Errorf("resource type %d has no settings here: topics (2), brokers (4) and groups (32) have: %w",
		kind, kafka.InvalidRequest)
}

// errGroupWithoutName: there are no settings for all groups but the broker's group.*.
var errGroupWithoutName = fmt.Errorf("the group has no name: %w", kafka.InvalidRequest)

func describedConfig(
	entry *config.Entry, request *kmsg.DescribeConfigsRequest,
) kmsg.DescribeConfigsResponseResourceConfig {
	answer := kmsg.NewDescribeConfigsResponseResourceConfig()
	answer.Name, answer.Value = entry.Name, entry.Value
	answer.ReadOnly, answer.IsSensitive = entry.ReadOnly, entry.Sensitive
	answer.Source = kmsg.ConfigSource(entry.Source)
	answer.IsDefault = entry.Source == config.BuiltIn
	answer.ConfigType = kmsg.ConfigType(entry.Type)
	if request.IncludeDocumentation {
		answer.Documentation = &entry.Doc
	}
	if request.IncludeSynonyms {
		for _, synonym := range entry.Synonyms {
			answer.ConfigSynonyms = append(answer.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
				Name: synonym.Name, Value: synonym.Value, Source: kmsg.ConfigSource(synonym.Source),
			})
		}
	}
	return answer
}
