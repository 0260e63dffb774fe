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
// by name, or from v12 on by id. Where the broker and the request allow it, a topic that is missing is created on the
// way (auto.create.topics.enable), with the broker's defaults.
func (h *Handlers) metadata(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return h.malformed(req, err)
	}
	brokers := h.brokers(req.Conn)
	missing := h.missingTopics(request)
	if len(missing.Topics) == 0 {
		return now(req, h.metadataResponse(request, brokers, nil))
	}
	return later(req, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		failed := map[string]int16{}
		for _, created := range h.createAll(ctx, missing).Topics {
			failed[created.Topic] = created.ErrorCode
		}
		return h.metadataResponse(request, brokers, failed)
	})
}

// metadataResponse answers from the newest image. failed holds what became of topics that should have been created.
func (h *Handlers) metadataResponse(request *kmsg.MetadataRequest, brokers []kmsg.MetadataResponseBroker,
	failed map[string]int16,
) *kmsg.MetadataResponse {
	img := h.options.Metadata.Image()
	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = brokers
	clusterID := img.ClusterID.String()
	resp.ClusterID = &clusterID
	resp.ControllerID = int32(img.Controller)
	resp.AuthorizedOperations = authorizedOperationsUnknown
	if asksForAll(request) {
		for topic := range img.Topics() {
			resp.Topics = append(resp.Topics, metadataTopic(img, topic))
		}
		return resp
	}
	for i := range request.Topics {
		answer := h.metadataFor(img, &request.Topics[i])
		if name := request.Topics[i].Topic; name != nil && answer.ErrorCode != 0 && failed[*name] != 0 {
			answer.ErrorCode = failed[*name]
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

func asksForAll(request *kmsg.MetadataRequest) bool {
	return request.Topics == nil || request.Version == 0 && len(request.Topics) == 0
}

// missingTopics is the request to create what is asked for and missing, if that is allowed. Requests before v4 cannot
// say that they do not want it. Kafka's internal topics are made by the parts that need them, with settings of their
// own (ME-08).
func (h *Handlers) missingTopics(request *kmsg.MetadataRequest) *kmsg.CreateTopicsRequest {
	create := kmsg.NewPtrCreateTopicsRequest()
	if !h.options.AutoCreateTopics || request.Version >= 4 && !request.AllowAutoTopicCreation || asksForAll(request) {
		return create
	}
	img := h.options.Metadata.Image()
	for i := range request.Topics {
		name := request.Topics[i].Topic
		if name == nil || isInternalTopic(*name) || image.CheckTopicName(*name) != nil {
			continue
		}
		if _, exists := img.Topic(*name); exists {
			continue
		}
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = *name, -1, -1
		create.Topics = append(create.Topics, topic)
	}
	return create
}

// isInternalTopic tells whether a name belongs to a topic of Kafka's own.
func isInternalTopic(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state", metadataTopicName:
		return true
	}
	return false
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
