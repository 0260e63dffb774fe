package api

import (
	"slices"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// The versions from which on an error that means "somebody else leads" says who, and how to reach them (KIP-951). In
// Fetch the field for the leader is older, but Kafka fills it only together with the address.
const (
	fetchLeaderHintsFrom   = 16
	produceLeaderHintsFrom = 10
)

// leaderHints are the leaders that one answer sends its client to. The zero value has none.
type leaderHints struct{ endpoints []wire.Endpoint }

// hint tells who leads a partition, nil if it is not known, and keeps how that broker is reached from the connection.
func (l *leaderHints) hint(h *Handlers, conn *wire.Conn, topic *image.Topic, partition int32) *wire.Leader {
	if topic == nil || partition < 0 || int(partition) >= len(topic.Partitions) {
		return nil
	}
	state := &topic.Partitions[partition]
	known := func(e wire.Endpoint) bool { return e.ID == state.Leader }
	if !slices.ContainsFunc(l.endpoints, known) {
		for _, broker := range h.options.Metadata.Image().Brokers {
			if broker.ID == state.Leader {
				l.endpoints = append(l.endpoints, h.endpoint(broker, conn))
			}
		}
	}
	return &wire.Leader{ID: state.Leader, Epoch: state.Epoch}
}

// endpoint is how a broker is reached from a connection.
func (h *Handlers) endpoint(broker *image.Broker, conn *wire.Conn) wire.Endpoint {
	endpoint := wire.Endpoint{ID: broker.ID}
	endpoint.Host, endpoint.Port = h.address(broker, conn)
	if broker.Rack != nil {
		endpoint.Rack = *broker.Rack
	}
	return endpoint
}

// namedTopic finds a topic as requests name it: by its id or, if that is zero, by its name. Nil if there is none.
func (h *Handlers) namedTopic(name string, id kafka.TopicID) *image.Topic {
	img := h.options.Metadata.Image()
	topic, ok := img.TopicByID(id)
	if id.IsZero() {
		topic, ok = img.Topic(name)
	}
	if !ok {
		return nil
	}
	return topic
}
