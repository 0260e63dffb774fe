package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/config"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/metastore/image"
)

// incrementalAlterConfigs serves IncrementalAlterConfigs v0–v1 (KIP-339): set, delete, append to and subtract from
// single settings; what is not named stays. Each resource changes as a whole or not at all.
func (h *Handlers) incrementalAlterConfigs(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrIncrementalAlterConfigsRequest())
	if err != nil {
		return malformed(err)
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for i := range request.Resources {
			asked := &request.Resources[i]
			err := h.alter(ctx, request, i)
			answer := kmsg.NewIncrementalAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName = asked.ResourceType, asked.ResourceName
			answer.ErrorCode, answer.ErrorMessage = fail(err)
			resp.Resources = append(resp.Resources, answer)
		}
		return resp
	})
}

func (h *Handlers) alter(ctx context.Context, request *kmsg.IncrementalAlterConfigsRequest, i int) error {
	asked := &request.Resources[i]
	for j := range request.Resources {
		other := &request.Resources[j]
		if j != i && other.ResourceType == asked.ResourceType && other.ResourceName == asked.ResourceName {
			return fmt.Errorf("resource %q stands more than once in the request: %w",
				asked.ResourceName, kafka.InvalidRequest)
		}
	}
	change := command.AlterConfigs{Resource: command.ResourceType(asked.ResourceType), Name: asked.ResourceName}
	var err error
	switch change.Resource {
	case command.ResourceTopic:
		change.Ops, err = h.alterTopic(asked)
	case command.ResourceBroker:
		change.Ops, err = h.alterBroker(asked)
	case command.ResourceGroup:
		change.Ops, err = h.alterGroup(asked)
	default:
		err = unsupportedResource(change.Resource)
	}
	if err != nil || request.ValidateOnly || len(change.Ops) == 0 {
		return err
	}
	_, err = h.options.Metadata.Propose(ctx, change)
	return commitError(err)
}

func (h *Handlers) alterTopic(asked *kmsg.IncrementalAlterConfigsRequestResource) ([]command.ConfigOp, error) {
	img := h.options.Metadata.Image()
	if asked.ResourceName == "" {
		return nil, fmt.Errorf("the topic to change has no name: %w", kafka.InvalidRequest)
	}
	topic, ok := img.Topic(asked.ResourceName)
	if !ok {
		return nil, unknownTopicError(asked.ResourceName)
	}
	ops, err := resolveOps(asked, config.LookupTopic, h.topicValue(img, topic))
	if err != nil {
		return nil, err
	}
	return ops, config.CheckTopicChange(topic.Configs, withOps(topic.Configs, ops), h.options.Layers(img).Lookup)
}

// topicValue answers what a setting of the topic is now, whoever set it: appending to a list begins there.
func (h *Handlers) topicValue(img *image.Image, topic *image.Topic) func(name string) string {
	return func(name string) string {
		return valueOf(config.DescribeTopic(topic.Configs, h.options.Layers(img)), name)
	}
}

func valueOf(entries []config.Entry, name string) string {
	for _, entry := range entries {
		if entry.Name == name && entry.Value != nil {
			return *entry.Value
		}
	}
	return ""
}

func (h *Handlers) alterBroker(asked *kmsg.IncrementalAlterConfigsRequestResource) ([]command.ConfigOp, error) {
	if asked.ResourceName != "" {
		if err := h.checkBroker(asked.ResourceName); err != nil {
			return nil, err
		}
	}
	layers := h.options.Layers(h.options.Metadata.Image())
	lookup := layers.Lookup
	ops, err := resolveOps(asked, config.LookupBroker, func(name string) string {
		value, _ := lookup(name)
		return value
	})
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		if err := config.CheckBrokerChange(op.Name, op.Value, asked.ResourceName == ""); err != nil {
			return nil, err
		}
	}
	altered := &layers.Dynamic
	if asked.ResourceName == "" {
		altered = &layers.DynamicDefault
	}
	*altered = withOps(*altered, ops)
	if err := config.CheckBrokerDefaults(layers.Lookup); err != nil {
		return nil, err
	}
	return ops, config.CheckBrokerGroups(layers.Lookup)
}

// alterGroup changes the settings of a group, which need not exist yet.
func (h *Handlers) alterGroup(asked *kmsg.IncrementalAlterConfigsRequestResource) ([]command.ConfigOp, error) {
	if asked.ResourceName == "" {
		return nil, errGroupWithoutName
	}
	img := h.options.Metadata.Image()
	before := img.GroupConfig(asked.ResourceName)
	layers := h.options.Layers(img)
	ops, err := resolveOps(asked, config.LookupGroup, func(name string) string {
		return valueOf(config.DescribeGroup(before, layers), name)
	})
	if err != nil {
		return nil, err
	}
	return ops, config.CheckGroup(withOps(before, ops), layers.Lookup)
}

// withOps is what is set once the operations are done.
func withOps(before map[string]string, ops []command.ConfigOp) map[string]string {
	after := maps.Clone(before)
	if after == nil {
		after = map[string]string{}
	}
	for _, op := range ops {
		if op.Value == nil {
			delete(after, op.Name)
			continue
		}
		after[op.Name] = *op.Value
	}
	return after
}

// resolveOps turns the request's operations into plain values: what is appended to and subtracted from is computed
// here, so that the command holds only what the outcome is.
func resolveOps(asked *kmsg.IncrementalAlterConfigsRequestResource,
	lookup func(name string) (config.Setting, bool), current func(name string) string,
) ([]command.ConfigOp, error) {
	ops := make([]command.ConfigOp, 0, len(asked.Configs))
	seen := map[string]bool{}
	for i := range asked.Configs {
		one := &asked.Configs[i]
		if seen[one.Name] {
			return nil, fmt.Errorf("setting %q stands more than once for %q: %w",
				one.Name, asked.ResourceName, kafka.InvalidRequest)
		}
		seen[one.Name] = true
		op, err := resolveOp(one, lookup, current)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func resolveOp(one *kmsg.IncrementalAlterConfigsRequestResourceConfig,
	lookup func(name string) (config.Setting, bool), current func(name string) string,
) (command.ConfigOp, error) {
	op := command.ConfigOp{Name: one.Name, Value: one.Value}
	switch one.Op {
	case kmsg.IncrementalAlterConfigOpDelete:
		op.Value = nil
		return op, nil
	case kmsg.IncrementalAlterConfigOpSet:
		if one.Value == nil {
			return op, fmt.Errorf("setting %q is to be set and has no value: %w", one.Name, kafka.InvalidRequest)
		}
		return op, nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		setting, ok := lookup(one.Name)
		if ok && setting.Type != config.List {
			return op, fmt.Errorf("setting %q is no list, so nothing can be appended to or subtracted from it: %w",
				one.Name, kafka.InvalidConfig)
		}
		if one.Value == nil {
			return op, fmt.Errorf("setting %q is to be changed and has no value: %w", one.Name, kafka.InvalidRequest)
		}
		value := changedList(current(one.Name), *one.Value, one.Op == kmsg.IncrementalAlterConfigOpAppend)
		op.Value = &value
		return op, nil
	}
	return op, fmt.Errorf("operation %d on setting %q is not known: %w", one.Op, one.Name, kafka.InvalidRequest)
}

func changedList(current, change string, appending bool) string {
	list := config.ParseList(current)
	for _, word := range config.ParseList(change) {
		at := slices.Index(list, word)
		switch {
		case appending && at < 0:
			list = append(list, word)
		case !appending && at >= 0:
			list = slices.Delete(list, at, at+1)
		}
	}
	return strings.Join(list, ",")
}
