package api

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

func coordinatorOf(kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = keys[0], kind, keys
	return req
}

// The first who asks for a coordinator waits until its topic is there, with Kafka's own settings but for the counts
// that there are no brokers for.
func TestACoordinatorsTopicIsMadeAtItsFirstUse(t *testing.T) {
	n := newTestNode(t, nil)
	for kind, want := range map[int8]struct{ name, minISR, compression string }{
		0: {kafka.GroupMetadataTopic, "", "producer"},
		1: {kafka.TransactionStateTopic, "1", "uncompressed"},
	} {
		resp := ask[*kmsg.FindCoordinatorResponse](n, coordinatorOf(kind, "a", "", "a"), 6)
		if len(resp.Coordinators) != 3 {
			t.Fatalf("kind %d: %+v", kind, resp)
		}
		for i, key := range []string{"a", "", "a"} {
			c := resp.Coordinators[i]
			if c.Key != key || c.ErrorCode != 0 || c.ErrorMessage == nil || *c.ErrorMessage != "" ||
				c.NodeID != int32(testBroker) || c.Host != "127.0.0.1" || c.Port != 9092 {
				t.Errorf("kind %d: %+v", kind, c)
			}
		}
		topic := n.topic(want.name)
		if !topic.Internal || len(topic.Partitions) != 5 || len(topic.Partitions[0].Replicas) != 1 {
			t.Errorf("%+v", topic)
		}
		if topic.Configs["cleanup.policy"] != "compact" || topic.Configs["min.insync.replicas"] != want.minISR ||
			topic.Configs["compression.type"] != want.compression {
			t.Errorf("%s: %v", want.name, topic.Configs)
		}
	}
	if count := n.meta.Image().TopicCount(); count != 2 {
		t.Errorf("%d topics", count)
	}
}

func TestACoordinatorIsFoundInEveryVersion(t *testing.T) {
	n := newTestNode(t, nil)
	for version := range int16(7) {
		for kind := range int8(4) {
			if version == 0 && kind != 0 {
				continue // it knows groups only
			}
			resp := ask[*kmsg.FindCoordinatorResponse](n, coordinatorOf(kind, "a", "b"), version)
			want := kafka.None
			switch {
			case kind == 2 && version == 6:
				want = kafka.UnsupportedVersion
			case kind > 1:
				want = kafka.InvalidRequest
			}
			got := []int16{resp.ErrorCode}
			nodes := []int32{resp.NodeID}
			if version >= 4 {
				got, nodes = nil, nil
				for i, c := range resp.Coordinators {
					if key := []string{"a", "b"}[i]; c.Key != key {
						t.Errorf("kind %d, v%d: key %s", kind, version, c.Key)
					}
					got, nodes = append(got, c.ErrorCode), append(nodes, c.NodeID)
				}
			}
			node := int32(testBroker)
			if want != kafka.None {
				node = -1
			}
			for i := range got {
				if kafka.Errno(got[i]) != want || nodes[i] != node {
					t.Errorf("kind %d, v%d: %v at node %d, want %v", kind, version, kafka.Errno(got[i]), nodes[i], want)
				}
			}
		}
	}
}

// Nobody but the coordinators says what is in their topics, and how many partitions they have.
func TestClientsLeaveInternalTopicsAlone(t *testing.T) {
	n := newTestNode(t, nil)
	refused := func(what string, code int16) {
		t.Helper()
		if kafka.Errno(code) != kafka.InvalidTopic {
			t.Errorf("%s: %v", what, kafka.Errno(code))
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range []string{kafka.GroupMetadataTopic, kafka.TransactionStateTopic, kafka.ShareGroupStateTopic} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, topic)
	}
	for _, topic := range ask[*kmsg.CreateTopicsResponse](n, create, 7).Topics {
		refused("create "+topic.Topic, topic.ErrorCode)
	}
	ask[*kmsg.FindCoordinatorResponse](n, coordinatorOf(0, "a"), 6)
	name := kafka.GroupMetadataTopic
	topic := n.topic(name)

	remove := kmsg.NewPtrDeleteTopicsRequest()
	byName, byID := kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
	byName.Topic, byID.TopicID = &name, topic.ID
	remove.Topics = append(remove.Topics, byName)
	refused("delete", ask[*kmsg.DeleteTopicsResponse](n, remove, 6).Topics[0].ErrorCode)
	remove.Topics = []kmsg.DeleteTopicsRequestTopic{byID}
	refused("delete by id", ask[*kmsg.DeleteTopicsResponse](n, remove, 6).Topics[0].ErrorCode)

	more := kmsg.NewPtrCreatePartitionsRequest()
	more.Topics = append(more.Topics, kmsg.CreatePartitionsRequestTopic{Topic: name, Count: 60})
	refused("add partitions", ask[*kmsg.CreatePartitionsResponse](n, more, 3).Topics[0].ErrorCode)

	cut := kmsg.NewPtrDeleteRecordsRequest()
	cut.Topics = append(cut.Topics, kmsg.DeleteRecordsRequestTopic{
		Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{}},
	})
	refused("delete records", ask[*kmsg.DeleteRecordsResponse](n, cut, 2).Topics[0].Partitions[0].ErrorCode)

	for _, acks := range []int16{1, -1} {
		produced := ask[*kmsg.ProduceResponse](n, produceRequest(name, topic.ID, 0, acks, batch("a")), 13)
		refused("produce", produced.Topics[0].Partitions[0].ErrorCode)
	}
	if again := n.topic(name); !slices.Equal(again.Partitions[0].Replicas, topic.Partitions[0].Replicas) ||
		len(again.Partitions) != 5 {
		t.Errorf("%+v", again)
	}
}
