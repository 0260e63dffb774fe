package api

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
)

// metadataTopicName is the name under which Kafka's tools ask for the metadata quorum; it has one partition.
const metadataTopicName = "__cluster_metadata"

// QuorumState is where the metadata quorum stands: the leader's epoch and the last committed entry.
type QuorumState struct{ LeaderEpoch, LastIndex int64 }

// describeQuorum serves DescribeQuorum v0–v2 (KIP-595): the metadata quorum as Kafka's tool shows its own. Offsets are
// indexes of the raft log.
func (h *Handlers) describeQuorum(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrDescribeQuorumRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.ErrorMessage = new(string) // as Kafka says that nothing is wrong
	if !asksForQuorum(request) {
		resp.Topics = withoutQuorum(request)
		return now(req, resp)
	}
	state, err := h.options.Quorum()
	if err != nil {
		h.options.Logger.Error("describe the metadata quorum", "err", err)
		resp.ErrorCode, resp.ErrorMessage = fail(err)
		return now(req, resp)
	}
	img := h.options.Metadata.Image()
	partition := kmsg.NewDescribeQuorumResponseTopicPartition()
	partition.LeaderID, partition.LeaderEpoch = int32(img.Controller), int32(state.LeaderEpoch)
	partition.ErrorMessage = new(string)
	partition.HighWatermark = state.LastIndex + 1
	voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	voter.ReplicaID, voter.LogEndOffset = int32(img.Controller), state.LastIndex+1
	voter.LastFetchTimestamp = time.Now().UnixMilli()
	voter.LastCaughtUpTimestamp = voter.LastFetchTimestamp
	partition.CurrentVoters = append(partition.CurrentVoters, voter)
	topic := kmsg.NewDescribeQuorumResponseTopic()
	topic.Topic = metadataTopicName
	topic.Partitions = append(topic.Partitions, partition)
	resp.Topics = append(resp.Topics, topic)
	for _, broker := range h.brokers(req.Conn) {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = broker.NodeID
		node.Listeners = []kmsg.DescribeQuorumResponseNodeListener{{
			Name: req.Conn.Listener, Host: broker.Host, Port: uint16(broker.Port),
		}}
		resp.Nodes = append(resp.Nodes, node)
	}
	return now(req, resp)
}

func asksForQuorum(request *kmsg.DescribeQuorumRequest) bool {
	return len(request.Topics) == 1 && request.Topics[0].Topic == metadataTopicName &&
		len(request.Topics[0].Partitions) == 1 && request.Topics[0].Partitions[0].Partition == 0
}

// withoutQuorum answers for partitions that have no quorum: all but the one of the metadata.
func withoutQuorum(request *kmsg.DescribeQuorumRequest) []kmsg.DescribeQuorumResponseTopic {
	var topics []kmsg.DescribeQuorumResponseTopic
	for i := range request.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = request.Topics[i].Topic
		for _, asked := range request.Topics[i].Partitions {
			partition := kmsg.NewDescribeQuorumResponseTopicPartition()
			partition.Partition = asked.Partition
			partition.ErrorCode, partition.ErrorMessage = fail(fmt.Errorf(
				"only partition 0 of %s has a quorum: %w", metadataTopicName, kafka.UnknownTopicOrPartition))
			topic.Partitions = append(topic.Partitions, partition)
		}
		topics = append(topics, topic)
	}
	return topics
}
