package api

import (
	"context"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// metadata serves Metadata v0–v13. No topics (null; empty in v0) means all, an empty list none. A topic is asked for
// by name, or from v12 on by id. Topics are not created on the way: auto.create.topics.enable does not act yet.
func (h *Handlers) metadata(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return h.malformed(req, err)
	}
	img := h.options.Metadata.Image()
	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = h.brokers(req.Conn)
	clusterID := img.ClusterID.String()
	resp.ClusterID = &clusterID
	resp.ControllerID = int32(img.Controller)
	resp.AuthorizedOperations = authorizedOperationsUnknown
	if request.Topics == nil || req.Version == 0 && len(request.Topics) == 0 {
		for topic := range img.Topics() {
			resp.Topics = append(resp.Topics, metadataTopic(img, topic))
		}
		return now(req, resp)
	}
	for i := range request.Topics {
		resp.Topics = append(resp.Topics, h.metadataFor(img, &request.Topics[i]))
	}
	return now(req, resp)
}

func (h *Handlers) metadataFor(img *image.Image, asked *kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	if asked.Topic == nil {
		if topic, ok := img.TopicByID(asked.TopicID); ok {
			return metadataTopic(img, topic)
		}
		return unknownTopic(nil, asked.TopicID, kafka.UnknownTopicID)
	}
	if topic, ok := img.Topic(*asked.Topic); ok {
		return metadataTopic(img, topic)
	}
	if err := image.CheckTopicName(*asked.Topic); err != nil {
		return unknownTopic(asked.Topic, kafka.TopicID{}, kafka.InvalidTopic)
	}
	return unknownTopic(asked.Topic, kafka.TopicID{}, kafka.UnknownTopicOrPartition)
}

func unknownTopic(name *string, id kafka.TopicID, code kafka.Errno) kmsg.MetadataResponseTopic {
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID, topic.ErrorCode = name, id, int16(code)
	return topic
}

// metadataTopic describes a topic. Every partition is listed, also one whose leader is not alive: a client that misses
// a partition forgets what it knows about it (ME-10).
func metadataTopic(img *image.Image, topic *image.Topic) kmsg.MetadataResponseTopic {
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic, answer.TopicID, answer.IsInternal = &topic.Name, topic.ID, topic.Internal
	answer.AuthorizedOperations = authorizedOperationsUnknown
	answer.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(topic.Partitions))
	for i := range topic.Partitions {
		spec := &topic.Partitions[i]
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Partition = int32(i)
		partition.Leader, partition.LeaderEpoch = int32(spec.Leader), int32(spec.Epoch)
		partition.Replicas, partition.ISR = brokerIDs(spec.Replicas), brokerIDs(spec.ISR)
		for _, replica := range spec.Replicas {
			if _, alive := img.Broker(replica); !alive {
				partition.OfflineReplicas = append(partition.OfflineReplicas, int32(replica))
			}
		}
		if _, alive := img.Broker(spec.Leader); !alive {
			partition.Leader, partition.ErrorCode = int32(kafka.NoBroker), int16(kafka.LeaderNotAvailable)
		}
		answer.Partitions[i] = partition
	}
	return answer
}

func brokerIDs(ids []kafka.BrokerID) []int32 {
	plain := make([]int32, len(ids))
	for i, id := range ids {
		plain[i] = int32(id)
	}
	return plain
}

// brokers lists the brokers with the address that this client should use.
func (h *Handlers) brokers(conn *wire.Conn) []kmsg.MetadataResponseBroker {
	img := h.options.Metadata.Image()
	brokers := make([]kmsg.MetadataResponseBroker, 0, len(img.Brokers))
	for _, broker := range img.Brokers {
		answer := kmsg.NewMetadataResponseBroker()
		answer.NodeID, answer.Rack = int32(broker.ID), broker.Rack
		answer.Host, answer.Port = h.address(broker, conn)
		brokers = append(brokers, answer)
	}
	return brokers
}

// address is what a client of this connection reaches the broker by: what it advertises for the client's listener or,
// where this broker advertises nothing, the address that the client has reached.
func (h *Handlers) address(broker *image.Broker, conn *wire.Conn) (host string, port int32) {
	for _, endpoint := range broker.Listeners {
		if endpoint.Name == conn.Listener && endpoint.Host != "" {
			return endpoint.Host, endpoint.Port
		}
	}
	host, text, err := net.SplitHostPort(conn.Local.String())
	if err != nil {
		return conn.Local.String(), 0
	}
	number, _ := strconv.ParseInt(text, 10, 32)
	return host, int32(number)
}
