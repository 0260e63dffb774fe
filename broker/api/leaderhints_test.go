package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
)

// TestLeaderHints has a partition on another broker, and one whose leader epoch has moved on (KIP-951).
func TestLeaderHints(t *testing.T) {
	n := newTestNode(t, nil)
	here, rack := n.createTopic("here", 1), "far"
	must(n.meta.Propose(n.conn.Context, command.RegisterBroker{
		ID: 8, Rack: &rack, Directories: []kafka.UUID{{8}},
		Listeners: []command.Endpoint{{Name: "PLAINTEXT", Host: "other.example", Port: 9093, Protocol: "PLAINTEXT"}},
	}))
	created := must(n.meta.Propose(n.conn.Context, command.CreateTopics{Topics: []command.NewTopic{{
		ID: kafka.TopicID{5}, Name: "elsewhere",
		Partitions: []command.NewPartition{{Replicas: []kafka.BrokerID{8}, Directories: []kafka.UUID{{8}}}},
	}}}))
	check(t, created.([]command.TopicResult)[0].Err)
	n.bumpEpoch()

	for version := int16(3); version <= 13; version++ {
		resp := ask[*kmsg.ProduceResponse](n, produceRequest("elsewhere", kafka.TopicID{5}, 0, acksAll, batch("x")), version)
		p := resp.Topics[0].Partitions[0]
		leader, brokers := int32(-1), 0
		if version >= 10 {
			leader, brokers = 8, 1
		}
		if kafka.Errno(p.ErrorCode) != kafka.NotLeaderOrFollower || p.CurrentLeader.LeaderID != leader ||
			len(resp.Brokers) != brokers {
			t.Errorf("produce v%d: %+v, brokers %+v", version, p, resp.Brokers)
		}
		for _, broker := range resp.Brokers {
			if broker.NodeID != 8 || broker.Host != "other.example" || broker.Port != 9093 || deref(broker.Rack) != rack {
				t.Errorf("produce v%d: %+v", version, broker)
			}
		}
	}
	for version := int16(9); version <= 18; version++ {
		req := fetchRequest("elsewhere", kafka.TopicID{5}, 0)
		fenced := fetchRequest("here", here, 0)
		fenced.Topics[0].Partitions[0].CurrentLeaderEpoch = 0
		unknown := fetchRequest("here", here, 0)
		unknown.Topics[0].Partitions[0].CurrentLeaderEpoch = 9
		req.Topics = append(req.Topics, fenced.Topics[0], unknown.Topics[0])
		resp := ask[*kmsg.FetchResponse](n, req, version)
		var got []kmsg.FetchResponseTopicPartition
		for _, topic := range resp.Topics {
			got = append(got, topic.Partitions...)
		}
		want := []struct {
			code          kafka.Errno
			leader, epoch int32
		}{
			{kafka.NotLeaderOrFollower, 8, 0}, {kafka.FencedLeaderEpoch, int32(testBroker), 1},
			{kafka.UnknownLeaderEpoch, -1, -1}, // the client is ahead: it must not be sent back
		}
		for i, want := range want {
			leader := got[i].CurrentLeader
			if version < 16 {
				want.leader, want.epoch = -1, -1
			}
			if kafka.Errno(got[i].ErrorCode) != want.code || leader.LeaderID != want.leader || leader.LeaderEpoch != want.epoch {
				t.Errorf("fetch v%d: %v, leader %+v; want %+v", version, kafka.Errno(got[i].ErrorCode), leader, want)
			}
		}
		if version >= 16 && (len(resp.Brokers) != 2 || resp.Brokers[1].Host != "127.0.0.1") {
			t.Errorf("fetch v%d: brokers %+v", version, resp.Brokers)
		}
	}
}

// A session that goes on hears of the leader, too: it names none of its partitions again.
func TestLeaderHintsInASession(t *testing.T) {
	n := newTestNode(t, nil)
	id := n.createTopic("a", 1)
	req := fetchRequest("a", id, 0)
	req.Topics[0].Partitions[0].CurrentLeaderEpoch, req.SessionEpoch = 0, 0
	session := ask[*kmsg.FetchResponse](n, req, 18).SessionID
	n.bumpEpoch()
	req.Topics, req.SessionID, req.SessionEpoch = nil, session, 1
	resp := ask[*kmsg.FetchResponse](n, req, 18)
	if len(resp.Topics) != 1 {
		t.Fatalf("%+v", resp)
	}
	p := resp.Topics[0].Partitions[0]
	if kafka.Errno(p.ErrorCode) != kafka.FencedLeaderEpoch || p.CurrentLeader.LeaderID != int32(testBroker) ||
		p.CurrentLeader.LeaderEpoch != 1 {
		t.Errorf("%v, leader %+v", kafka.Errno(p.ErrorCode), p.CurrentLeader)
	}
}
