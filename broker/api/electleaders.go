package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/wire"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/image"
)

// The kinds of election (KIP-460).
const (
	electPreferred int8 = 0
	electUnclean   int8 = 1
)

// electLeaders serves ElectLeaders v0–v2. With one replica a partition that has a leader needs no election, and one
// that has none cannot have one; null asks for all partitions, of which none needs one: only the topics are listed.
func (h *Handlers) electLeaders(_ context.Context, req *wire.Request) wire.Reply {
	request, err := decode(req, kmsg.NewPtrElectLeadersRequest())
	if err != nil {
		return malformed(err)
	}
	resp := kmsg.NewPtrElectLeadersResponse()
	known := request.ElectionType == electPreferred || request.ElectionType == electUnclean
	if !known {
		resp.ErrorCode = int16(kafka.InvalidRequest)
	}
	img := h.options.Metadata.Image()
	if request.Topics == nil && known {
		for topic := range img.Topics() {
			answer := kmsg.NewElectLeadersResponseTopic()
			answer.Topic = topic.Name
			resp.Topics = append(resp.Topics, answer)
		}
	}
	for i := range request.Topics {
		topic := kmsg.NewElectLeadersResponseTopic()
		topic.Topic = request.Topics[i].Topic
		for _, partition := range request.Topics[i].Partitions {
			answer := kmsg.NewElectLeadersResponseTopicPartition()
			answer.Partition = partition
			answer.ErrorCode, answer.ErrorMessage = fail(
				election(img, kafka.TopicPartition{Topic: topic.Topic, Partition: partition}, request.ElectionType))
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(req, resp)
}

// election says what an election would do.
func election(img *image.Image, tp kafka.TopicPartition, kind int8) error {
	partition, ok := img.Partition(tp)
	switch {
	case kind != electPreferred && kind != electUnclean:
		return fmt.Errorf("there is no election of type %d: %w", kind, kafka.InvalidRequest)
	case !ok:
		return fmt.Errorf("there is no partition %s: %w", tp, kafka.UnknownTopicOrPartition)
	case kind == electUnclean && partition.Leader != kafka.NoBroker,
		kind == electPreferred && partition.Leader == partition.Replicas[0]:
		return fmt.Errorf("%s already has the leader it should have: %w", tp, kafka.ElectionNotNeeded)
	case kind == electPreferred:
		return fmt.Errorf("the preferred leader of %s is not available: %w", tp, kafka.PreferredLeaderNotAvailable)
	}
	return fmt.Errorf("no replica of %s is alive: %w", tp, kafka.EligibleLeadersNotAvailable)
}
