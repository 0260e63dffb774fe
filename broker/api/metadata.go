package api

import (
	"context"
	"net"
	"slices"
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
		return malformed(err)
	}
	if namesIDsTooEarly(request) {
		return now(req, refusedMetadata(request))
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
	if request.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = allClusterOperations
	}
	if asksForAll(request) {
		for topic := range img.Topics() {
			resp.Topics = append(resp.Topics, metadataTopic(img, topic))
		}
	} else {
		resp.Topics = h.askedTopics(img, request, failed)
	}
	if request.IncludeTopicAuthorizedOperations {
		for i := range resp.Topics {
			resp.Topics[i].AuthorizedOperations = allTopicOperations
		}
	}
	return resp
}

// askedTopics answers for each topic that is asked for, once, however often and by whatever it is named.
func (h *Handlers) askedTopics(img *image.Image, request *kmsg.MetadataRequest, failed map[string]int16,
) []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, len(request.Topics))
	named := make(map[string]bool, len(request.Topics))
	for i := range request.Topics {
		answer := h.metadataFor(img, &request.Topics[i])
		if name := answer.Topic; name != nil {
			if named[*name] {
				continue
			}
			named[*name] = true
			if answer.ErrorCode != 0 && failed[*name] != 0 {
				answer.ErrorCode = failed[*name]
			}
		}
		topics = append(topics, answer)
	}
	return topics
}

// metadataByIDFrom is the version from which on topics may be asked for by id; the field is there since v10.
const metadataByIDFrom = 12

// namesIDsTooEarly tells whether a request asks by id in a version that only has room for it.
func namesIDsTooEarly(request *kmsg.MetadataRequest) bool {
	return request.Version < metadataByIDFrom &&
		slices.ContainsFunc(request.Topics, func(asked kmsg.MetadataRequestTopic) bool {
			return asked.Topic == nil || !kafka.TopicID(asked.TopicID).IsZero()
		})
}

// refusedMetadata is the answer to a request that cannot be served: there is no field for an error of the whole.
func refusedMetadata(request *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.ControllerID = int32(kafka.NoBroker)
	resp.AuthorizedOperations = authorizedOperationsUnknown
	for i := range request.Topics {
		name := request.Topics[i].Topic
		if name == nil {
			name = new(string) // null came later, too
		}
		resp.Topics = append(resp.Topics, unknownTopic(name, request.Topics[i].TopicID, kafka.InvalidRequest))
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
		if name == nil || kafka.IsInternalTopic(*name) || *name == metadataTopicName || image.CheckTopicName(*name) != nil {
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
	topic.IsInternal = name != nil && kafka.IsInternalTopic(*name)
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
			if broker, alive := img.Broker(replica); !alive || !broker.Serves(spec.Directory(replica)) {
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
